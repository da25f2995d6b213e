//! Keeps files of a run that delivered: they are copied into the data directory before the flow hears of the end, so that a
//! step that succeeded has its artifacts. A file that is not there makes a delivery a failure.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use orc_domain::flow::Artifact;
use orc_domain::graph::MAX_ARTIFACT_BYTES;
use orc_domain::ids::{ContentHasher, RunId};
use orc_domain::input::{Ending, Input};
use orc_domain::run::{Cause, ErrorFamily, Failure};
use orc_engine::Resident;

use crate::shell::Shell;

/// `O_NONBLOCK` of Linux: a pipe without a writer is opened at once, and then found to be no file.
const NO_WAIT: i32 = 0o4000;
/// Bytes copied at once.
const CHUNK: usize = 64 * 1024;

/// Keeps the files of a run that delivered; what is to be heard before its end. A delivery that lacks one becomes none.
pub(crate) async fn harvest(shell: &Shell, resident: &Resident, input: &mut Input) -> Option<Input> {
    let Input::RunEnded { run, ending, .. } = input else { return None };
    let wanted = resident.flow().runs.get(run).map(|record| record.artifacts.clone())?;
    if wanted.is_empty() || !matches!(ending, Ending::Delivered { .. }) {
        return None;
    }
    match keep(shell, resident, *run, wanted).await {
        Ok(artifacts) => Some(Input::RunKept { run: *run, artifacts }),
        Err(detail) => {
            *ending = Ending::Failed(Failure { family: ErrorFamily::Unknown, cause: Cause::Artifact, detail });
            None
        }
    }
}

async fn keep(
    shell: &Shell,
    resident: &Resident,
    run: RunId,
    wanted: BTreeMap<String, String>,
) -> Result<BTreeMap<String, Artifact>, String> {
    let flow = resident.flow().spec.id;
    let root = PathBuf::from(&resident.flow().spec.directory);
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
    let part = place.with_extension("part");
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
