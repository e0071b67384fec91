//! The border between what a peer sent and what the mathematics may rely on.
//!
//! A message that parses can still hold ids beyond the vocabulary, weights that overflow their sum, or a distribution
//! without the token that was drawn from it. Each would turn into a wrong probability or a panic somewhere deep inside.
//! Everything here checks completely, never panics, allocates no more than the message already took, and says which
//! field broke which rule.
//!
//! **No check looks at a draft token beyond "is it in its own support".** Whether a position is tested must not depend
//! on the token drawn for it, or the output is biased; what a broken message costs is the whole session.

use specfleet_speculation::{TokenId, distribution};
use tonic::Status;

use crate::status;

mod draft_token;
mod enums;
mod output_grammar;
mod proposal;
mod sampling;
mod settings;

pub use enums::{DistributionForm, acceptance_rule};
pub use output_grammar::output_grammar;
pub use proposal::{ProposalBounds, RoundProposal, Timings};
pub use sampling::sampling_params;
pub use settings::DraftSettings;

/// The rule that a message broke.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A message field that must be there is not.
    #[error("{field} is missing")]
    Missing {
        /// Path of the field.
        field: &'static str,
    },
    /// An enum field holds nothing this release knows, or is unspecified.
    #[error("{field} is {value}, which is not a value that can be used here")]
    UnknownValue {
        /// Path of the field.
        field: &'static str,
        /// The number on the wire.
        value: i32,
    },
    /// A list or byte string has the wrong length.
    #[error("{field} has length {length}, must be {expected}")]
    Length {
        /// Path of the field.
        field: &'static str,
        /// As sent.
        length: usize,
        /// The only length allowed.
        expected: usize,
    },
    /// A list is longer than it may be.
    #[error("{field} has length {length}, must be at most {most}")]
    TooLong {
        /// Path of the field.
        field: &'static str,
        /// As sent.
        length: usize,
        /// The longest allowed.
        most: usize,
    },
    /// An id that the vocabulary does not have.
    #[error("{field}[{index}] is {token}, must be below the vocabulary's {n_vocab}")]
    TokenRange {
        /// Path of the list.
        field: &'static str,
        /// Where in the list.
        index: usize,
        /// As sent.
        token: TokenId,
        /// Ids in the vocabulary.
        n_vocab: usize,
    },
    /// Added up, the deltas leave 32 bits.
    #[error("id_deltas of a draft token add up to more than 32 bits at index {index}")]
    DeltaOverflow {
        /// Where in the list.
        index: usize,
    },
    /// The announced total is not the sum of the weights.
    #[error("total of a draft token is {announced}, but its weights add up to {sum}")]
    Total {
        /// As sent.
        announced: u64,
        /// As added up.
        sum: u64,
    },
    /// The distributions or tokens contradict themselves.
    #[error(transparent)]
    Distribution(#[from] distribution::Error),
}

impl Error {
    /// Path of the field that is wrong.
    pub fn field(&self) -> &'static str {
        match self {
            Self::Missing { field }
            | Self::UnknownValue { field, .. }
            | Self::Length { field, .. }
            | Self::TooLong { field, .. }
            | Self::TokenRange { field, .. } => field,
            Self::DeltaOverflow { .. } => "tokens.sparse.id_deltas",
            Self::Total { .. } => "tokens.sparse.total",
            Self::Distribution(_) => "tokens",
        }
    }
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        status::Refusal::new(status::Reason::InvalidArgument, error.to_string())
            .field(error.field(), error.to_string())
            .into()
    }
}

/// Checks that every id of the list `field` is below `n_vocab`.
pub fn check_token_ids(field: &'static str, tokens: &[TokenId], n_vocab: usize) -> Result<(), Error> {
    match tokens.iter().position(|&token| token as usize >= n_vocab) {
        None => Ok(()),
        Some(index) => Err(Error::TokenRange { field, index, token: tokens[index], n_vocab }),
    }
}

#[cfg(test)]
mod tests;
