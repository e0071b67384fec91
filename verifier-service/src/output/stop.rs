//! Stop strings: where a text ends because of what it says.
//!
//! A stop string may be spread over tokens, and over rounds. Text that could be its beginning must not be shown before
//! it is known whether the rest follows; text that turns out not to be it must be shown, once, and in order. So text
//! goes through a [`StopMatcher`] one token after the other. It holds back the longest end of the text so far that some
//! stop string begins with, and nothing else.
//!
//! The match that is complete first ends the text; of several that are complete with the same character the longest
//! one, so that as little as possible of a stop string is shown. Neither depends on how the text is cut into tokens,
//! nor on how many tokens a round commits.

use std::sync::Arc;

/// Looks for stop strings in a text that arrives piece by piece.
#[derive(Clone, Debug)]
pub(super) struct StopMatcher {
    stops: Arc<[String]>,
    /// An end of the text that has not been released: the beginning of a stop string.
    held: String,
}

/// What a piece of text has made certain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Released {
    /// Text to show.
    pub(super) text: String,
    /// Whether a stop string is complete. It is not shown, and neither is what follows it.
    pub(super) stopped: bool,
}

impl StopMatcher {
    /// Stops at the first of these, none of which is empty.
    pub(super) fn new(stops: Arc<[String]>) -> Self {
        Self { stops, held: String::new() }
    }

    /// Takes the next piece of text. Unless it `may_stop`, a stop string that is complete with it is text like any other.
    pub(super) fn push(&mut self, text: &str, may_stop: bool) -> Released {
        if self.stops.is_empty() {
            return Released { text: text.to_owned(), stopped: false };
        }
        let n_before = self.held.len();
        self.held.push_str(text);
        if may_stop && let Some(start) = self.first_match(n_before) {
            let mut text = std::mem::take(&mut self.held);
            text.truncate(start);
            return Released { text, stopped: true };
        }
        let held = self.held.split_off(self.held.len() - self.n_undecided());
        Released { text: std::mem::replace(&mut self.held, held), stopped: false }
    }

    /// The text is over: what was held back was no stop string.
    pub(super) fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// Where the match begins that is complete first, of those that are not complete within the first `n_before` bytes.
    fn first_match(&self, n_before: usize) -> Option<usize> {
        let matches = self.stops.iter().filter_map(|stop| {
            let from = self.held.ceil_char_boundary((n_before + 1).saturating_sub(stop.len()));
            let start = from + self.held[from..].find(stop.as_str())?;
            Some((start + stop.len(), start))
        });
        matches.min().map(|(_, start)| start)
    }

    /// Bytes of the longest end of the text that a stop string begins with, but is longer than.
    fn n_undecided(&self) -> usize {
        let longest = self.stops.iter().map(|stop| stop.len() - 1).max().unwrap_or(0);
        let first = self.held.floor_char_boundary(self.held.len().saturating_sub(longest));
        let ends = self.held[first..].char_indices().map(|(index, _)| &self.held[first + index..]);
        let begins = |end: &&str| self.stops.iter().any(|stop| stop.len() > end.len() && stop.starts_with(*end));
        ends.into_iter().find(begins).map_or(0, str::len)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matcher(stops: &[&str]) -> StopMatcher {
        StopMatcher::new(stops.iter().map(|&stop| stop.to_owned()).collect())
    }

    /// What each piece shows, up to a match, and what the end adds.
    fn stream(stops: &[&str], pieces: &[&str]) -> (Vec<String>, Option<String>) {
        let mut matcher = matcher(stops);
        let mut shown = Vec::new();
        for piece in pieces {
            let Released { text, stopped } = matcher.push(piece, true);
            shown.push(text);
            if stopped {
                return (shown, None);
            }
        }
        (shown, Some(matcher.finish()))
    }

    fn stopped(shown: &[&str]) -> (Vec<String>, Option<String>) {
        (shown.iter().map(|&text| text.to_owned()).collect(), None)
    }

    fn finished(shown: &[&str], end: &str) -> (Vec<String>, Option<String>) {
        (shown.iter().map(|&text| text.to_owned()).collect(), Some(end.to_owned()))
    }

    #[test]
    fn nothing_of_a_stop_string_is_shown() {
        assert_eq!(stream(&["DEFGHIJ"], &["DEF", "G", "HI", "J"]), stopped(&["", "", "", ""]));
        assert_eq!(stream(&["END"], &["aE", "NDb"]), stopped(&["a", ""]));
        assert_eq!(stream(&["world"], &["\u{1F980}wor", "ld\u{1F980}"]), stopped(&["\u{1F980}", ""]));
        assert_eq!(stream(&["\u{1F980}"], &["a", "\u{1F980}", "b"]), stopped(&["a", ""]));
    }

    #[test]
    fn what_was_no_stop_string_is_shown_once() {
        assert_eq!(stream(&["END"], &["E", "N", "X"]), finished(&["", "", "ENX"], ""));
        assert_eq!(stream(&["END"], &["E", "N"]), finished(&["", ""], "EN"));
        assert_eq!(stream(&["\n", "Alice:"], &[" Alice", "!"]), finished(&[" ", "Alice!"], ""));
        let words = ["As the thr", "ee of th", "em made ", "their way"];
        let (shown, end) = stream(&["three X"], &words);
        assert_eq!((shown.concat() + &end.unwrap_or_default()), words.concat());
    }

    #[test]
    fn a_stop_string_may_begin_inside_one_that_fails() {
        assert_eq!(stream(&["aab"], &["aaab"]), stopped(&["a"]));
        assert_eq!(stream(&["aab"], &["a", "a", "a", "b"]), stopped(&["", "", "a", ""]));
        assert_eq!(stream(&["abcd", "bc"], &["ab", "c"]), stopped(&["", "a"]));
    }

    #[test]
    fn the_match_that_is_complete_first_counts_and_of_two_the_longer() {
        assert_eq!(stream(&["cd", "bcx", "abc"], &["abcd"]), stopped(&[""]));
        assert_eq!(stream(&["b", "ab"], &["xab"]), stopped(&["x"]));
    }

    #[test]
    fn what_was_complete_too_early_is_text() {
        let stream = |stops: &[&str], early: &[&str], then: &[&str]| {
            let mut matcher = matcher(stops);
            let early: String = early.iter().map(|piece| matcher.push(piece, false).text).collect();
            let then: Vec<Released> = then.iter().map(|piece| matcher.push(piece, true)).collect();
            let stopped = then.iter().any(|released| released.stopped);
            (early, then.into_iter().map(|released| released.text).collect::<String>(), stopped)
        };
        let text = |early: &str, then: &str, stopped| (early.to_owned(), then.to_owned(), stopped);
        assert_eq!(stream(&["END"], &["aEND", "b"], &["c", "END"]), text("aENDb", "c", true));
        assert_eq!(stream(&["END"], &["aEN"], &["D"]), text("a", "", true), "complete in time, begun before");
        assert_eq!(stream(&["abc", "b"], &["ab"], &["x", "b"]), text("", "abx", true), "held for another's sake");
        assert_eq!(stream(&["é"], &["aé"], &["bé"]), text("aé", "b", true));
    }

    #[test]
    fn without_stop_strings_nothing_is_held() {
        assert_eq!(stream(&[], &["a", "b"]), finished(&["a", "b"], ""));
    }

    /// By definition: the shortest beginning of the text that ends with a stop string, without the longest such string.
    fn by_definition(stops: &[String], text: &str) -> Option<String> {
        let ends = text.char_indices().map(|(index, character)| &text[..index + character.len_utf8()]);
        let complete = |beginning: &str| stops.iter().filter(|stop| beginning.ends_with(*stop)).map(String::len).max();
        ends.into_iter().find_map(|beginning| Some(beginning[..beginning.len() - complete(beginning)?].to_owned()))
    }

    proptest! {
        /// However a text is cut into tokens, the same is shown of it, and never anything of a stop string.
        #[test]
        fn cuts_do_not_matter(stops in prop::collection::vec("[abé🦀]{1,4}", 0..4),
                              pieces in prop::collection::vec("[abé🦀]{0,3}", 0..16)) {
            let names: Vec<&str> = stops.iter().map(String::as_str).collect();
            let parts: Vec<&str> = pieces.iter().map(String::as_str).collect();
            let (shown, end) = stream(&names, &parts);
            let text = parts.concat();
            match by_definition(&stops, &text) {
                Some(expected) => prop_assert_eq!((shown.concat(), end), (expected, None)),
                None => prop_assert_eq!(shown.concat() + &end.expect("the text goes on to its end"), text),
            }
        }

        /// What is held back could still become a stop string: nothing waits for longer than it must.
        #[test]
        fn nothing_is_held_without_a_reason(stops in prop::collection::vec("[ab]{1,4}", 1..4),
                                            pieces in prop::collection::vec("[ab]{1,2}", 0..16)) {
            let mut matcher = StopMatcher::new(stops.iter().cloned().collect());
            for piece in pieces {
                if matcher.push(&piece, true).stopped {
                    break;
                }
                prop_assert!(matcher.held.is_empty() || stops.iter().any(|stop| stop.starts_with(&matcher.held)));
            }
        }
    }
}
