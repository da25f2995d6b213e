//! Room for the results of one turn together: each is bounded by its tool, and many of them at once would still fill what a
//! model can read. What does not fit any more goes to a file where the tools are, and the model gets its beginning with the
//! path. Which those are is decided as they come; the record has what the model was told, so it stays so.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use orc_process::hands::{Use, Used};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::hands::KEEP;
use crate::place::{Place, PlaceError};
use crate::tools;

/// Most bytes of the results of a turn that are told as they are.
const TURN_BYTES: usize = 200_000;
/// Bytes of the beginning of one that is not; a result that is no longer is always told.
const BEGINNING: usize = 1_000;

/// What is left for the results of a turn.
#[derive(Clone, Debug)]
pub(crate) struct Room(Arc<AtomicUsize>);

impl Default for Room {
    fn default() -> Self {
        Self(Arc::new(AtomicUsize::new(TURN_BYTES)))
    }
}

impl Room {
    /// A result as the model is told it.
    pub(crate) async fn fit(&self, place: &dyn Place, text: String) -> String {
        let take = |left: usize| left.checked_sub(text.len());
        let fits = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok();
        if fits || text.len() <= BEGINNING {
            return text;
        }
        let whole = keep(place, &text).await;
        let shown = &text[..text.floor_char_boundary(BEGINNING)];
        let shown = shown.rfind('\n').map_or(shown, |end| &shown[..end]);
        format!(
            "{shown}\n[{} of {} bytes are left out here, since the results of one answer have more than {TURN_BYTES} together; \
             {whole}]",
            text.len() - shown.len(),
            text.len()
        )
    }
}

/// Has it kept in a file; where that is, or why it is not.
async fn keep(place: &dyn Place, text: &str) -> String {
    let wanted =
        Use { name: KEEP.to_owned(), input: json!({ "text": text }), seen: BTreeMap::new(), without: Vec::new() };
    match place.lift(wanted, tools::bounds(KEEP), Arc::new(|_| {}), CancellationToken::new()).await {
        Ok(Used { file: Some(file), .. }) => format!("all of it is in {}", file.display()),
        Ok(Used { text, .. }) => format!("the rest is lost: {text}"),
        Err(PlaceError::Lost { why } | PlaceError::Broken { why }) => format!("the rest is lost: {why}"),
    }
}

#[cfg(test)]
mod tests;
