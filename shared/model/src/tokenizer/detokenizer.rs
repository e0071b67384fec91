//! Tokens to text while they arrive.
//!
//! Tokens are bytes and characters may be split between them: an emoji is often two to four tokens. Text can only be
//! shown in whole characters, so a tail that may still become one is held back. It must not be held for ever either:
//! bytes that can no longer become a character are replaced by U+FFFD as soon as that is certain.

use specfleet_speculation::TokenId;

use super::Tokenizer;

/// Puts the bytes of tokens together to characters.
#[derive(Clone, Debug, Default)]
pub struct Detokenizer {
    /// The beginning of a character: at most three bytes.
    held: Vec<u8>,
}

impl Detokenizer {
    /// With nothing held.
    pub fn new() -> Self {
        Self::default()
    }

    /// The text that a token completes, possibly empty. Special tokens add nothing.
    pub fn push(&mut self, tokenizer: &Tokenizer, id: TokenId) -> String {
        tokenizer.token_bytes(id).map_or_else(String::new, |bytes| self.push_bytes(bytes))
    }

    /// The text that ends with the name of a special token. A character that was not complete before will never be.
    pub fn push_name(&mut self, tokenizer: &Tokenizer, id: TokenId) -> String {
        self.finish() + &String::from_utf8_lossy(tokenizer.spelling(id).unwrap_or_default())
    }

    /// The end of the text: a character that was never completed becomes one U+FFFD.
    pub fn finish(&mut self) -> String {
        let unfinished = !std::mem::take(&mut self.held).is_empty();
        if unfinished { char::REPLACEMENT_CHARACTER.to_string() } else { String::new() }
    }

    fn push_bytes(&mut self, bytes: &[u8]) -> String {
        self.held.extend_from_slice(bytes);
        let mut text = String::new();
        let mut n_shown = 0;
        for chunk in self.held.utf8_chunks() {
            text.push_str(chunk.valid());
            n_shown += chunk.valid().len();
            let invalid = chunk.invalid();
            let is_tail = n_shown + invalid.len() == self.held.len();
            if invalid.is_empty() || (is_tail && may_become_character(invalid)) {
                break;
            }
            text.push(char::REPLACEMENT_CHARACTER);
            n_shown += invalid.len();
        }
        self.held.drain(..n_shown);
        text
    }
}

/// Whether more bytes could make this a character. The standard library reports exactly that: an error without a
/// length means that the input ended too soon.
fn may_become_character(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What each piece makes visible, and what the end adds.
    fn stream(pieces: &[&[u8]]) -> (Vec<String>, String) {
        let mut detokenizer = Detokenizer::new();
        let shown = pieces.iter().map(|piece| detokenizer.push_bytes(piece)).collect();
        (shown, detokenizer.finish())
    }

    #[test]
    fn a_split_emoji_is_shown_once_it_is_whole() {
        let crab = "🦀".as_bytes();
        for split in 1..4 {
            let (shown, end) = stream(&[b"a", &crab[..split], &crab[split..], b"b"]);
            assert_eq!(shown, ["a", "", "🦀", "b"], "split after {split} bytes");
            assert_eq!(end, "");
        }
        let (shown, _) = stream(&[&crab[..1], &crab[1..2], &crab[2..3], &crab[3..]]);
        assert_eq!(shown, ["", "", "", "🦀"]);
    }

    #[test]
    fn a_rejected_second_half_leaves_one_replacement() {
        let crab = "🦀".as_bytes();
        let (shown, end) = stream(&[&crab[..2], "é".as_bytes()]);
        assert_eq!(shown, ["", "\u{FFFD}é"]);
        assert_eq!(end, "");
    }

    #[test]
    fn an_impossible_byte_is_replaced_at_once() {
        let (shown, end) = stream(&[b"A", &[0xFF], b"B"]);
        assert_eq!(shown, ["A", "\u{FFFD}", "B"]);
        assert_eq!(end, "");
    }

    #[test]
    fn a_tail_that_never_ends_is_one_replacement() {
        let (shown, end) = stream(&[&[0xE4], &[0xBD]]);
        assert_eq!(shown, ["", ""]);
        assert_eq!(end, "\u{FFFD}");
    }

    proptest! {
        /// However the bytes are cut, the text is what the whole would give, and nothing but the start of a character is held.
        #[test]
        fn cuts_do_not_matter(bytes in prop::collection::vec(prop_oneof![0u8..128, 0xC0u8..=0xFF, 0x80u8..0xC0], 0..40),
                              cuts in prop::collection::vec(1usize..5, 0..40)) {
            let mut detokenizer = Detokenizer::new();
            let mut text = String::new();
            let mut rest = bytes.as_slice();
            for cut in cuts.into_iter().chain(std::iter::repeat(40)) {
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                text.push_str(&detokenizer.push_bytes(piece));
                prop_assert!(detokenizer.held.len() < 4);
                rest = after;
                if rest.is_empty() { break; }
            }
            text.push_str(&detokenizer.finish());
            prop_assert_eq!(text, String::from_utf8_lossy(&bytes));
        }
    }
}
