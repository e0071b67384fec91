//! A way to run the verifier with a *wrong* rule, for tests that must fail on it.
//!
//! The tests of exactness run both services and judge the law of what comes out. Whether they would notice a fault is
//! only known once they have: each fault that people have made is put in here, and the same tests must fail.
//!
//! This module exists only with the cargo feature `controls`, which only the workspace's package of tests asks for, and
//! only among its dev-dependencies: cargo leaves it out of every build that does not build tests too. Nor could the
//! programs use it: a control is brought by the caller of [`Service::start_with_control`], and nothing in this crate calls
//! that.

use opentelemetry::metrics::Meter;
use specfleet_grammar::Matcher;
use specfleet_model::load::Loaded;
use specfleet_speculation::{
    TokenId,
    round::{RoundInput, RoundOutcome},
    transform::{self, Mask, Shaped, TokenCounts, Transforms, Vocabulary},
};
use tonic::transport::Channel;

use crate::{
    Options, Service,
    engine::{Decider, TargetRows},
    service::Error,
};

/// What is wrong with a verifier.
pub enum Control {
    /// Decides rounds in the place of the rule.
    Decides(Box<Decides>),
    /// Rows and memory of a round are reserved for the draft tokens that have come, not for those that were asked for.
    ReservesWhatCame,
}

/// Stands where the rule stands.
pub type Decides = dyn Fn(Undecided<'_>) -> Result<RoundOutcome, transform::Error> + Send;

/// A round before its decision: all that the rule uses, in parts that can be put together wrongly.
pub struct Undecided<'a> {
    /// The proposal, the request's randomness, and where the round must end.
    pub input: RoundInput<'a>,
    /// The client's transforms.
    pub transforms: &'a Transforms,
    /// Occurrences in the committed prefix.
    pub counts: &'a TokenCounts,
    /// Logits after the committed prefix, and after each draft token.
    logits: Vec<Vec<f32>>,
    /// What the request's grammar allows there; none behind a draft token that it refuses.
    masks: Vec<Option<Mask>>,
    vocabulary: Vocabulary<'a>,
}

impl Undecided<'_> {
    /// Row `index` of the target, shaped by any transforms, as if the draft tokens before it were `before`.
    ///
    /// # Errors
    /// As [`Transforms::shape`].
    pub fn shape(&self, index: usize, transforms: &Transforms, before: &[TokenId]) -> Result<Shaped, transform::Error> {
        self.shape_changed(index, transforms, before, |_| {})
    }

    /// The same after a change to the model's row.
    ///
    /// # Errors
    /// As [`Transforms::shape`].
    pub fn shape_changed(
        &self,
        index: usize,
        transforms: &Transforms,
        before: &[TokenId],
        change: impl FnOnce(&mut [f32]),
    ) -> Result<Shaped, transform::Error> {
        let mut row = self.logits[index].clone();
        change(&mut row);
        transforms.shape(&mut row, self.vocabulary, self.counts, before, self.masks[index].as_ref())
    }

    /// The same without the request's grammar.
    ///
    /// # Errors
    /// As [`Transforms::shape`].
    pub fn shape_unmasked(
        &self,
        index: usize,
        transforms: &Transforms,
        before: &[TokenId],
    ) -> Result<Shaped, transform::Error> {
        transforms.shape(&mut self.logits[index].clone(), self.vocabulary, self.counts, before, None)
    }

    /// Row `index`, shaped as the client asked, but with `counts` for the occurrences in the committed prefix.
    ///
    /// # Errors
    /// As [`Transforms::shape`].
    pub fn shape_counting(
        &self,
        index: usize,
        counts: &TokenCounts,
        before: &[TokenId],
    ) -> Result<Shaped, transform::Error> {
        let mask = self.masks[index].as_ref();
        self.transforms.shape(&mut self.logits[index].clone(), self.vocabulary, counts, before, mask)
    }
}

impl<'a> TargetRows<'a> {
    pub(crate) fn into_undecided(self, input: RoundInput<'a>) -> Undecided<'a> {
        let drafted = input.proposal.map_or(&[][..], |proposal| proposal.tokens());
        let Self { logits, first, vocabulary, transforms, counts, grammar } = self;
        let logits = (first..=first + drafted.len()).map(|row| logits.row_mut(row).to_vec()).collect();
        let masks = masks(grammar, drafted);
        Undecided { input, transforms, counts, logits, masks, vocabulary }
    }
}

/// The mask of each row.
fn masks(grammar: Option<&mut Matcher>, drafted: &[TokenId]) -> Vec<Option<Mask>> {
    let mut masks = vec![None; drafted.len() + 1];
    if let Some(grammar) = grammar {
        for n_before in 0..=grammar.n_allowed(drafted) {
            masks[n_before] = grammar.mask(&drafted[..n_before]).ok();
        }
    }
    masks
}

impl Service {
    /// [`Service::start`], with `control` in it.
    ///
    /// # Errors
    /// As [`Service::start`].
    pub fn start_with_control(
        loaded: Loaded,
        drafts: Vec<(String, Channel)>,
        options: Options,
        meter: &Meter,
        control: Control,
    ) -> Result<Self, Error> {
        Self::start_deciding(loaded, drafts, options, meter, Decider { control: Some(control) })
    }
}
