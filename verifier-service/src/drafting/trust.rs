//! How far is a draft version believed?
//!
//! A proposal comes with a claim: these tokens were drawn from this q. Judged by the claim, more tokens pass; but the
//! output is the target's only if the claim is true. So each version has a standing here. It is believed and audited
//! ([`specfleet_speculation::honesty`]), over all requests, until the audit refutes it; then it is quarantined for as long
//! as this process lives. An operator can also say from the start that a version is not to be believed. Tokens of a
//! version that is not believed are judged as point masses, which is exact however they were chosen, and costs
//! acceptance.
//!
//! The engine reads a version's standing before it looks at a token of a round, and keeps to it until the round is over.
//! Whether q is believed may depend on anything that happened before, but not on what was drawn from it.

use std::sync::{Arc, Once, PoisonError, RwLock};

use specfleet_protocol::v1;
use tracing::warn;

mod acceptance;
mod untrusted;
mod version;

pub(crate) use acceptance::Quota;
pub use untrusted::{NotAVersion, UntrustedDraft};
pub(crate) use version::{Standing, Version};

use version::Trust;

/// More versions than a verifier meets in its life, unless a draft makes them up. Those beyond are not believed.
const MAX_VERSIONS: usize = 1024;

/// All versions that a session was opened with, in order of first use.
#[derive(Debug)]
pub(crate) struct Versions {
    untrusted: Vec<UntrustedDraft>,
    known: RwLock<Vec<Arc<Version>>>,
    overflow: Once,
}

impl Versions {
    pub(crate) fn new(untrusted: Vec<UntrustedDraft>) -> Self {
        Self { untrusted, known: RwLock::default(), overflow: Once::new() }
    }

    /// The version that an identity names.
    pub(crate) fn of(&self, identity: &v1::Identity) -> Arc<Version> {
        let is_it = |version: &&Arc<Version>| *version.id == *identity.version_id;
        if let Some(version) = self.known.read().unwrap_or_else(PoisonError::into_inner).iter().find(is_it) {
            return version.clone();
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(version) = known.iter().find(is_it) {
            return version.clone();
        }
        if known.len() >= MAX_VERSIONS {
            self.overflow.call_once(|| {
                warn!(
                    version = identity.version_id,
                    "this is draft version {} since the start: from now on new ones are not believed, their tokens are \
                     judged as point masses, and metrics call them `other`. If all of them are real, restart the verifier; \
                     if not, a draft makes them up",
                    MAX_VERSIONS + 1
                );
            });
            return Arc::new(Version::surplus(identity));
        }
        let is_untrusted = self.untrusted.iter().any(|untrusted| untrusted.names(&identity.version_id));
        let trust = if is_untrusted { Trust::Untrusted } else { Trust::Trusted };
        let version = Arc::new(Version::new(identity, trust));
        known.push(version.clone());
        version
    }

    /// For `ListDraftVersions`.
    pub(crate) fn list(&self) -> Vec<v1::DraftVersion> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.iter().map(|version| version.to_wire()).collect()
    }
}

#[cfg(test)]
mod tests;
