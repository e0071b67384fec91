//! A text of a few megabytes takes a second to tokenise, and then it turns out not to fit. Most such texts show it at their
//! beginning.

use specfleet_model::tokenizer;
use specfleet_speculation::TokenId;

use super::Rules;

/// Bytes of a token in text that is far from ordinary: in English there are four, and fewer in all else.
const MANY_BYTES: usize = 16;
/// Where a text is cut, tokens come out otherwise than they would in the whole. Never half of them.
const MARGIN: usize = 2;

impl Rules {
    /// The ids of a text; unless it must be `whole`, of a text that cannot fit so many of the first that this is certain.
    pub(super) fn ids_of(
        &self,
        text: &str,
        special_tokens: bool,
        whole: bool,
    ) -> Result<Vec<TokenId>, tokenizer::Error> {
        let end = text.floor_char_boundary(self.context_length.saturating_mul(MANY_BYTES));
        if !whole && end < text.len() {
            let ids = self.tokenizer.encode(&text[..end], special_tokens)?;
            if ids.len() > MARGIN * self.context_length {
                return Ok(ids);
            }
        }
        self.tokenizer.encode(text, special_tokens)
    }
}
