//! What shapes and draws every proposal of a session.

use std::num::NonZeroU32;

use specfleet_grammar::Form;
use specfleet_speculation::{propose::Rule, random::DraftSeed, transform::SamplingParams};

use super::{DistributionForm, Error, acceptance_rule, output_grammar, sampling_params};
use crate::v1;

const SEED_BYTES: usize = 32;

/// [`v1::DraftSettings`], complete.
#[derive(Clone, Debug)]
pub struct DraftSettings {
    /// Not yet checked for ranges: `Transforms::new` does that.
    pub sampling: SamplingParams,
    /// Enough to draw draft tokens and shared noise, not enough to know the verifier's accept tests.
    pub draft_seed: DraftSeed,
    /// How the verifier will test.
    pub rule: Rule,
    /// How the distributions are to be written.
    pub form: DistributionForm,
    /// Ids of the target's vocabulary; `None` where the verifier does not say.
    pub n_vocab: Option<NonZeroU32>,
    /// The form of the output, if it has one.
    pub grammar: Option<Form>,
}

impl TryFrom<v1::DraftSettings> for DraftSettings {
    type Error = Error;

    fn try_from(wire: v1::DraftSettings) -> Result<Self, Error> {
        let seed: [u8; SEED_BYTES] = wire.draft_seed.as_slice().try_into().map_err(|_| Error::Length {
            field: "settings.draft_seed",
            length: wire.draft_seed.len(),
            expected: SEED_BYTES,
        })?;
        let rule = acceptance_rule("settings.rule", wire.rule)?
            .ok_or(Error::UnknownValue { field: "settings.rule", value: wire.rule })?;
        let form = v1::DistributionForm::try_from(wire.form)
            .map_err(|_| Error::UnknownValue { field: "settings.form", value: wire.form })?
            .try_into()?;
        Ok(Self {
            sampling: sampling_params(wire.sampling.unwrap_or_default(), &SamplingParams::default()),
            draft_seed: DraftSeed(seed),
            rule,
            form,
            n_vocab: NonZeroU32::new(wire.vocabulary_size),
            grammar: wire.grammar.map(|grammar| output_grammar("settings.grammar", grammar)).transpose()?,
        })
    }
}

impl From<&DraftSettings> for v1::DraftSettings {
    fn from(settings: &DraftSettings) -> Self {
        Self {
            sampling: Some((&settings.sampling).into()),
            draft_seed: settings.draft_seed.0.to_vec(),
            rule: v1::AcceptanceRule::from(settings.rule).into(),
            form: v1::DistributionForm::from(settings.form).into(),
            vocabulary_size: settings.n_vocab.map_or(0, NonZeroU32::get),
            grammar: settings.grammar.as_ref().map(Into::into),
        }
    }
}
