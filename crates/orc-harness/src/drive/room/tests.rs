use std::path::PathBuf;
use std::sync::Mutex;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use orc_domain::confine::Violation;

use super::*;
use crate::place::{Bounds, Progress, Ran, Seen};

/// A place that keeps what it is given, or cannot.
#[derive(Default)]
struct Shelf {
    kept: Mutex<Vec<String>>,
    is_full: bool,
}

impl Place for Shelf {
    fn lift<'a>(
        &'a self,
        wanted: Use,
        _: Bounds,
        _: Progress,
        _: CancellationToken,
    ) -> BoxFuture<'a, Result<Used, PlaceError>> {
        let mut kept = self.kept.lock().unwrap();
        kept.push(wanted.input["text"].as_str().unwrap().to_owned());
        let file = (!self.is_full).then(|| format!("/kept/{}", kept.len()).into());
        let text = if self.is_full { "no space".to_owned() } else { String::new() };
        std::future::ready(Ok(Used { text, file, failed: self.is_full, ..Used::default() })).boxed()
    }

    fn read<'a>(&'a self, _: PathBuf) -> BoxFuture<'a, Result<Seen, PlaceError>> {
        std::future::ready(Ok(Seen::Nothing)).boxed()
    }

    fn run<'a>(&'a self, _: &'a [&'a str]) -> BoxFuture<'a, Result<Ran, PlaceError>> {
        std::future::ready(Ok(Ran { ok: false, stdout: String::new() })).boxed()
    }

    fn close<'a>(&'a self, _: bool) -> BoxFuture<'a, Vec<Violation>> {
        std::future::ready(Vec::new()).boxed()
    }
}

fn fit(room: &Room, shelf: &Shelf, text: &str) -> String {
    room.fit(shelf, text.to_owned()).now_or_never().unwrap()
}

#[test]
fn what_does_not_fit_is_kept_and_told_by_its_beginning() {
    let (room, shelf) = (Room::default(), Shelf::default());
    let line = "\u{e4} line of some length\n";
    let long = line.repeat(90_000 / line.len());
    assert_eq!(fit(&room, &shelf, &long), long);
    assert_eq!(fit(&room, &shelf, &long), long);
    let told = fit(&room, &shelf, &long);
    assert!(told.starts_with(line) && told.len() < 1_300 && told.ends_with("all of it is in /kept/1]"), "{told}");
    assert_eq!(*shelf.kept.lock().unwrap(), std::slice::from_ref(&long));
    // What is short fits as long as there is room, and what is very short always.
    let short = "x".repeat(19_000);
    assert_eq!(fit(&room, &shelf, &short), short);
    assert!(fit(&room, &shelf, &short).starts_with(&"x".repeat(1_000)));
    assert_eq!(fit(&room, &shelf, "done"), "done");
    assert_eq!(shelf.kept.lock().unwrap().len(), 2);
}

#[test]
fn what_cannot_be_kept_is_said_to_be_lost() {
    let (room, shelf) = (Room::default(), Shelf { is_full: true, ..Shelf::default() });
    let told = fit(&room, &shelf, &"x".repeat(300_000));
    assert!(told.ends_with("the rest is lost: no space]"), "{told}");
}
