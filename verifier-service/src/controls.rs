//! A way to run the verifier with a *wrong* rule, for tests that must fail on it.
//!
//! The tests of exactness run both services and judge the law of what comes out. Whether they would notice a fault is
//! only known once they have: each fault that people have made is put in here, and the same tests must fail.
//!
//! This module exists only with the cargo feature `controls`, which only the workspace's package of tests asks for, and
//! only among its dev-dependencies: cargo leaves it out of every build that does not build tests too. Nor could the
//! programs use it: a control is a function that the caller of [`Service::start_with_control`] brings, and there is none
//! in this crate.

use opentelemetry::metrics::Meter;
use specfleet_model::load::Loaded;
use specfleet_speculation::{
    TokenId,
    round::{RoundInput, RoundOutcome},
    transform::{self, Shaped, TokenCounts, Transforms, Vocabulary},
};
use tonic::transport::Channel;

use crate::{
    Options, Service,
    engine::{Decider, TargetRows},
    service::Error,
};

/// Stands where the rule stands.
pub type Control = Box<dyn Fn(Undecided<'_>) -> Result<RoundOutcome, transform::Error> + Send>;

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
    vocabulary: Vocabulary<'a>,
}

impl Undecided<'_> {
    /// Row `index` of the target, shaped by any transforms, as if the draft tokens before it were `before`.
    ///
    /// # Errors
    /// As [`Transforms::shape`].
    pub fn shape(&self, index: usize, transforms: &Transforms, before: &[TokenId]) -> Result<Shaped, transform::Error> {
        transforms.shape(&mut self.logits[index].clone(), self.vocabulary, self.counts, before)
    }
}

impl<'a> TargetRows<'a> {
    pub(crate) fn into_undecided(self, input: RoundInput<'a>) -> Undecided<'a> {
        let n_rows = input.proposal.map_or(0, |proposal| proposal.len()) + 1;
        let Self { logits, first, vocabulary, transforms, counts } = self;
        let logits = (first..first + n_rows).map(|row| logits.row_mut(row).to_vec()).collect();
        Undecided { input, transforms, counts, logits, vocabulary }
    }
}

impl Service {
    /// [`Service::start`], with `control` in the place of the rule.
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
