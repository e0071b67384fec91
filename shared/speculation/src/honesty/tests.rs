use super::*;

/// Observations of an honest draft, evenly spread instead of random; places so that the steps between them are, too.
fn even(index: u64) -> Observation {
    let spread = |number: u64| (number as f64 * 0.618_033_988_749_894_9).fract();
    let place = spread(index * index);
    Observation { expected: 0.5, accepted: spread(index + 7) < 0.5, rank: spread(index), place }
}

fn audit(observations: impl IntoIterator<Item = Observation>) -> Audit {
    let mut audit = Audit::new();
    observations.into_iter().for_each(|observation| audit.observe(&observation));
    audit
}

#[test]
fn each_test_fails_what_only_it_can_see() {
    let too_often = (0..500).map(|index| Observation { accepted: index % 10 != 0, ..even(index) });
    assert_eq!(audit(too_often).failed(), Some(Test::Acceptance));
    let too_likely = (0..500).map(|index| Observation { rank: 0.8 * even(index).rank, ..even(index) });
    assert_eq!(audit(too_likely).failed(), Some(Test::Rank));
    let one_number = (0..500).map(|index| Observation { place: even(index / 2).place, ..even(index) });
    assert_eq!(audit(one_number).failed(), Some(Test::Rank));
}

#[test]
fn a_verdict_is_final_and_its_figures_stay() {
    let mut audit = audit((0..1000).map(|_| Observation { rank: 0.01, ..even(0) }));
    let figures = audit.figures();
    assert!(figures.rank_evidence >= figures.threshold);
    assert!(figures.positions < 1000);
    (0..1000).for_each(|index| audit.observe(&even(index)));
    assert_eq!(audit.figures(), figures);
}

#[test]
fn nothing_seen_is_nothing_held_against_anyone() {
    let figures = Audit::new().figures();
    assert_eq!((figures.positions, figures.acceptance_evidence, figures.rank_evidence), (0, 0.0, 0.0));
    assert!((figures.threshold - 14.508).abs() < 0.001);
}
