//! `Edit`, `MultiEdit` and `Write`: files changed as a whole, and only when they are as the conversation saw them.

mod change;
mod nearest;

use std::collections::BTreeMap;

use orc_process::hands::{Floor, Used};

use super::input::{self, Replacement};
use super::offers::TEXT_BYTES;
use super::place::{self, MOST_BYTES, Place};
use super::save::save;
use super::text::{Encoding, Text, with_ending};
use super::walk::is_over;
use super::{Outcome, Refusal};

/// Places that are named when there are several.
const MOST_PLACES: usize = 10;

type Seen = BTreeMap<String, String>;

pub(super) fn edit(wanted: input::Edit, seen: &Seen, floor: &dyn Floor) -> Outcome {
    change(&wanted.file_path, &[wanted.edit], seen, floor)
}

pub(super) fn multi_edit(wanted: &input::MultiEdit, seen: &Seen, floor: &dyn Floor) -> Outcome {
    if wanted.edits.is_empty() {
        return Err("`edits` is empty: there is nothing to do.".into());
    }
    change(&wanted.file_path, &wanted.edits, seen, floor)
}

pub(super) fn write(wanted: &input::Write, seen: &Seen, floor: &dyn Floor) -> Outcome {
    let place = Place::find(&wanted.file_path, floor.cwd())?;
    if place.kind.is_none() {
        return create(&place, &wanted.content, floor);
    }
    let before = place.read()?;
    check_seen(&place, &before, seen)?;
    let before = text_of(&place, &before)?;
    let after = Text::new(before.encoding, with_ending(&wanted.content, before.ending()));
    // What the encoding of before cannot say becomes UTF-8: it was all given anew.
    let after = if after.encode().is_err() { Text::new(Encoding::Utf8, wanted.content.clone()) } else { after };
    finish(&place, &before, &after, floor)
}

fn change(path: &str, edits: &[Replacement], seen: &Seen, floor: &dyn Floor) -> Outcome {
    let place = Place::find(path, floor.cwd())?;
    if let ([first], None) = (edits, place.kind)
        && first.old_string.is_empty()
    {
        return create(&place, &first.new_string, floor);
    }
    let bytes = place.read()?;
    check_seen(&place, &bytes, seen)?;
    let before = text_of(&place, &bytes)?;
    let mut after = before.clone();
    for (at, edit) in edits.iter().enumerate() {
        if is_over(floor) {
            return Err(format!("`{}` is unchanged: the time was over before all edits were made.", place.shown).into());
        }
        after = apply(&after, edit).map_err(|why| match edits.len() {
            1 => Refusal(format!("`{}`: {why}", place.shown)),
            all => Refusal(format!("`{}` is unchanged: edit {} of {all}: {why}", place.shown, at + 1)),
        })?;
    }
    finish(&place, &before, &after, floor)
}

/// One edit; what is wrong with it, in a sentence, if it does not fit.
fn apply(text: &Text, edit: &Replacement) -> Result<Text, String> {
    let (old, new) = (with_ending(&edit.old_string, "\n"), with_ending(&edit.new_string, "\n"));
    if old.is_empty() {
        return Err(
            "the file exists, and an empty `old_string` only makes new ones. Name the text to replace.".to_owned()
        );
    }
    if old == new {
        return Err("`old_string` and `new_string` are the same: nothing would change.".to_owned());
    }
    let normal = text.normal();
    let count = normal.matches(&old).count();
    let length = normal.len().saturating_add(count.saturating_mul(new.len())) - count * old.len();
    // As a text it may be twice as long as in the encoding of the file.
    if length > 2 * MOST_BYTES {
        return Err(format!("the file would have {length} bytes; at most {MOST_BYTES} are written at once."));
    }
    let places: Vec<_> = normal.match_indices(&old).map(|(place, _)| place..place + old.len()).collect();
    match places.len() {
        0 => Err(format!("`old_string` is not in the file. {}", nearest::explain(normal, &old))),
        1 => Ok(text.replace(&places, &new)),
        _ if edit.replace_all.unwrap_or(false) => Ok(text.replace(&places, &new)),
        count => {
            let lines = places.iter().take(MOST_PLACES).map(|place| line_of(normal, place.start).to_string());
            let more = if count > MOST_PLACES { ", ..." } else { "" };
            Err(format!(
                "`old_string` is there {count} times, from lines {}{more}. Take more of the lines around the one that is meant \
                 into it, or set `replace_all`.",
                lines.collect::<Vec<_>>().join(", ")
            ))
        }
    }
}

fn line_of(text: &str, place: usize) -> usize {
    text[..place].matches('\n').count() + 1
}

/// Only what the conversation saw as it is now may be changed.
fn check_seen(place: &Place, bytes: &[u8], seen: &Seen) -> Result<(), Refusal> {
    let led = match &place.link {
        Some(link) => format!("`{link}` leads through a link to `{}`, which", place.shown),
        None => format!("`{}`", place.shown),
    };
    match seen.get(&place.key()?) {
        Some(stamp) if *stamp == place::stamp(bytes) => Ok(()),
        Some(_) => {
            Err(format!("{led} was changed since it was read. Read it again, then decide anew what to change.").into())
        }
        None if Text::decode(bytes).is_err() => {
            Err(format!("{led} is no text, so it is not changed by this tool. To replace it, remove it in Bash first.")
                .into())
        }
        None => Err(format!("{led} was not read in this conversation. Read it first.").into()),
    }
}

fn text_of(place: &Place, bytes: &[u8]) -> Result<Text, Refusal> {
    Text::decode(bytes).map_err(|binary| Refusal(format!("`{}` is {}: it cannot be edited.", place.shown, binary.kind)))
}

fn create(place: &Place, content: &str, floor: &dyn Floor) -> Outcome {
    if let Some(link) = &place.link {
        let to = &place.shown;
        return Err(format!(
            "`{link}` is, or leads through, a link to `{to}`, which does not exist. To make that, write `{to}`."
        )
        .into());
    }
    check_length(place, content.len())?;
    save(place, content.as_bytes())?;
    let lines = content.lines().count();
    let text = format!("Made `{}`: {lines} lines, {} bytes.", place.shown, content.len());
    let bound = floor.bound().unwrap_or(TEXT_BYTES);
    let text = text[..text.floor_char_boundary(bound)].to_owned();
    Ok(Used { text, seen: place::stamped(place, content.as_bytes())?, ..Used::default() })
}

fn finish(place: &Place, before: &Text, after: &Text, floor: &dyn Floor) -> Outcome {
    let bytes = after.encode().map_err(|other| {
        let remark = before.encoding.remark().unwrap_or("UTF-8");
        Refusal(format!(
            "`{}` is unchanged: `{other}` cannot be written in its encoding ({remark}). Use characters that it has, or convert the \
             file in Bash (`iconv -t utf-8`) and read it again.",
            place.shown
        ))
    })?;
    check_length(place, bytes.len())?;
    save(place, &bytes)?;
    let bound = floor.bound().unwrap_or(TEXT_BYTES);
    let mut text = place.detour();
    text.push_str(&change::describe(&place.shown, before.normal(), after.normal(), bound.saturating_sub(text.len())));
    Ok(Used { text, seen: place::stamped(place, &bytes)?, ..Used::default() })
}

fn check_length(place: &Place, length: usize) -> Result<(), Refusal> {
    if length <= MOST_BYTES {
        return Ok(());
    }
    Err(format!("`{}` would have {length} bytes; at most {MOST_BYTES} are written at once.", place.shown).into())
}
