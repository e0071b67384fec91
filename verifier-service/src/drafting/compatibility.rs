//! Can this draft propose tokens to this target? Decided from the identity that it sends, before any session.

use specfleet_model::identity::{Incompatible, PROTOCOL_NUMBER, Side, TRANSFORM_SPEC, check_compatible};
use specfleet_protocol::v1;
use specfleet_service::identity;

use super::Target;

/// Why a draft cannot serve this target.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// Nothing to check.
    #[error("it sends no identity; it is not a draft service of this protocol")]
    NoIdentity,
    /// It cannot be read, or its version id is none that could be pinned.
    #[error(transparent)]
    Unreadable(#[from] identity::Error),
    /// It speaks another protocol.
    #[error("it speaks protocol {theirs}, this verifier speaks {PROTOCOL_NUMBER}; upgrade the older of the two")]
    Protocol { theirs: u32 },
    /// It shapes distributions by other rules.
    #[error("it follows transform spec {theirs}, this verifier follows {TRANSFORM_SPEC}; upgrade the older of the two")]
    TransformSpec { theirs: u32 },
    /// Same ids, other tokens.
    #[error(transparent)]
    Vocabulary(#[from] Incompatible),
}

/// Checks everything that makes a draft unusable, the vocabulary by the spelling of each id.
pub(super) fn check(target: &Target, draft: v1::Identity) -> Result<(), Error> {
    let draft = identity::from_wire(draft)?;
    if draft.protocol_number != PROTOCOL_NUMBER {
        return Err(Error::Protocol { theirs: draft.protocol_number });
    }
    if draft.transform_spec != TRANSFORM_SPEC {
        return Err(Error::TransformSpec { theirs: draft.transform_spec });
    }
    // The draft's side stays a digest: spellings do not travel.
    let named = |error: Incompatible| error.with_spelling(Side::Target, &target.tokenizer);
    Ok(check_compatible(&target.vocabulary, &draft.vocabulary).map_err(named)?)
}
