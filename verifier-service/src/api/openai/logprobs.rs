//! Log-probabilities in the two forms of this API. What they are, [`crate::engine`] says: the target's own, before any
//! transform.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Serialize, Serializer, ser::SerializeStruct};
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
#[derive(Debug)]
pub(super) struct Scored {
    token: Spelled,
    /// Characters of the text that the token completes.
    n_chars: usize,
    /// Absent for the first token of a prompt, which follows nothing.
    score: Option<(Logprob, Vec<(Spelled, Logprob)>)>,
}

/// Tokens of a continuation, those of its prompt first if they are wanted too. The prompt of a call is scored once and
/// stands before each of its continuations: they share it.
#[derive(Debug, Default)]
pub(super) struct ScoredTokens {
    prompt: Arc<[Scored]>,
    own: Vec<Scored>,
}

/// A token as it is spelled. A part of a character is no text by itself.
#[derive(Clone, Debug)]
struct Spelled(Vec<u8>);

impl Scored {
    pub(super) fn new(token: TokenId, n_chars: usize, score: Option<&TokenScore>, tokenizer: &Tokenizer) -> Self {
        let spelled = |token| Spelled(tokenizer.spelling(token).unwrap_or_default().to_vec());
        let score = score.map(|TokenScore { logprob, top }| {
            let top = top.iter().map(|&(token, logprob)| (spelled(token), Logprob(logprob)));
            (Logprob(*logprob), top.collect())
        });
        Self { token: spelled(token), n_chars, score }
    }
}

impl ScoredTokens {
    pub(super) fn of_prompt(prompt: Arc<[Scored]>) -> Self {
        Self { prompt, own: Vec::new() }
    }

    pub(super) fn put_before(&mut self, prompt: &Arc<[Scored]>) {
        self.prompt = prompt.clone();
    }

    /// Adds a token of the continuation, if it was scored.
    pub(super) fn push(&mut self, token: &OutputToken, tokenizer: &Tokenizer) {
        let scored = token.score.as_ref().map(|score| Scored::new(token.token, token.n_chars, Some(score), tokenizer));
        self.own.extend(scored);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.prompt.is_empty() && self.own.is_empty()
    }

    /// Characters that the continuation's own tokens complete, shown or not: text that may yet become a stop string is
    /// shown with a later one.
    pub(super) fn n_chars(&self) -> usize {
        self.own.iter().map(|scored| scored.n_chars).sum()
    }

    fn iter(&self) -> impl Iterator<Item = &Scored> {
        self.prompt.iter().chain(&self.own)
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
    pub(super) fn new(tokens: &ScoredTokens) -> Self {
        let alternative = |token: &Spelled, logprob: Logprob| ChatAlternative {
            token: token.text(),
            logprob,
            bytes: token.0.clone(),
        };
        let content = tokens.iter().filter_map(|scored| {
            let (logprob, top) = scored.score.as_ref()?;
            let top_logprobs = top.iter().map(|(token, logprob)| alternative(token, *logprob)).collect();
            Some(ChatToken { token: alternative(&scored.token, *logprob), top_logprobs })
        });
        Self { content: content.collect(), refusal: None }
    }
}

/// The form of `/v1/completions`: lists of one entry for each token. They are made while they are written, since those of a
/// prompt are long.
#[derive(Debug)]
pub(super) struct CompletionLogprobs {
    tokens: ScoredTokens,
    /// Characters of the text before that of the continuation's own tokens.
    offset: usize,
}

impl CompletionLogprobs {
    pub(super) fn new(tokens: ScoredTokens, offset: usize) -> Self {
        Self { tokens, offset }
    }

    /// Where the text of each token begins, in characters from the beginning of the text. A token in the middle of a
    /// character begins where the character does.
    fn offsets(&self) -> impl Iterator<Item = usize> {
        let begin_at = |first: usize, tokens: &[Scored]| {
            let ends = tokens.iter().scan(first, |end, scored| {
                let begin = *end;
                *end += scored.n_chars;
                Some(begin)
            });
            ends.collect::<Vec<_>>()
        };
        [begin_at(0, &self.tokens.prompt), begin_at(self.offset, &self.tokens.own)].into_iter().flatten()
    }
}

/// The likeliest tokens and, whether or not it is among them, the token itself. Of tokens that are spelled alike, which
/// this form cannot tell apart, the token itself counts, or else the likeliest.
fn by_name(scored: &Scored) -> Option<BTreeMap<String, Logprob>> {
    let (logprob, top) = scored.score.as_ref()?;
    // A later entry takes the place of an earlier one, and the likeliest come first.
    let top = top.iter().rev().map(|(token, logprob)| (token.name(), *logprob));
    Some(top.chain([(scored.token.name(), *logprob)]).collect())
}

impl Serialize for CompletionLogprobs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let logprob = |scored: &Scored| scored.score.as_ref().map(|(logprob, _)| *logprob);
        let mut lists = serializer.serialize_struct("CompletionLogprobs", 4)?;
        lists.serialize_field("tokens", &List(|| self.tokens.iter().map(|scored| scored.token.name())))?;
        lists.serialize_field("token_logprobs", &List(|| self.tokens.iter().map(logprob)))?;
        lists.serialize_field("top_logprobs", &List(|| self.tokens.iter().map(by_name)))?;
        lists.serialize_field("text_offset", &List(|| self.offsets()))?;
        lists.end()
    }
}

/// A list whose items are made one by one.
struct List<F>(F);

impl<I: Iterator<Item: Serialize>, F: Fn() -> I> Serialize for List<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)())
    }
}
