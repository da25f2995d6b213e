//! What is said of a run when its process is over and nobody else writes to its log any more.

use std::io::{ErrorKind, SeekFrom};
use std::path::Path;

use orc_domain::time::Timestamp;
use orc_ports::log::{LOG_VERSION, LogKind, LogLine, MAX_LINE_BYTES};
use tokio::fs::File;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _, AsyncWriteExt as _};

/// Bytes at the end of a log that its last line is certainly in: one of output may be escaped, each byte as six.
const LAST: u64 = 8 * MAX_LINE_BYTES as u64;

/// Appends notes; the log of a run that said nothing begins with them.
pub(crate) async fn note(log: &Path, at: Timestamp, notes: &[String]) -> std::io::Result<()> {
    let mut open = File::options();
    open.read(true).append(true).create(true).mode(0o600);
    let mut file = match (open.open(log).await, log.parent()) {
        (Err(error), Some(folder)) if error.kind() == ErrorKind::NotFound => {
            tokio::fs::create_dir_all(folder).await?;
            open.open(log).await?
        }
        (opened, _) => opened?,
    };
    let mut seq = last_seq(&mut file).await?;
    let mut lines = Vec::new();
    for note in notes {
        seq += 1;
        let text = Some(note.clone());
        let line = LogLine { v: LOG_VERSION, seq, at, kind: LogKind::Note, text, bytes: None, part: false };
        serde_json::to_writer(&mut lines, &line)?;
        lines.push(b'\n');
    }
    file.write_all(&lines).await?;
    file.flush().await
}

/// The number of the last line; 0 in an empty log.
async fn last_seq(file: &mut File) -> std::io::Result<u64> {
    let length = file.metadata().await?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LAST))).await?;
    let mut end = Vec::new();
    file.read_to_end(&mut end).await?;
    let last = end.trim_ascii_end().rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(serde_json::from_slice::<LogLine>(last).map_or(0, |line| line.seq))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn notes_are_numbered_on_from_what_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("flow/run.jsonl");
        let at = Timestamp::from_millis(7);
        let numbers = || -> Vec<(u64, String)> {
            let text = std::fs::read_to_string(&log).unwrap();
            let lines = text.lines().map(|line| serde_json::from_str::<LogLine>(line).unwrap());
            lines.map(|line| (line.seq, line.text.unwrap())).collect()
        };
        note(&log, at, &["one".to_owned(), "two\nlines".to_owned()]).await.unwrap();
        note(&log, at, &["x".repeat(100_000)]).await.unwrap();
        note(&log, at, &["four".to_owned()]).await.unwrap();
        let numbers = numbers();
        assert_eq!(numbers.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert_eq!(numbers[1].1, "two\nlines");
    }
}
