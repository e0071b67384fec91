//! An audit proves nothing if drafts rested while it ran. Was there enough speculation to judge?

use crate::acceptance::{Acceptance, share};
use crate::text::list;

/// Of all rounds, at least so many must have tested a proposal.
const LEAST_SHARE: f64 = 0.25;
/// And at least so many in number.
const LEAST_ROUNDS: u64 = 10;

/// Why there was too little speculation, if so.
pub(super) fn too_little(acceptance: &Acceptance) -> Option<String> {
    let Acceptance { speculative_rounds, plain_steps, plain_reasons, .. } = acceptance;
    if *speculative_rounds >= LEAST_ROUNDS && acceptance.share_of_rounds() >= LEAST_SHARE {
        return None;
    }
    let reasons = if plain_reasons.is_empty() { String::new() } else { format!(" ({})", list(plain_reasons)) };
    Some(format!(
        "only {speculative_rounds} of {} rounds tested a proposal{reasons}; at least {LEAST_ROUNDS} and {:.0}% are needed",
        speculative_rounds + plain_steps,
        100.0 * LEAST_SHARE
    ))
}

/// How much there was.
pub(super) fn words(acceptance: &Acceptance) -> String {
    format!(
        "{:.0}% of rounds with a proposal, {:.0}% of it accepted",
        100.0 * acceptance.share_of_rounds(),
        100.0 * share(acceptance.accepted, acceptance.proposed)
    )
}

/// The same for programs.
pub(super) fn numbers(acceptance: &Acceptance) -> [(&'static str, f64); 4] {
    [
        ("speculative_rounds", acceptance.speculative_rounds as f64),
        ("plain_steps", acceptance.plain_steps as f64),
        ("tokens_proposed", acceptance.proposed as f64),
        ("tokens_accepted", acceptance.accepted as f64),
    ]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn few_rounds_and_a_small_share_of_rounds_are_too_little() {
        let seen = |speculative_rounds, plain_steps| {
            let plain_reasons = [("load".to_owned(), plain_steps)].into();
            too_little(&Acceptance { speculative_rounds, plain_steps, plain_reasons, ..Acceptance::default() })
        };
        assert_eq!(seen(100, 300), None);
        assert_eq!(
            seen(100, 301).unwrap(),
            "only 100 of 401 rounds tested a proposal (load 301); at least 10 and 25% are needed"
        );
        assert!(seen(9, 0).is_some());
        assert!(seen(0, 0).is_some());
    }
}
