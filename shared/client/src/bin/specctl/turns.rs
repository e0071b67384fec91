//! Answers that come at the same time, shown one after the other.
//!
//! Interleaved, nobody could read them. So the first one is shown as it comes, and the others are held back until those
//! before them are complete.

/// Which of the answers is on the screen, and what the others have so far. Every method returns what is to be shown now.
#[derive(Debug)]
pub(crate) struct Turns {
    answers: Vec<Held>,
    current: usize,
    is_open: bool,
}

#[derive(Debug, Default, Clone)]
struct Held {
    text: String,
    is_over: bool,
}

impl Turns {
    pub(crate) fn new(n_answers: usize) -> Self {
        Self { answers: vec![Held::default(); n_answers], current: 0, is_open: false }
    }

    /// Begins with the first answer.
    pub(crate) fn open(&mut self) -> String {
        self.is_open = true;
        self.heading()
    }

    /// A piece of an answer.
    pub(crate) fn push(&mut self, answer_idx: usize, piece: &str) -> String {
        self.answers[answer_idx].text += piece;
        if answer_idx == self.current { piece.to_owned() } else { String::new() }
    }

    /// The end of an answer: of the one on the screen, and then others may follow.
    pub(crate) fn end(&mut self, answer_idx: usize) -> String {
        self.answers[answer_idx].is_over = true;
        let mut shown = String::new();
        while let Some(last) = self.answers.get(self.current).filter(|answer| answer.is_over) {
            if !last.text.is_empty() && !last.text.ends_with('\n') {
                shown.push('\n');
            }
            self.current += 1;
            if let Some(next) = self.answers.get(self.current) {
                shown += &format!("\n{}{}", self.heading(), next.text);
            }
        }
        shown
    }

    /// The end of everything, complete or not.
    pub(crate) fn close(&mut self) -> String {
        if !self.is_open {
            return String::new();
        }
        (0..self.answers.len()).map(|answer_idx| self.end(answer_idx)).collect()
    }

    /// A single answer has none.
    fn heading(&self) -> String {
        match self.answers.len() {
            1 => String::new(),
            n_answers => format!("--- {} of {n_answers} ---\n", self.current + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_answer_is_shown_as_it_comes() {
        let mut turns = Turns::new(1);
        assert_eq!([turns.open(), turns.push(0, "a"), turns.push(0, "b"), turns.end(0)], ["", "a", "b", "\n"]);
        assert_eq!(turns.close(), "");
    }

    #[test]
    fn others_wait_for_their_turn() {
        let mut turns = Turns::new(3);
        assert_eq!(turns.open(), "--- 1 of 3 ---\n");
        assert_eq!([turns.push(1, "b\n"), turns.push(0, "a"), turns.end(1), turns.push(2, "c")], ["", "a", "", ""]);
        assert_eq!(turns.end(0), "\n\n--- 2 of 3 ---\nb\n\n--- 3 of 3 ---\nc");
        assert_eq!([turns.push(2, "!"), turns.end(2), turns.close()], ["!", "\n", ""]);
    }

    #[test]
    fn what_was_held_back_is_shown_when_all_is_stopped() {
        let mut turns = Turns::new(2);
        turns.open();
        assert_eq!([turns.push(1, "b"), turns.push(0, "a")], ["", "a"]);
        assert_eq!(turns.close(), "\n\n--- 2 of 2 ---\nb\n");
    }

    #[test]
    fn nothing_that_never_began_is_shown() {
        assert_eq!(Turns::new(2).close(), "");
    }
}
