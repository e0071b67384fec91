//! A message-size limit that is too small fails at the first long draft, weeks after the deployment that chose it. One
//! that is missing lets a peer fill the memory. So limits are worked out from the configuration, at start.
//!
//! A configuration whose messages could not be sent is refused here, with the numbers.

use specfleet_grammar::MAX_FORM_BYTES;

use crate::convert::DistributionForm;

/// The most that one message may take, whatever the configuration: 256 MiB. Above it a round would spend longer on the
/// network than any draft could win back.
pub const MESSAGE_CEILING: usize = 256 << 20;

/// Fields of fixed size, ids, digests and labels, with room to spare.
const FIXED_BYTES: usize = 4 << 10;
/// A `u32` as varint takes 5 bytes at most.
const VARINT32_BYTES: usize = 5;
/// Tags and length prefixes around one draft token and its distribution.
const DRAFT_TOKEN_BYTES: usize = 32;
/// Tag, length, id and value of one logit bias.
const LOGIT_BIAS_BYTES: usize = 14;
/// Logit biases allowed for in a request. More would need a vocabulary to be listed one by one.
const LOGIT_BIASES: usize = 4096;

/// A configuration whose messages could grow past [`MESSAGE_CEILING`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a proposal of {draft_length} tokens with {form} distributions over {n_vocab} ids can take {bytes} bytes, more \
     than the {MESSAGE_CEILING} that a message may have; lower the draft length or use sparse distributions"
)]
pub struct Error {
    /// Tokens in the longest proposal.
    pub draft_length: usize,
    /// The largest form that may be asked for.
    pub form: DistributionForm,
    /// Ids in the target's vocabulary.
    pub n_vocab: usize,
    /// What the message could take; `usize::MAX` where that number overflows.
    pub bytes: usize,
}

/// Upper bounds of encoded messages, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageLimits {
    /// For what a draft service receives: a whole prefix and its settings.
    pub request_bytes: usize,
    /// For what a draft service sends: the longest proposal in the largest form.
    pub proposal_bytes: usize,
}

impl MessageLimits {
    /// Limits for a target vocabulary of `n_vocab` ids, a context of `context_length` tokens and proposals of at most
    /// `draft_length` tokens in `largest_form`.
    pub fn new(
        n_vocab: usize,
        context_length: usize,
        draft_length: usize,
        largest_form: DistributionForm,
    ) -> Result<Self, Error> {
        let bytes_per_id = match largest_form {
            DistributionForm::Sparse => 2 * VARINT32_BYTES,
            DistributionForm::Dense => size_of::<f32>(),
        };
        let proposal_bytes = n_vocab
            .saturating_mul(bytes_per_id)
            .saturating_add(DRAFT_TOKEN_BYTES)
            .saturating_mul(draft_length)
            .saturating_add(FIXED_BYTES);
        if proposal_bytes > MESSAGE_CEILING {
            return Err(Error { draft_length, form: largest_form, n_vocab, bytes: proposal_bytes });
        }
        Ok(Self {
            request_bytes: context_length
                .saturating_mul(VARINT32_BYTES)
                .saturating_add(LOGIT_BIASES * LOGIT_BIAS_BYTES + MAX_FORM_BYTES + FIXED_BYTES),
            proposal_bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::v1::{self, draft_token::Distribution};
    use prost::Message;

    /// The largest message that the rules allow must fit its own limit.
    #[test]
    fn the_longest_proposal_fits() {
        let (n_vocab, draft_length) = (1000, 7);
        let sparse = Distribution::Sparse(v1::SparseDistribution {
            id_deltas: vec![u32::MAX; n_vocab],
            weights: vec![u32::MAX; n_vocab],
            total: u64::MAX,
        });
        let dense = Distribution::Dense(v1::DenseDistribution { probabilities: vec![255; 4 * n_vocab] });
        for (form, distribution) in [(DistributionForm::Sparse, sparse), (DistributionForm::Dense, dense)] {
            let token = v1::DraftToken { token_id: u32::MAX, distribution: Some(distribution) };
            let message = v1::Proposal {
                round: u64::MAX,
                base_length: u32::MAX,
                base_digest: u64::MAX,
                version_id: "f".repeat(64),
                tokens: vec![token; draft_length],
                timings: Some(v1::DraftTimings { queue_micros: u32::MAX, compute_micros: u32::MAX }),
            };
            let limits = MessageLimits::new(n_vocab, 1, draft_length, form).unwrap();
            assert!(message.encoded_len() <= limits.proposal_bytes, "{form}");
        }
    }

    #[test]
    fn a_whole_context_fits() {
        let open = v1::Open { committed: vec![u32::MAX; 8192], ..Default::default() };
        let limits = MessageLimits::new(10, 8192, 1, DistributionForm::Sparse).unwrap();
        assert!(open.encoded_len() <= limits.request_bytes);
    }

    #[test]
    fn what_could_not_be_sent_is_refused_at_start() {
        let error = MessageLimits::new(152_000, 4096, 1000, DistributionForm::Dense).unwrap_err();
        assert!(error.bytes > MESSAGE_CEILING);
        assert!(error.to_string().contains("lower the draft length"));
        let error = MessageLimits::new(usize::MAX, 1, 2, DistributionForm::Dense).unwrap_err();
        assert_eq!(error.bytes, usize::MAX);
    }
}
