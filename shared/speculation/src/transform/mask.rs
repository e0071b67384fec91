//! Which ids may be chosen at a position, whatever the model thinks of them.

use super::Vocabulary;
use crate::TokenId;

/// A set of ids; the others are banned. By default all are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mask {
    /// Bit i of word w stands for id 32 w + i.
    words: Vec<u32>,
}

impl Mask {
    /// Bit i of word w allows id 32 w + i. Ids beyond the last word are banned.
    pub fn from_words(words: Vec<u32>) -> Self {
        Self { words }
    }

    /// Whether an id may be chosen.
    pub fn allows(&self, token: TokenId) -> bool {
        let word = self.words.get(token as usize / u32::BITS as usize);
        word.is_some_and(|word| word >> (token % u32::BITS) & 1 == 1)
    }

    /// How many ids may be chosen.
    pub fn n_allowed(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Takes the banned ids out of a row of logits.
    pub fn apply(&self, logits: &mut [f32], vocabulary: Vocabulary<'_>) {
        match vocabulary {
            Vocabulary::Full => {
                // Mostly nothing of a word is allowed, or all of it.
                let mut words = self.words.iter();
                for logits in logits.chunks_mut(u32::BITS as usize) {
                    match words.next() {
                        Some(&u32::MAX) => {}
                        None | Some(0) => logits.fill(f32::NEG_INFINITY),
                        Some(word) => ban(logits, |index| word >> index & 1 == 1),
                    }
                }
            }
            Vocabulary::Reduced(ids) => ban(logits, |index| ids.get(index).is_some_and(|id| self.allows(*id))),
        }
    }
}

fn ban(logits: &mut [f32], is_allowed: impl Fn(usize) -> bool) {
    for (index, logit) in logits.iter_mut().enumerate() {
        if !is_allowed(index) {
            *logit = f32::NEG_INFINITY;
        }
    }
}
