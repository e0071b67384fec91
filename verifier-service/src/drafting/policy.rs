//! Which draft serves a request?
//!
//! A pinned request gets a draft of that version or none. Any other request is bound to the version of the first ready
//! draft in configured order: the operator's order is the preference, and a new version is brought in by putting it
//! first. Replicas of one version share the load by open sessions, since a session stays with one process for life.
//!
//! A draft whose context is too short for what is committed already could propose nothing: to such a request it is absent.

use super::PlainReason;

/// A configured draft as the policy sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate<'a> {
    /// The version it serves, if it is ready.
    pub(crate) version: Option<&'a str>,
    /// Positions that it can hold.
    pub(crate) context_length: usize,
    /// Sessions that this verifier has open there.
    pub(crate) n_sessions: u32,
}

/// The index of the draft to open a session with about a prefix of `n_committed` tokens, or why there is none.
pub(crate) fn choose(
    candidates: &[Candidate<'_>],
    pin: Option<&str>,
    n_committed: usize,
) -> Result<usize, PlainReason> {
    let ready = || candidates.iter().filter(|candidate| candidate.version.is_some());
    ready().next().ok_or(PlainReason::NoDraft)?;
    let mut wanted = ready().filter(|candidate| pin.is_none() || candidate.version == pin).peekable();
    wanted.peek().ok_or(PlainReason::VersionMismatch)?;
    let has_room = |candidate: &&Candidate<'_>| candidate.context_length > n_committed;
    let version = wanted.find(has_room).ok_or(PlainReason::NothingProposed)?.version;
    (candidates.iter().enumerate())
        .filter(|(_, candidate)| candidate.version == version && has_room(candidate))
        .min_by_key(|(_, candidate)| candidate.n_sessions)
        .map(|(index, _)| index)
        .ok_or(PlainReason::NoDraft)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(version: &str, n_sessions: u32) -> Candidate<'_> {
        Candidate { version: Some(version), context_length: 100, n_sessions }
    }

    const DOWN: Candidate<'static> = Candidate { version: None, context_length: 0, n_sessions: 0 };

    #[test]
    fn without_a_ready_draft_there_is_none() {
        assert_eq!(choose(&[], None, 1), Err(PlainReason::NoDraft));
        assert_eq!(choose(&[DOWN, DOWN], Some("a"), 1), Err(PlainReason::NoDraft));
    }

    #[test]
    fn the_first_ready_version_wins_whatever_its_load() {
        assert_eq!(choose(&[DOWN, ready("a", 9), ready("b", 0)], None, 1), Ok(1));
    }

    #[test]
    fn replicas_share_the_load() {
        let candidates = [ready("a", 3), ready("b", 0), ready("a", 2), ready("a", 2)];
        assert_eq!(choose(&candidates, None, 1), Ok(2));
    }

    #[test]
    fn a_pin_is_kept_or_refused_never_bent() {
        let candidates = [ready("a", 0), ready("b", 5)];
        assert_eq!(choose(&candidates, Some("b"), 1), Ok(1));
        assert_eq!(choose(&candidates, Some("B"), 1), Err(PlainReason::VersionMismatch));
        assert_eq!(choose(&candidates, Some(""), 1), Err(PlainReason::VersionMismatch));
    }

    #[test]
    fn a_draft_whose_context_is_full_is_passed_over() {
        let short = Candidate { context_length: 50, ..ready("a", 0) };
        let candidates = [short.clone(), ready("a", 7), ready("b", 0)];
        assert_eq!(choose(&candidates, None, 49), Ok(0));
        assert_eq!(choose(&candidates, None, 50), Ok(1), "another replica of the version has room");
        assert_eq!(choose(&[short.clone(), ready("b", 0)], None, 50), Ok(1));
        assert_eq!(choose(&[short, ready("b", 0)], Some("a"), 50), Err(PlainReason::NothingProposed));
        assert_eq!(choose(&candidates, None, 100), Err(PlainReason::NothingProposed));
    }
}
