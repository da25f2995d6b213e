//! What a person types while something is shown on the terminal: whole lines, as the terminal gives them.

use std::io::{BufRead as _, IsTerminal as _};

use orc_domain::request::Answer;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Lines from a person. Nothing is read before it is wanted: a program in the background that reads is stopped.
#[derive(Default)]
pub(crate) struct Typed(Option<UnboundedReceiver<String>>);

impl Typed {
    /// Whether somebody sits at the terminal that this program has in the foreground.
    pub(crate) fn is_possible() -> bool {
        let stdin = std::io::stdin();
        let ours = rustix::process::getpgrp();
        stdin.is_terminal() && rustix::termios::tcgetpgrp(&stdin).is_ok_and(|foreground| foreground == ours)
    }

    /// Begins to read, if that is possible and has not begun.
    pub(crate) fn begin(&mut self) {
        if self.0.is_some() || !Self::is_possible() {
            return;
        }
        let (sender, receiver) = unbounded_channel();
        // It waits for a person, so nobody can wait for it: it goes with the program.
        let reading = std::thread::Builder::new().name("typed".to_owned()).spawn(move || {
            let lines = std::io::stdin().lock().lines();
            lines.map_while(Result::ok).take_while(|line| sender.send(line.clone()).is_ok()).for_each(drop);
        });
        self.0 = reading.is_ok().then_some(receiver);
    }

    /// The next line; for ever, when there is nobody who types.
    pub(crate) async fn next(&mut self) -> String {
        if let Some(lines) = &mut self.0
            && let Some(line) = lines.recv().await
        {
            return line;
        }
        self.0 = None;
        std::future::pending().await
    }
}

/// What a line means as an answer: yes or no, and the words beside it. `None` when it means nothing.
pub(crate) fn reply(is_question: bool, line: &str) -> Option<(Answer, String)> {
    let line = line.trim();
    if is_question {
        // Any word may be the answer to a question, so that denying it is none of them.
        return match line {
            "" => None,
            "/deny" => Some((Answer::Denied, String::new())),
            answer => Some((Answer::Approved, answer.to_owned())),
        };
    }
    let (word, reason) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let answer = match word.to_ascii_lowercase().as_str() {
        "y" | "yes" | "approve" => Answer::Approved,
        "n" | "no" | "deny" => Answer::Denied,
        _ => return None,
    };
    Some((answer, reason.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_an_answer_or_none() {
        let cases = [
            ("y", Some((Answer::Approved, ""))),
            (" Yes  looks good ", Some((Answer::Approved, "looks good"))),
            ("n not today", Some((Answer::Denied, "not today"))),
            ("maybe", None),
            ("", None),
        ];
        for (line, wanted) in cases {
            assert_eq!(reply(false, line), wanted.map(|(answer, reason)| (answer, reason.to_owned())), "{line}");
        }
        assert_eq!(reply(true, "no, the other"), Some((Answer::Approved, "no, the other".to_owned())));
        assert_eq!(reply(true, "/deny"), Some((Answer::Denied, String::new())));
        assert_eq!(reply(true, "  "), None);
    }
}
