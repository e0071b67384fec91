//! Drafts that know what is going to be committed, to be right or wrong exactly where a test wants it.
//!
//! A real draft is right a third of the time, where it pleases. To reach every way in which a round can go, a test
//! first lets the target decode plainly, teaches the text to a [`KnownText`], and then drafts from it: always right,
//! always wrong, wrong at one place of every round, or right by the toss of a coin. The drafts are scripted models
//! behind the production draft-service, so that sessions, KV rollback and the wire are the real ones.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use specfleet_model::{batch::LanguageModel, scripted::ScriptedModel};
use specfleet_protocol::PrefixDigest;
use specfleet_speculation::TokenId;

/// The logit of an id that is not proposed: as good as impossible at any temperature.
const UNLIKELY: f32 = -1e4;

/// Texts that drafts know. Clones share everything, so that drafts learn while they serve.
#[derive(Clone, Debug)]
pub struct KnownText {
    next: Arc<RwLock<HashMap<u64, Known>>>,
    n_vocab: usize,
}

/// What follows a prefix.
#[derive(Clone, Copy, Debug)]
struct Known {
    token: TokenId,
    /// Index among the generated tokens.
    index: usize,
}

/// Where a draft is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knack {
    /// Everywhere.
    Perfect,
    /// Nowhere.
    AlwaysWrong,
    /// Where a coin says so, which the prefix tosses. Off the known text it guesses anything.
    Erratic,
    /// Everywhere but at place `at` of each `cycle` tokens, counted from the second generated token on: the first comes
    /// from the prompt's own pass, and rounds begin after it.
    WrongAt {
        /// From 0.
        at: usize,
        /// The period.
        cycle: usize,
    },
}

impl KnownText {
    /// No text yet, over a vocabulary of this size.
    pub fn new(n_vocab: usize) -> Self {
        Self { next: Arc::default(), n_vocab }
    }

    /// From now on `tokens` is known to follow `prompt`.
    pub fn learn(&self, prompt: &[TokenId], tokens: &[TokenId]) {
        let mut next = self.next.write().unwrap_or_else(PoisonError::into_inner);
        let mut prefix = PrefixDigest::of(prompt);
        for (index, &token) in tokens.iter().enumerate() {
            next.insert(prefix.value(), Known { token, index });
            prefix.extend(&[token]);
        }
    }

    /// A draft model with this knack. Each knack has an identity of its own.
    pub fn model(&self, knack: Knack) -> Box<dyn LanguageModel> {
        let text = self.clone();
        let script = move |prefix: &[TokenId]| {
            let mut logits = vec![UNLIKELY; text.n_vocab];
            logits[text.guess(knack, prefix) as usize] = 0.0;
            logits
        };
        let digest = blake3::hash(format!("known text, {knack:?}").as_bytes());
        Box::new(ScriptedModel::from_fn(self.n_vocab, script).with_weights_digest(digest.into()))
    }

    fn guess(&self, knack: Knack, prefix: &[TokenId]) -> TokenId {
        let prefix = PrefixDigest::of(prefix).value();
        let known = self.next.read().unwrap_or_else(PoisonError::into_inner).get(&prefix).copied();
        let anything = (prefix >> 8) % self.n_vocab as u64;
        let Some(Known { token, index }) = known else { return anything as TokenId };
        let is_right = match knack {
            Knack::Perfect => true,
            Knack::AlwaysWrong => false,
            Knack::Erratic => prefix.is_multiple_of(2),
            Knack::WrongAt { at, cycle } => index == 0 || (index - 1) % cycle != at,
        };
        if is_right { token } else { (token + 1) % self.n_vocab as TokenId }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_knack_is_right_where_it_says() {
        let text = KnownText::new(16);
        let tokens: Vec<TokenId> = (0..13).collect();
        text.learn(&[15], &tokens);
        let right = |knack| -> Vec<bool> {
            let prefix = |index: usize| [&[15], &tokens[..index]].concat();
            (0..13).map(|index| text.guess(knack, &prefix(index)) == tokens[index]).collect()
        };
        assert!(right(Knack::Perfect).iter().all(|right| *right));
        assert!(right(Knack::AlwaysWrong).iter().all(|right| !right));
        let expected: Vec<bool> = (0..13).map(|index| ![3, 8].contains(&index)).collect();
        assert_eq!(right(Knack::WrongAt { at: 2, cycle: 5 }), expected);
        assert!(right(Knack::Erratic).iter().any(|right| *right) && right(Knack::Erratic).iter().any(|right| !right));
    }
}
