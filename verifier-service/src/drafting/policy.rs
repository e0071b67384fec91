//! Which draft serves a request?
//!
//! A pinned request gets a draft of that version or none. Any other request is bound to the version of the first ready
//! draft in configured order: the operator's order is the preference, and a new version is brought in by putting it
//! first. Replicas of one version share the load by open sessions, since a session stays with one process for life.

use super::PlainReason;

/// A configured draft as the policy sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate<'a> {
    /// The version it serves, if it is ready.
    pub(crate) version: Option<&'a str>,
    /// Sessions that this verifier has open there.
    pub(crate) n_sessions: u32,
}

/// The index of the draft to open a session with, or why there is none.
pub(crate) fn choose(candidates: &[Candidate<'_>], pin: Option<&str>) -> Result<usize, PlainReason> {
    let first_ready = candidates.iter().find_map(|candidate| candidate.version);
    let first_ready = first_ready.ok_or(PlainReason::NoDraft)?;
    let version = pin.unwrap_or(first_ready);
    (candidates.iter().enumerate())
        .filter(|(_, candidate)| candidate.version == Some(version))
        .min_by_key(|(_, candidate)| candidate.n_sessions)
        .map(|(index, _)| index)
        .ok_or(PlainReason::VersionMismatch)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(version: &str, n_sessions: u32) -> Candidate<'_> {
        Candidate { version: Some(version), n_sessions }
    }

    const DOWN: Candidate<'static> = Candidate { version: None, n_sessions: 0 };

    #[test]
    fn without_a_ready_draft_there_is_none() {
        assert_eq!(choose(&[], None), Err(PlainReason::NoDraft));
        assert_eq!(choose(&[DOWN, DOWN], Some("a")), Err(PlainReason::NoDraft));
    }

    #[test]
    fn the_first_ready_version_wins_whatever_its_load() {
        assert_eq!(choose(&[DOWN, ready("a", 9), ready("b", 0)], None), Ok(1));
    }

    #[test]
    fn replicas_share_the_load() {
        let candidates = [ready("a", 3), ready("b", 0), ready("a", 2), ready("a", 2)];
        assert_eq!(choose(&candidates, None), Ok(2));
    }

    #[test]
    fn a_pin_is_kept_or_refused_never_bent() {
        let candidates = [ready("a", 0), ready("b", 5)];
        assert_eq!(choose(&candidates, Some("b")), Ok(1));
        assert_eq!(choose(&candidates, Some("B")), Err(PlainReason::VersionMismatch));
        assert_eq!(choose(&candidates, Some("")), Err(PlainReason::VersionMismatch));
    }
}
