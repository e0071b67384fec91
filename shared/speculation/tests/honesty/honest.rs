//! An honest draft is left alone.

use crate::habit::Habit;
use crate::rows::Rows;
use crate::simulation::Simulation;
use crate::{is_long, say};

#[test]
fn an_honest_draft_is_never_failed() {
    let n_positions = if is_long() { 10_000_000 } else { 300_000 };
    let rows = Rows::new();
    let figures = Simulation::of(&rows, Habit::Honest).audit(n_positions).figures();
    say(&format!("honest, one version: {figures:?}"));
    assert!(figures.positions >= n_positions, "{figures:?}");
    assert!(figures.acceptance_evidence < figures.threshold && figures.rank_evidence < figures.threshold);
    // Six standard deviations of a sum of so many passes.
    let off = figures.expected_accepted - figures.accepted as f64;
    assert!(off.abs() < 6.0 * 0.5 * (figures.positions as f64).sqrt(), "{figures:?}");
}

#[test]
fn dense_reports_are_believed_too() {
    let rows = Rows::new();
    let audit = Simulation::of(&rows, Habit::HonestDense).audit(30_000);
    assert_eq!(audit.failed(), None, "{:?}", audit.figures());
}

/// Evidence of x or more comes by with probability at most e^-x. At x = ln 20 that can be counted.
#[test]
fn of_many_honest_versions_few_come_under_suspicion() {
    let (n_versions, n_positions) = if is_long() { (400, 20_000) } else { (100, 3_000) };
    let rows = Rows::new();
    let (mut n_suspected, mut most) = ([0_u32; 2], 0.0_f64);
    for seed in 1..=n_versions {
        let audit = Simulation { seed, ..Simulation::of(&rows, Habit::Honest) }.audit(n_positions);
        assert_eq!(audit.failed(), None, "version {seed}: {:?}", audit.figures());
        let figures = audit.figures();
        for (n, evidence) in n_suspected.iter_mut().zip([figures.acceptance_evidence, figures.rank_evidence]) {
            *n += u32::from(evidence >= 20.0_f64.ln());
            most = most.max(evidence);
        }
    }
    say(&format!("honest, {n_versions} versions: most evidence {most:.2}; above ln 20: {n_suspected:?}"));
    // One in twenty, and six standard deviations.
    let expected = n_versions as f64 / 20.0;
    assert!(n_suspected.iter().all(|n| f64::from(*n) < expected + 6.0 * expected.sqrt()), "{n_suspected:?}");
}
