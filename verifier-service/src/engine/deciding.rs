//! What decides a round: the rule of [`specfleet_speculation::round`], over rows of the target that are shaped as the
//! client asked.
//!
//! A test of exactness proves something only if it fails on a rule that is wrong. So a build with the feature `controls`
//! can be started with a wrong one in this place. Without the feature there is no such place: [`Decider`] has no fields,
//! and its method is the call of the rule.

use specfleet_grammar::Matcher;
use specfleet_model::batch::Logits;
use specfleet_speculation::{
    TokenId,
    honesty::{self, Observation},
    round::{self, RoundInput, RoundOutcome},
    transform::{self, Shaped, TokenCounts, Transforms, Vocabulary},
};

#[cfg(feature = "controls")]
use crate::controls::Control;

/// Decides rounds.
#[derive(Default)]
pub(crate) struct Decider {
    #[cfg(feature = "controls")]
    pub(crate) control: Option<Control>,
}

impl Decider {
    /// Decides a round over the rows of its pass, and notes in `observations`, if wanted, what it shows of the draft.
    pub(super) fn decide(
        &self,
        input: RoundInput<'_>,
        observations: Option<&mut Vec<Observation>>,
        mut rows: TargetRows<'_>,
    ) -> Result<RoundOutcome, transform::Error> {
        #[cfg(feature = "controls")]
        if let Some(Control::Decides(decides)) = &self.control {
            return decides(rows.into_undecided(input));
        }
        let target_row = |index, before: &[TokenId]| rows.shape(index, before);
        match observations {
            Some(observations) => honesty::decide(input, observations, target_row),
            None => round::decide(input, target_row),
        }
    }
}

/// The target's rows of a round, and what shapes them.
pub(crate) struct TargetRows<'a> {
    /// Of the whole pass.
    pub(crate) logits: &'a mut Logits,
    /// The row after the committed prefix; the one after each draft token follows.
    pub(crate) first: usize,
    pub(crate) vocabulary: Vocabulary<'a>,
    pub(crate) transforms: &'a Transforms,
    /// Of the committed prefix.
    pub(crate) counts: &'a TokenCounts,
    /// Of the committed prefix too. What it is asked about draft tokens leaves no trace in it.
    pub(crate) grammar: Option<&'a mut Matcher>,
}

impl TargetRows<'_> {
    /// The target's distribution after the committed prefix and the draft tokens `before`.
    ///
    /// Draft tokens before it have passed, so none of them is outside the grammar: there p is 0.
    fn shape(&mut self, index: usize, before: &[TokenId]) -> Result<Shaped, transform::Error> {
        let mask = self.grammar.as_mut().map(|grammar| grammar.mask(before)).transpose();
        let mask = mask.map_err(|error| transform::Error::NoMask(error.to_string()))?;
        let row = self.logits.row_mut(self.first + index);
        self.transforms.shape(row, self.vocabulary, self.counts, before, mask.as_ref())
    }
}
