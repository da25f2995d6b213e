//! A place like the one in which a run began, for whoever wants to see what its tools do there: laid out from what its record
//! says, under ids that belong to no flow, and removed afterwards.
//!
//! It has no network, nothing of the machine that it may change, and no way to a model; a run that cannot be looked at so is
//! refused. Whoever calls this holds the data directory. When it dies in between, what is left belongs to a flow that nobody
//! knows, and goes when somebody carries flows on (`leftovers`).

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use orc_domain::confine::BoxRules;
use orc_domain::graph::MAX_OUTPUT_BYTES;
use orc_domain::ids::{FlowId, RunId};
use orc_domain::input::Ending;
use orc_domain::path::StepPath;
use orc_domain::tree::{Place, PrivateCopy};
use orc_ports::executor::{Launch, Limits};
use orc_ports::harness::Outset;
use orc_ports::reader::Reader;
use orc_ports::worktrees::{Conversation, WorktreeError, Worktrees};

use crate::data_dir::DataDir;
use crate::places::{self, Means, Settled, Who};
use crate::shell::Shape;

/// The run whose place is meant.
#[derive(Clone, Debug)]
pub struct Original {
    /// Its flow.
    pub flow: FlowId,
    /// Itself.
    pub run: RunId,
    /// Its step.
    pub path: StepPath,
    /// Which attempt it was.
    pub attempt: u32,
    /// What it began with.
    pub outset: Outset,
    /// What it was told: artifacts that are named there are in its box.
    pub told: Vec<String>,
}

/// Why there is no such place.
#[derive(Debug, thiserror::Error)]
pub enum FreshError {
    /// It worked without a box.
    #[error("it worked in `{directory}` itself, without a copy and without a box")]
    InPlace {
        /// Where.
        directory: String,
    },
    /// What an earlier run left was there when it began.
    #[error("it went on in the copy that an earlier run of its step had left, which is not recorded")]
    GoesOn,
    /// It could change more than its copy.
    #[error("its box may change `{path}` of this machine, and its tools would do so again")]
    Writes {
        /// What.
        path: String,
    },
    /// There is none to be had.
    #[error("{why}")]
    NotLaidOut {
        /// Why.
        why: String,
    },
}

/// Why something of it is still there.
#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    /// Its copy.
    #[error("its copy is still there")]
    Copy(#[source] WorktreeError),
    /// Its private files.
    #[error("`{}` is still there", directory.display())]
    Files {
        /// Where.
        directory: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// Such a place.
pub struct FreshPlace {
    /// Makes copies.
    pub worktrees: Arc<dyn Worktrees>,
    /// Says who asked for the flow.
    pub reader: Arc<dyn Reader>,
    /// Where files lie.
    pub data: DataDir,
    /// Settings of now.
    pub shape: Shape,
    /// Belongs to no flow: under its name everything lies.
    pub flow: FlowId,
    /// Belongs to no run: it has the copy.
    pub run: RunId,
}

impl FreshPlace {
    /// Lays it out: all that a program in it needs but the program.
    ///
    /// # Errors
    /// [`FreshError`]; what was made by then is there until [`FreshPlace::remove`].
    pub async fn lay_out(&self, original: &Original) -> Result<Launch, FreshError> {
        let Original { flow, path, attempt, outset, told, .. } = original;
        let boxed = closed(&outset.place)?;
        let who = Who {
            flow: *flow,
            lies: self.flow,
            run: self.run,
            path,
            attempt: *attempt,
            agent: Some(&outset.profile.name),
            told: told.iter().map(String::as_str).collect(),
        };
        let (worktrees, reader) = (self.worktrees.as_ref(), self.reader.as_ref());
        let means = Means { worktrees, reader, data: &self.data, boxes: &self.shape.boxes };
        let laid_out = places::lay_out(means, &who, boxed, outset.env.clone()).await;
        let (settled, _) = laid_out.map_err(|ending| FreshError::NotLaidOut { why: why(ending) })?;
        let Settled { directory, confinement, env, .. } = settled;
        let files = self.data.flow_temp(self.flow);
        Ok(Launch {
            // The one that its programs see.
            run: original.run,
            argv: Vec::new(),
            directory,
            confinement,
            secrets: self.shape.boxes.redacted(),
            env,
            log: files.join("log.jsonl"),
            output: self.data.output(self.flow, self.run),
            temp: self.data.step_temp(self.flow, path),
            limits: Limits { log_bytes: self.shape.log_bytes, output_bytes: MAX_OUTPUT_BYTES as u64 },
            stdin: None,
            tap: None,
            host: None,
        })
    }

    /// Removes all that was made, with what was changed in it.
    ///
    /// # Errors
    /// When something stays, and why.
    pub async fn remove(&self, original: &Original) -> Result<(), RemoveError> {
        let conversation = Conversation { flow: self.flow, path: original.path.clone() };
        self.worktrees.discard(conversation, self.run).await.map_err(RemoveError::Copy)?;
        let directory = self.data.flow_temp(self.flow);
        match tokio::fs::remove_dir_all(&directory).await {
            Err(source) if source.kind() != ErrorKind::NotFound => Err(RemoveError::Files { directory, source }),
            _ => Ok(()),
        }
    }
}

/// What a place is laid out from that harms nothing outside of itself; else why there is none.
fn closed(place: &Place) -> Result<(Option<PrivateCopy>, BoxRules), FreshError> {
    let (copy, rules) = match place {
        Place::InPlace { directory } => return Err(FreshError::InPlace { directory: directory.clone() }),
        Place::Boxed { copy, rules } => (copy.clone(), rules.clone()),
    };
    if copy.as_ref().is_some_and(|copy| copy.goes_on) {
        return Err(FreshError::GoesOn);
    }
    if let Some(path) = rules.write.first() {
        return Err(FreshError::Writes { path: path.clone() });
    }
    Ok((copy, BoxRules { network: BTreeSet::new(), ..rules }))
}

fn why(ending: Ending) -> String {
    match ending {
        Ending::Failed(failure) => failure.to_string(),
        Ending::Blocked { why, .. } | Ending::NoDeliverable { missing: why } => why,
        Ending::Delivered { .. } => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boxed(goes_on: bool, rules: BoxRules) -> Place {
        let copy = PrivateCopy { repositories: Vec::new(), from: Vec::new(), goes_on, holds_conflict: false };
        Place::Boxed { copy: Some(copy), rules }
    }

    #[test]
    fn only_what_harms_nothing_outside_is_laid_out_and_without_a_network() {
        let names = |name: &str| BTreeSet::from([name.to_owned()]);
        let open = BoxRules { network: names("example.org"), read: names("~/data"), ..BoxRules::default() };
        let (copy, rules) = closed(&boxed(false, open.clone())).unwrap();
        assert!(copy.is_some());
        assert_eq!(rules, BoxRules { network: BTreeSet::new(), ..open.clone() });
        let refused = [
            (Place::InPlace { directory: "/srv/app".to_owned() }, "it worked in `/srv/app` itself"),
            (boxed(true, open.clone()), "it went on in the copy"),
            (boxed(false, BoxRules { write: names("~/out"), ..open }), "its box may change `~/out`"),
        ];
        for (place, wanted) in refused {
            let why = closed(&place).unwrap_err().to_string();
            assert!(why.starts_with(wanted), "{why}");
        }
    }
}
