//! Log-probabilities in the two forms of this API. What they are, [`crate::engine`] says: the target's own, before any
//! transform.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Serialize, Serializer};
use specfleet_model::tokenizer::Tokenizer;
use specfleet_speculation::TokenId;

use crate::output::{OutputToken, TokenScore};

/// JSON has no minus infinity. Other servers send this number for a token that cannot occur.
const IMPOSSIBLE: f32 = -9999.0;

/// A log-probability that JSON can hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Logprob(f32);

impl Serialize for Logprob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f32(self.0.max(IMPOSSIBLE))
    }
}

/// A token with its score, ready to be written in either form. Clones share everything: the prompt of a call is scored
/// once, and stands before each of its continuations.
#[derive(Clone, Debug)]
pub(super) struct Scored(Arc<Entry>);

#[derive(Debug)]
struct Entry {
    token: Spelled,
    /// Characters of the text that the token completes.
    n_chars: usize,
    /// Absent for the first token of a prompt, which follows nothing.
    score: Option<(Logprob, Vec<(Spelled, Logprob)>)>,
}

/// A token as it is spelled. A part of a character is no text by itself.
#[derive(Clone, Debug)]
struct Spelled(Vec<u8>);

impl Scored {
    /// A token of an answer; `None` if it was not scored.
    pub(super) fn of(token: &OutputToken, tokenizer: &Tokenizer) -> Option<Self> {
        token.score.as_ref().map(|score| Self::new(token.token, token.n_chars, Some(score), tokenizer))
    }

    pub(super) fn new(token: TokenId, n_chars: usize, score: Option<&TokenScore>, tokenizer: &Tokenizer) -> Self {
        let spelled = |token| Spelled(tokenizer.spelling(token).unwrap_or_default().to_vec());
        let score = score.map(|TokenScore { logprob, top }| {
            let top = top.iter().map(|&(token, logprob)| (spelled(token), Logprob(logprob)));
            (Logprob(*logprob), top.collect())
        });
        Self(Arc::new(Entry { token: spelled(token), n_chars, score }))
    }
}

/// Characters that tokens complete, shown or not: text that may yet become a stop string is shown with a later one.
pub(super) fn n_chars(tokens: Option<&[Scored]>) -> usize {
    tokens.into_iter().flatten().map(|scored| scored.0.n_chars).sum()
}

impl Spelled {
    /// For readers.
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }

    /// For keys: parts of characters must not look the same.
    fn name(&self) -> String {
        match str::from_utf8(&self.0) {
            Ok(text) => text.to_owned(),
            Err(_) => self.0.iter().fold("bytes:".to_owned(), |name, byte| name + &format!("\\x{byte:02x}")),
        }
    }
}

/// The form of `/v1/chat/completions`.
#[derive(Debug, Serialize)]
pub(super) struct ChatLogprobs {
    content: Vec<ChatToken>,
    refusal: Option<()>,
}

#[derive(Debug, Serialize)]
struct ChatToken {
    #[serde(flatten)]
    token: ChatAlternative,
    top_logprobs: Vec<ChatAlternative>,
}

#[derive(Debug, Serialize)]
struct ChatAlternative {
    token: String,
    logprob: Logprob,
    bytes: Vec<u8>,
}

impl ChatLogprobs {
    pub(super) fn new(tokens: Vec<Scored>) -> Self {
        let alternative = |token: &Spelled, logprob: Logprob| ChatAlternative {
            token: token.text(),
            logprob,
            bytes: token.0.clone(),
        };
        let content = tokens.into_iter().filter_map(|Scored(entry)| {
            let (logprob, top) = entry.score.as_ref()?;
            let top_logprobs = top.iter().map(|(token, logprob)| alternative(token, *logprob)).collect();
            Some(ChatToken { token: alternative(&entry.token, *logprob), top_logprobs })
        });
        Self { content: content.collect(), refusal: None }
    }
}

/// The form of `/v1/completions`: lists of one entry for each token.
#[derive(Debug, Default, Serialize)]
pub(super) struct CompletionLogprobs {
    tokens: Vec<String>,
    token_logprobs: Vec<Option<Logprob>>,
    /// The likeliest tokens and, whether or not it is among them, the token itself. Of tokens that are spelled alike, which
    /// this form cannot tell apart, the token itself counts, or else the likeliest.
    top_logprobs: Vec<Option<BTreeMap<String, Logprob>>>,
    /// Where the text of each token begins, in characters from the beginning of the text. A token in the middle of a
    /// character begins where the character does.
    text_offset: Vec<usize>,
}

impl CompletionLogprobs {
    /// Of tokens whose text begins after `offset` characters.
    pub(super) fn new(tokens: Vec<Scored>, mut offset: usize) -> Self {
        let mut lists = Self::default();
        for Scored(entry) in tokens {
            let name = entry.token.name();
            lists.text_offset.push(offset);
            offset += entry.n_chars;
            lists.token_logprobs.push(entry.score.as_ref().map(|(logprob, _)| *logprob));
            lists.top_logprobs.push(entry.score.as_ref().map(|(logprob, top)| {
                // A later entry takes the place of an earlier one, and the likeliest come first.
                let top = top.iter().rev().map(|(token, logprob)| (token.name(), *logprob));
                top.chain([(name.clone(), *logprob)]).collect()
            }));
            lists.tokens.push(name);
        }
        lists
    }
}
