//! What a client may ask for, and the check that reports every mistake at once.

use std::fmt;

use crate::TokenId;

/// Beyond this a bias only moves rounding errors: e^100 decides any contest.
const GREATEST_BIAS: f32 = 100.0;

/// How a distribution is shaped from logits. The default samples from the model's own distribution.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingParams {
    /// At least 0; below 1e-5 decoding is greedy.
    pub temperature: f32,
    /// In (0, 1]: keep the likeliest tokens whose probabilities reach this sum, the one that crosses it included.
    pub top_p: f32,
    /// Keep this many of the likeliest tokens; 0 keeps all.
    pub top_k: u32,
    /// In \[0, 1\]: remove tokens less likely than this times the likeliest.
    pub min_p: f32,
    /// Greater than 0: positive logits of tokens in prompt or output are divided by it, negative ones multiplied.
    pub repetition_penalty: f32,
    /// In \[-2, 2\]: subtracted from the logits of tokens in the output.
    pub presence_penalty: f32,
    /// In \[-2, 2\]: subtracted from the logits of tokens in the output, once for each occurrence.
    pub frequency_penalty: f32,
    /// Added to logits before everything else; in \[-100, 100\], each id at most once.
    pub logit_bias: Vec<(TokenId, f32)>,
    /// The first so many generated tokens are none of `end_tokens`.
    pub min_tokens: u32,
    /// The ids that `min_tokens` bans.
    pub end_tokens: Vec<TokenId>,
}

impl Default for SamplingParams {
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_p: 1.0,
            top_k: 0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            logit_bias: Vec::new(),
            min_tokens: 0,
            end_tokens: Vec::new(),
        }
    }
}

impl SamplingParams {
    pub(super) fn check(&self, n_vocab: usize) -> Result<(), Invalid> {
        let mut fields = Vec::new();
        let mut require = |holds: bool, field: &'static str, value: String, allowed: String| {
            if !holds {
                fields.push(InvalidField { field, value, allowed });
            }
        };

        // NaN fails every comparison, so it needs no test of its own.
        let numbers = [
            ("temperature", self.temperature, (0.0..f32::INFINITY).contains(&self.temperature), "0 or more, finite"),
            ("top_p", self.top_p, self.top_p > 0.0 && self.top_p <= 1.0, "greater than 0 and at most 1"),
            ("min_p", self.min_p, (0.0..=1.0).contains(&self.min_p), "from 0 to 1"),
            (
                "repetition_penalty",
                self.repetition_penalty,
                self.repetition_penalty > 0.0 && self.repetition_penalty.is_finite(),
                "greater than 0, finite",
            ),
            ("presence_penalty", self.presence_penalty, is_penalty(self.presence_penalty), "from -2 to 2"),
            ("frequency_penalty", self.frequency_penalty, is_penalty(self.frequency_penalty), "from -2 to 2"),
        ];
        for (field, value, holds, allowed) in numbers {
            require(holds, field, value.to_string(), allowed.to_owned());
        }

        let is_unknown = |id: TokenId| (id as usize) >= n_vocab;
        let mut biased: Vec<TokenId> = self.logit_bias.iter().map(|(id, _)| *id).collect();
        biased.sort_unstable();
        let unknown_biased = self.logit_bias.iter().filter(|(id, _)| is_unknown(*id));
        let beyond = self.logit_bias.iter().filter(|(_, bias)| bias.is_nan() || bias.abs() > GREATEST_BIAS);
        let repeated = biased.windows(2).filter(|pair| pair[0] == pair[1]);
        let unknown_ends = self.end_tokens.iter().filter(|id| is_unknown(**id));
        let lists = [
            ("logit_bias", first_of(unknown_biased, |(id, _)| format!("id {id}")), format!("ids below {n_vocab}")),
            (
                "logit_bias",
                first_of(beyond, |(id, bias)| format!("{bias} for id {id}")),
                format!("biases from -{GREATEST_BIAS} to {GREATEST_BIAS}"),
            ),
            ("logit_bias", first_of(repeated, |pair| format!("id {} twice", pair[0])), "each id once".to_owned()),
            ("end_token_ids", first_of(unknown_ends, |id| format!("id {id}")), format!("ids below {n_vocab}")),
        ];
        for (field, offender, allowed) in lists {
            require(offender.is_none(), field, offender.unwrap_or_default(), allowed);
        }

        if fields.is_empty() { Ok(()) } else { Err(Invalid { fields }) }
    }
}

/// The first offender of a list and the number of others: lists are as long as a message, the answer must not be.
fn first_of<T>(mut offenders: impl Iterator<Item = T>, describe: impl FnOnce(T) -> String) -> Option<String> {
    let first = describe(offenders.next()?);
    Some(match offenders.count() {
        0 => first,
        n_others => format!("{first} (and {n_others} more)"),
    })
}

fn is_penalty(value: f32) -> bool {
    (-2.0..=2.0).contains(&value)
}

/// Sampling parameters that are out of range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Invalid {
    /// The mistakes in the order of the fields, of those in a list the first of each kind; never empty.
    pub fields: Vec<InvalidField>,
}

/// One mistake in sampling parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidField {
    /// Name of the field in a request.
    pub field: &'static str,
    /// What it holds.
    pub value: String,
    /// What it may hold.
    pub allowed: String,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid sampling parameters: ")?;
        for (index, field) in self.fields.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{field}")?;
        }
        Ok(())
    }
}

impl fmt::Display for InvalidField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}, allowed: {}", self.field, self.value, self.allowed)
    }
}
