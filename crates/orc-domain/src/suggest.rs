//! "Did you mean": the closest known word to one that is not known.

/// The candidate that is nearest to `word` by edit distance (a swap of neighbours counts once), if it is near enough to
/// be a slip of the hand: at most a third of the longer word, at least one edit. Ties go to the first candidate.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let folded = word.to_lowercase();
    candidates
        .into_iter()
        .filter_map(|candidate| {
            let longer = folded.chars().count().max(candidate.chars().count());
            let allowed = (longer / 3).max(1);
            let distance = distance(&folded, &candidate.to_lowercase(), allowed)?;
            // One edit in a word of one or two letters is a different word.
            (distance == 0 || longer > 2).then_some((distance, candidate))
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Edits that lead from one word to the other, `None` above `limit`.
fn distance(from: &str, to: &str, limit: usize) -> Option<usize> {
    let from: Vec<char> = from.chars().collect();
    let to: Vec<char> = to.chars().collect();
    // A word as long as a file is no slip of the hand; this also bounds the table below.
    if from.len().abs_diff(to.len()) > limit || from.len().max(to.len()) > 128 {
        return None;
    }
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (row, left) in from.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, right) in to.iter().enumerate() {
            let mut best =
                (last[column] + usize::from(left != right)).min(last[column + 1] + 1).min(current[column] + 1);
            if row > 0 && column > 0 && *left == to[column - 1] && from[row - 1] == *right {
                best = best.min(before_last[column - 1] + 1);
            }
            current.push(best);
        }
        before_last = std::mem::replace(&mut last, current);
    }
    last.last().copied().filter(|edits| *edits <= limit)
}

#[cfg(test)]
mod tests {
    use super::closest;

    #[test]
    fn slips_are_found_and_other_words_are_not() {
        let known = ["needs", "name", "run", "retry", "foreach", "continue_on_fail"];
        let cases = [
            ("neds", Some("needs")),
            ("need", Some("needs")),
            ("NAME", Some("name")),
            ("rnu", Some("run")),
            ("for_each", Some("foreach")),
            ("continue_on_error", Some("continue_on_fail")),
            ("x", None),
            ("timeout", None),
            ("", None),
        ];
        for (word, wanted) in cases {
            assert_eq!(closest(word, known), wanted, "{word}");
        }
        assert_eq!(closest(&"n".repeat(10_000), known), None);
    }
}
