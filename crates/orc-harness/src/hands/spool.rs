//! Output that is kept: all of it in a file, its beginning and its end for whoever asks.
//!
//! However much is written, memory does not grow. A file that cannot be written any more loses the rest, and says so.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use orc_process::hands::{Floor, Used};

use super::{Outcome, Refusal, input};

/// Most bytes that a file of output gets.
pub(super) const MOST_KEPT: u64 = 256 << 20;
/// Files of output in one directory.
const MOST_FILES: u32 = 10_000;

/// A file that takes output up to [`MOST_KEPT`].
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) file: File,
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    pub(super) dropped: u64,
}

impl Kept {
    /// Makes a new file below the directory for temporary files.
    pub(super) fn make(env: &BTreeMap<String, String>) -> io::Result<Self> {
        let directory = Path::new(env.get("ORC_TEMP").map_or("/tmp", String::as_str));
        std::fs::create_dir_all(directory)?;
        // The same names for the same run: numbers, not chance.
        for number in 1..MOST_FILES {
            let path = directory.join(format!("output-{number}.txt"));
            match File::options().read(true).write(true).create_new(true).open(&path) {
                Ok(file) => return Ok(Self { file, path, bytes: 0, dropped: 0 }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other(format!("there are {MOST_FILES} files of output already: remove some")))
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        let fits = usize::try_from(MOST_KEPT - self.bytes).unwrap_or(usize::MAX).min(bytes.len());
        let written = if self.dropped == 0 && self.file.write_all(&bytes[..fits]).is_ok() { fits } else { 0 };
        self.bytes += written as u64;
        self.dropped += (bytes.len() - written) as u64;
    }
}

/// Keeps a text that somebody else has.
pub(super) fn keep(wanted: &input::Keep, floor: &dyn Floor) -> Outcome {
    let failed = |error: io::Error| Refusal(format!("no file could be made for it ({error})"));
    let mut kept = Kept::make(floor.env()).map_err(failed)?;
    kept.file.write_all(wanted.text.as_bytes()).map_err(failed)?;
    Ok(Used { file: Some(kept.path), ..Used::default() })
}

/// Output with a beginning and an end that are held.
pub(super) struct Spool<'a> {
    env: &'a BTreeMap<String, String>,
    bound: usize,
    /// All, as long as that is not more than the bound; then its beginning.
    head: Vec<u8>,
    /// What is after the beginning, or the end of it.
    tail: Vec<u8>,
    total: u64,
    kept: Option<io::Result<Kept>>,
}

impl<'a> Spool<'a> {
    pub(super) fn new(env: &'a BTreeMap<String, String>, bound: usize) -> Self {
        Self { env, bound, head: Vec::new(), tail: Vec::new(), total: 0, kept: None }
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        if let Some(kept) = &mut self.kept {
            if let Ok(kept) = kept {
                kept.add(bytes);
            }
            self.tail.extend_from_slice(bytes);
        } else {
            self.head.extend_from_slice(bytes);
            if self.head.len() <= self.bound {
                return;
            }
            self.keep();
            self.tail = self.head.split_off(self.bound / 2);
        }
        if self.tail.len() > 2 * self.bound {
            self.tail.drain(..self.tail.len() - self.bound / 2);
        }
    }

    fn keep(&mut self) {
        let mut kept = Kept::make(self.env);
        if let Ok(kept) = &mut kept {
            kept.add(&self.head);
        }
        self.kept = Some(kept);
    }

    /// The last line that was written, as far as it is there.
    pub(super) fn last_line(&self) -> String {
        let end = if self.tail.is_empty() { &self.head } else { &self.tail };
        let end = &end[end.len().saturating_sub(300)..];
        String::from_utf8_lossy(end).trim_end().lines().last().unwrap_or_default().to_owned()
    }

    /// What is told of it, and where the whole is if that is not all.
    pub(super) fn finish(mut self) -> (String, Option<PathBuf>) {
        let is_binary = self.head.contains(&0) || self.tail.contains(&0);
        if is_binary && self.kept.is_none() {
            self.keep();
        }
        let told = match &self.kept {
            None => text(&self.head),
            Some(kept) => {
                let place = match kept {
                    Ok(kept) if kept.dropped > 0 => {
                        format!("the first {} of them are in {}", kept.bytes, kept.path.display())
                    }
                    Ok(kept) => format!("all of it is in {}", kept.path.display()),
                    Err(error) => format!("the rest is lost: no file could be made for it ({error})"),
                };
                let total = self.total;
                if is_binary {
                    format!("[{total} bytes that are no text; {place}]\n")
                } else {
                    let end = &self.tail[self.tail.len().saturating_sub(self.bound / 2)..];
                    let left_out = total - (self.head.len() + end.len()) as u64;
                    let middle = format!("[{left_out} of {total} bytes are left out here; {place}]");
                    format!("{}\n{middle}\n{}", text(&self.head).trim_end_matches('\n'), text(end))
                }
            }
        };
        (told, self.kept.and_then(Result::ok).map(|kept| kept.path))
    }
}

/// Output as text, never longer than it is in bytes: what is no UTF-8 in it is a question mark.
pub(super) fn text(bytes: &[u8]) -> String {
    bytes.utf8_chunks().fold(String::new(), |text, chunk| {
        let unknown = if chunk.invalid().is_empty() { "" } else { "?" };
        text + chunk.valid() + unknown
    })
}
