//! What the engine knows about one session: the committed prefix, how to draw, and the proposal in the making.

use specfleet_grammar::Matcher;
use specfleet_protocol::{PrefixDigest, status::Prefix};
use specfleet_speculation::{TokenId, transform::TokenCounts};
use tokio::sync::oneshot;

use super::{Error, Settings, draft::Draft};

/// One session and the drafter's memory of it.
pub(crate) struct Session<M> {
    pub(crate) prefix: CommittedPrefix,
    pub(crate) settings: Settings,
    /// Where the committed tokens stand in the form of the output; `None` if that may be anything, or the draft has to draft
    /// as if it might.
    pub(crate) grammar: Option<Matcher>,
    pub(crate) memory: M,
    /// The proposal that somebody waits for.
    pub(crate) draft: Option<Draft>,
    /// Greater for the more recently used.
    pub(crate) last_used: u64,
    /// Tells the session's handle why it was closed.
    pub(crate) closed: oneshot::Sender<Error>,
}

impl<M> Session<M> {
    /// Appends verified tokens, unless the result is not what the sender takes it to be: then nothing changes.
    pub(crate) fn extend(&mut self, tokens: &[TokenId], sent: Prefix) -> Result<(), Error> {
        self.prefix.extend(tokens, sent)?;
        if let Some(grammar) = &mut self.grammar {
            tokens.iter().for_each(|&token| grammar.commit(token));
        }
        Ok(())
    }
}

/// Prompt and verified tokens: the only truth that draft and verifier share.
pub(crate) struct CommittedPrefix {
    tokens: Vec<TokenId>,
    counts: TokenCounts,
    digest: PrefixDigest,
}

impl CommittedPrefix {
    /// `n_prompt` of the tokens are the prompt; the others were generated.
    pub(crate) fn new(tokens: Vec<TokenId>, n_prompt: usize) -> Self {
        let (prompt, generated) = tokens.split_at(n_prompt.min(tokens.len()));
        let mut counts = TokenCounts::new(prompt);
        generated.iter().for_each(|&token| counts.push_generated(token));
        let digest = PrefixDigest::of(&tokens);
        Self { tokens, counts, digest }
    }

    pub(crate) fn tokens(&self) -> &[TokenId] {
        &self.tokens
    }

    pub(crate) fn counts(&self) -> &TokenCounts {
        &self.counts
    }

    pub(crate) fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Length and digest, as messages carry them.
    pub(crate) fn summary(&self) -> Prefix {
        summary(self.tokens.len(), &self.digest)
    }

    /// See [`Session::extend`].
    fn extend(&mut self, tokens: &[TokenId], sent: Prefix) -> Result<(), Error> {
        let mut digest = self.digest.clone();
        digest.extend(tokens);
        let held = summary(self.tokens.len() + tokens.len(), &digest);
        if held != sent {
            return Err(Error::PrefixMismatch { held, sent });
        }
        self.tokens.extend_from_slice(tokens);
        tokens.iter().for_each(|&token| self.counts.push_generated(token));
        self.digest = digest;
        Ok(())
    }
}

fn summary(n_tokens: usize, digest: &PrefixDigest) -> Prefix {
    Prefix { length: u32::try_from(n_tokens).unwrap_or(u32::MAX), digest: digest.value() }
}
