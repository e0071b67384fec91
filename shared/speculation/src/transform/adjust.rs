//! The transforms that change single logits: bias, bans and penalties.

use super::{Mask, SamplingParams, TokenCounts, Vocabulary};
use crate::TokenId;

/// A row of logits and the ids it speaks for.
pub(super) struct Row<'a> {
    pub(super) logits: &'a mut [f32],
    pub(super) vocabulary: Vocabulary<'a>,
}

impl Row<'_> {
    /// Applies bias, bans and penalties in this order. Tells whether any of them was asked for.
    pub(super) fn adjust(
        &mut self,
        params: &SamplingParams,
        committed: &TokenCounts,
        pending: &[TokenId],
        mask: Option<&Mask>,
    ) -> bool {
        for (token, bias) in &params.logit_bias {
            self.edit(*token, |logit| logit + bias);
        }

        let n_generated = committed.n_generated() + pending.len();
        let ends_are_banned = n_generated < params.min_tokens as usize;
        if ends_are_banned {
            for token in &params.end_tokens {
                self.edit(*token, |_| f32::NEG_INFINITY);
            }
        }

        if let Some(mask) = mask {
            mask.apply(self.logits, self.vocabulary);
        }

        let has_penalties =
            params.repetition_penalty != 1.0 || params.presence_penalty != 0.0 || params.frequency_penalty != 0.0;
        if has_penalties {
            for (token, n_generated) in committed.with_pending(pending) {
                self.edit(token, |logit| penalised(logit, n_generated, params));
            }
        }
        !params.logit_bias.is_empty() || ends_are_banned || mask.is_some() || has_penalties
    }

    /// Changes one logit, if the row has it. Keeps it below plus infinity, which a tiny repetition penalty could reach.
    fn edit(&mut self, token: TokenId, change: impl FnOnce(f32) -> f32) {
        let logit = self.vocabulary.index(token).and_then(|index| self.logits.get_mut(index));
        if let Some(logit) = logit {
            *logit = change(*logit).min(f32::MAX);
        }
    }
}

/// Repetition as defined by Keskar et al., "CTRL", 2019, section 4.1, in the sign-aware form of Hugging Face; presence
/// and frequency as defined by the OpenAI API.
fn penalised(logit: f32, n_generated: u32, params: &SamplingParams) -> f32 {
    let penalty = params.repetition_penalty;
    let logit = if logit < 0.0 { logit * penalty } else { logit / penalty };
    let presence = if n_generated > 0 { params.presence_penalty } else { 0.0 };
    logit - presence - params.frequency_penalty * n_generated as f32
}
