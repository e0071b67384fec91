//! Log-probabilities in the two forms of this API. What they are, [`crate::engine`] says: the target's own, before any
//! transform.

use std::collections::BTreeMap;

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

/// A token with its score, ready to be written in either form.
#[derive(Clone, Debug)]
pub(super) struct Scored {
    token: Spelled,
    /// What has become certain of the text with this token.
    text: String,
    /// Absent for the first token of a prompt, which follows nothing.
    score: Option<(Logprob, Vec<(Spelled, Logprob)>)>,
}

/// A token as it is spelled. A part of a character is no text by itself.
#[derive(Clone, Debug)]
struct Spelled(Vec<u8>);

impl Scored {
    /// A token of an answer; `None` if it was not scored.
    pub(super) fn of(token: &OutputToken, tokenizer: &Tokenizer) -> Option<Self> {
        token.score.as_ref().map(|score| Self::new(token.token, token.text.clone(), Some(score), tokenizer))
    }

    pub(super) fn new(token: TokenId, text: String, score: Option<&TokenScore>, tokenizer: &Tokenizer) -> Self {
        let spelled = |token| Spelled(tokenizer.spelling(token).unwrap_or_default().to_vec());
        let score = score.map(|TokenScore { logprob, top }| {
            let top = top.iter().map(|&(token, logprob)| (spelled(token), Logprob(logprob)));
            (Logprob(*logprob), top.collect())
        });
        Self { token: spelled(token), text, score }
    }
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
        let alternative =
            |(token, logprob): (Spelled, Logprob)| ChatAlternative { token: token.text(), logprob, bytes: token.0 };
        let content = tokens.into_iter().filter_map(|Scored { token, score, .. }| {
            let (logprob, top) = score?;
            let top_logprobs = top.into_iter().map(alternative).collect();
            Some(ChatToken { token: alternative((token, logprob)), top_logprobs })
        });
        Self { content: content.collect(), refusal: None }
    }
}

/// The form of `/v1/completions`: lists of one entry for each token.
#[derive(Debug, Default, Serialize)]
pub(super) struct CompletionLogprobs {
    tokens: Vec<String>,
    token_logprobs: Vec<Option<Logprob>>,
    /// The likeliest tokens and, whether or not it is among them, the token itself.
    top_logprobs: Vec<Option<BTreeMap<String, Logprob>>>,
    /// In characters, from the beginning of the text.
    text_offset: Vec<usize>,
}

impl CompletionLogprobs {
    /// Of tokens whose text begins after `offset` characters.
    pub(super) fn new(tokens: Vec<Scored>, mut offset: usize) -> Self {
        let mut lists = Self::default();
        for Scored { token, text, score } in tokens {
            let name = token.name();
            lists.text_offset.push(offset);
            offset += text.chars().count();
            lists.token_logprobs.push(score.as_ref().map(|(logprob, _)| *logprob));
            lists.top_logprobs.push(score.map(|(logprob, top)| {
                let top = top.into_iter().map(|(token, logprob)| (token.name(), logprob));
                top.chain([(name.clone(), logprob)]).collect()
            }));
            lists.tokens.push(name);
        }
        lists
    }
}
