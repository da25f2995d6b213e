//! Keeps what a run that delivered left, before its flow hears of the end: its files are copied into the data directory, and
//! what it changed in its private copy becomes commits. What cannot be kept makes a delivery a failure.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orc_domain::flow::Artifact;
use orc_domain::graph::MAX_ARTIFACT_BYTES;
use orc_domain::ids::{ContentHasher, FlowId, RunId};
use orc_domain::input::{Ending, Input, Told};
use orc_domain::run::{Cause, ErrorFamily, Failure};
use orc_domain::time::Timestamp;
use orc_domain::tree::Tree;
use orc_ports::worktrees::{Conversation, WorktreeError};

use crate::models;
use crate::places::{self, Files, Left};
use crate::shell::{Shell, chain};

/// `O_NONBLOCK` of Linux: a pipe without a writer is opened at once, and then found to be no file.
const NO_WAIT: i32 = 0o4000;
/// Bytes copied at once.
const CHUNK: usize = 64 * 1024;

/// Keeps what a run left, now that its process is gone, and then tells its flow how it ended. Not in the flow's own loop,
/// which would hear of nothing else meanwhile.
pub(crate) async fn keep_and_tell(shell: Arc<Shell>, wanted: BTreeMap<String, String>, left: Left, ended: Ended) {
    let Ended { flow, run, at, mut ending, mut told } = ended;
    if left.has_door() {
        models::close(&shell, run, &mut told).await;
    }
    let delivered = matches!(ending, Ending::Delivered { .. });
    let kept = match keep(&shell, flow, run, (wanted, &left, delivered)).await {
        Ok(kept) => delivered.then_some(kept),
        Err(failure) => {
            if delivered {
                ending = Ending::Failed(failure);
            } else {
                tracing::warn!(%run, why = failure.detail, "the copy of a run was not given back");
            }
            None
        }
    };
    if let Some((artifacts, tree)) = kept {
        shell.router.deliver(flow, at, Input::RunKept { run, artifacts, tree });
    }
    shell.router.deliver(flow, at, Input::RunEnded { run, ending, told });
}

/// The end of a run that nothing was kept of yet.
pub(crate) struct Ended {
    pub(crate) flow: FlowId,
    pub(crate) run: RunId,
    pub(crate) at: Timestamp,
    pub(crate) ending: Ending,
    pub(crate) told: Option<Told>,
}

async fn keep(
    shell: &Shell,
    flow: FlowId,
    run: RunId,
    (wanted, left, delivered): (BTreeMap<String, String>, &Left, bool),
) -> Result<(BTreeMap<String, Artifact>, Option<Tree>), Failure> {
    let failure = |cause, detail| Failure { family: ErrorFamily::Unknown, cause, detail };
    let artifacts = if delivered { wanted } else { BTreeMap::new() };
    let kept = match left.files() {
        _ if artifacts.is_empty() => Ok(BTreeMap::new()),
        Files::Directory(root) => copy_all(shell, (flow, run), root, artifacts).await,
        Files::Copy(conversation) => extract_all(shell, (flow, run), conversation, artifacts).await,
    };
    // Its files are looked for first: a copy is saved whether they are there or not.
    let tree = places::keep(shell, left, delivered).await;
    let tree = tree.map_err(|error| match error {
        WorktreeError::Conflict(conflict) => failure(Cause::Conflict(conflict), String::new()),
        other => failure(Cause::Worktree, chain(&other)),
    })?;
    Ok((kept.map_err(|detail| failure(Cause::Artifact, detail))?, tree))
}

async fn copy_all(
    shell: &Shell,
    (flow, run): (FlowId, RunId),
    root: &Path,
    wanted: BTreeMap<String, String>,
) -> Result<BTreeMap<String, Artifact>, String> {
    let root = root.to_owned();
    let places: Vec<(String, String, PathBuf)> = wanted
        .into_iter()
        .map(|(name, path)| {
            let place = shell.data.artifact(flow, run, &name);
            (name, path, place)
        })
        .collect();
    let copied = tokio::task::spawn_blocking(move || {
        let copies = places.into_iter().map(|(name, path, place)| {
            let kept = copy(&root, &path, &place).map_err(|why| format!("`{path}`: {why}"))?;
            Ok((name, kept))
        });
        copies.collect::<Result<BTreeMap<String, Artifact>, String>>()
    });
    copied.await.map_err(|error| error.to_string())?
}

/// The same out of a private copy, which only a box looks into.
async fn extract_all(
    shell: &Shell,
    (flow, run): (FlowId, RunId),
    conversation: &Conversation,
    wanted: BTreeMap<String, String>,
) -> Result<BTreeMap<String, Artifact>, String> {
    let mut kept = BTreeMap::new();
    for (name, path) in wanted {
        let place = shell.data.artifact(flow, run, &name);
        let part = place.with_extension("part");
        let parent = place.parent().unwrap_or(&place).to_owned();
        let text = |error: std::io::Error| format!("`{path}`: {error}");
        std::fs::create_dir_all(parent).map_err(text)?;
        let extracted = shell.worktrees.extract(conversation.clone(), path.clone(), part.clone(), MAX_ARTIFACT_BYTES);
        if let Err(error) = extracted.await {
            // Half a file is nothing that anybody asked for.
            let _ = std::fs::remove_file(&part);
            return Err(format!("`{path}`: {}", chain(&error)));
        }
        let directory = part.parent().unwrap_or(&part).to_owned();
        let file = part.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        let whole = tokio::task::spawn_blocking(move || {
            let kept = copy(&directory, &file, &place);
            // Copied or not, it is not wanted under this name any more.
            let _ = std::fs::remove_file(directory.join(&file));
            kept
        });
        let artifact = whole.await.map_err(|error| error.to_string())?.map_err(|why| format!("`{path}`: {why}"))?;
        kept.insert(name, artifact);
    }
    Ok(kept)
}

/// Copies a file that lies below `root`, links resolved, and names it once it is whole.
fn copy(root: &Path, path: &str, place: &Path) -> Result<Artifact, String> {
    let text = |error: std::io::Error| error.to_string();
    let root = root.canonicalize().map_err(text)?;
    let from = root.join(path).canonicalize().map_err(text)?;
    if !from.starts_with(&root) {
        return Err("it leads out of the place where the step works".to_owned());
    }
    let mut source = std::fs::File::options().read(true).custom_flags(NO_WAIT).open(&from).map_err(text)?;
    let about = source.metadata().map_err(text)?;
    if !about.is_file() {
        return Err("it is no file; pack a folder into an archive to keep it".to_owned());
    }
    let parent = place.parent().unwrap_or(place);
    std::fs::create_dir_all(parent).map_err(text)?;
    let part = place.with_extension("copy");
    let mut target = std::fs::File::create(&part).map_err(text)?;
    let (mut hash, mut bytes, mut buffer) = (ContentHasher::default(), 0_u64, vec![0_u8; CHUNK]);
    loop {
        let read = source.read(&mut buffer).map_err(text)?;
        if read == 0 {
            break;
        }
        bytes += read as u64;
        if bytes > MAX_ARTIFACT_BYTES {
            // What was copied so far is nothing that anybody asked for.
            let _ = std::fs::remove_file(&part);
            return Err(format!("it has more than {MAX_ARTIFACT_BYTES} bytes"));
        }
        hash.update(&buffer[..read]);
        target.write_all(&buffer[..read]).map_err(text)?;
    }
    target.sync_all().map_err(text)?;
    std::fs::rename(&part, place).map_err(text)?;
    let file = place.to_str().ok_or("the data directory has a name that is not UTF-8")?.to_owned();
    Ok(Artifact { file, bytes, hash: hash.finish() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use orc_domain::ids::ContentHash;

    #[test]
    fn a_file_is_kept_whole_and_only_from_below_the_place_of_work() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("work");
        std::fs::create_dir_all(root.join("out")).unwrap();
        std::fs::write(root.join("out/report"), b"all well").unwrap();
        std::fs::write(directory.path().join("secret"), b"no").unwrap();
        std::os::unix::fs::symlink("../secret", root.join("link")).unwrap();
        let place = directory.path().join("kept/run/report");
        let kept = copy(&root, "out/report", &place).unwrap();
        assert_eq!((kept.bytes, std::fs::read(&kept.file).unwrap()), (8, b"all well".to_vec()));
        assert_eq!(kept.hash, ContentHash::of(b"all well"));
        let refused = |path: &str| copy(&root, path, &directory.path().join("kept/x")).unwrap_err();
        assert!(refused("link").contains("leads out"), "{}", refused("link"));
        assert!(refused("out").contains("no file"));
        let made = std::os::unix::net::UnixListener::bind(root.join("socket"));
        assert!(made.is_ok() && !refused("socket").is_empty());
        assert!(refused("nothing").contains("No such file"));
        assert!(!directory.path().join("kept/x").exists());
    }
}
