//! The text form of a scripted model.
//!
//! One rule a line: what the prefix ends with, an arrow, and what may follow.
//!
//! ```text
//! # a comment
//! *     -> 0:1 1:3     anything else: id 0 with probability 1/4, id 1 with 3/4
//! 5     -> 1:1         after id 5
//! 2 5   -> 0:1 3:1     after ids 2 and 5; the longest match counts
//! 7     -> nan         a fault: a row of NaN
//! ```

use std::collections::HashMap;

use specfleet_speculation::TokenId;

/// The logit of an id that cannot follow: finite, as real models have it, and far below everything.
const IMPOSSIBLE: f32 = -1e4;

/// Rules from the end of a prefix to weights.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    rules: HashMap<Vec<TokenId>, Vec<f32>>,
    longest: usize,
}

/// What is wrong with a table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A line that is not a rule.
    #[error("line {line}: {problem}")]
    Line {
        /// Counted from one.
        line: usize,
        /// What was expected.
        problem: String,
    },
    /// No rule for prefixes that no other rule matches.
    #[error("no rule for everything else; add a line `* -> id:weight ...`")]
    NoDefault,
}

impl Table {
    /// Reads rules over ids below `vocab_size`.
    ///
    /// # Errors
    /// [`Error::Line`] for a line that is no rule, a second rule for the same ending, an id out of range, or
    /// a weight that is not positive; [`Error::NoDefault`] without a `*` rule.
    pub fn parse(text: &str, vocab_size: usize) -> Result<Self, Error> {
        let mut rules = HashMap::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let problem = |problem: String| Error::Line { line: index + 1, problem };
            let (ending, logits) = rule(line, vocab_size).map_err(problem)?;
            if rules.insert(ending, logits).is_some() {
                return Err(problem("a second rule for this ending".into()));
            }
        }
        if !rules.contains_key(&[][..]) {
            return Err(Error::NoDefault);
        }
        let longest = rules.keys().map(Vec::len).max().unwrap_or(0);
        Ok(Self { rules, longest })
    }

    /// The logits after `prefix`: logarithms of the weights of the longest matching rule.
    pub fn logits(&self, prefix: &[TokenId]) -> Vec<f32> {
        let longest = self.longest.min(prefix.len());
        let endings = (0..=longest).rev().map(|len| &prefix[prefix.len() - len..]);
        endings.filter_map(|ending| self.rules.get(ending)).next().cloned().unwrap_or_default()
    }
}

fn rule(line: &str, vocab_size: usize) -> Result<(Vec<TokenId>, Vec<f32>), String> {
    let (ending, weights) = line.split_once("->").ok_or("expected `ids -> id:weight ...`")?;
    let ending = match ending.trim() {
        "*" => Vec::new(),
        ids => ids.split_whitespace().map(|id| token(id, vocab_size)).collect::<Result<_, _>>()?,
    };
    if weights.trim() == "nan" {
        return Ok((ending, vec![f32::NAN; vocab_size]));
    }
    let mut logits = vec![IMPOSSIBLE; vocab_size];
    for pair in weights.split_whitespace() {
        let (id, weight) = pair.split_once(':').ok_or_else(|| format!("expected id:weight, got {pair:?}"))?;
        let weight: f32 = weight.parse().map_err(|_| format!("{weight:?} is not a number"))?;
        if !(weight > 0.0 && weight.is_finite()) {
            return Err(format!("weight {weight} is not positive; leave the id out instead"));
        }
        logits[token(id, vocab_size)? as usize] = weight.ln();
    }
    if logits.iter().all(|&logit| logit == IMPOSSIBLE) {
        return Err("nothing may follow; give at least one id:weight".into());
    }
    Ok((ending, logits))
}

fn token(text: &str, vocab_size: usize) -> Result<TokenId, String> {
    let id: TokenId = text.parse().map_err(|_| format!("{text:?} is not a token id"))?;
    let in_range = (id as usize) < vocab_size;
    in_range.then_some(id).ok_or_else(|| format!("id {id} is not below the vocabulary size {vocab_size}"))
}
