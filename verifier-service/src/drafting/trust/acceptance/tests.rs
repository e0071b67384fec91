#![allow(clippy::unwrap_used)]

use super::*;

/// SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
struct Dice(u64);

impl Dice {
    /// In [0, 1).
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        for multiplier in [0xBF58_476D_1CE4_E5B9, 0x94D0_49BB_1331_11EB] {
            bits = (bits ^ bits >> 30).wrapping_mul(multiplier);
        }
        (bits ^ bits >> 31) as f64 / 2.0_f64.powi(64)
    }
}

/// Requests without end, each with a share of its own.
struct Traffic {
    dice: Dice,
    /// Shares are even between these.
    shares: [f64; 2],
    /// Tested tokens of a request, on average, and never more than ten times as many.
    mean_length: f64,
    /// Those that run: share, and tokens to come.
    running: Vec<(f64, u64)>,
    next: usize,
}

const DRAFT_LENGTH: u64 = 4;

impl Traffic {
    fn new(shares: [f64; 2], mean_length: f64, n_running: usize) -> Self {
        Self { dice: Dice(7), shares, mean_length, running: vec![(0.0, 0); n_running], next: 0 }
    }

    /// The next round of the next request.
    fn round(&mut self) -> Counts {
        let Self { dice, shares: [least, most], mean_length, running, next } = self;
        *next = (*next + 1) % running.len();
        let (share, left) = &mut running[*next];
        if *left == 0 {
            *share = *least + (*most - *least) * dice.uniform();
            *left = (-*mean_length * (1.0 - dice.uniform()).ln()).clamp(1.0, 10.0 * *mean_length) as u64;
        }
        let mut round = Counts::default();
        while round.tested < DRAFT_LENGTH.min(*left) && round.tested == round.accepted {
            round += Counts { tested: 1, accepted: u64::from(dice.uniform() < *share) };
        }
        *left -= round.tested;
        round
    }
}

fn learned(traffic: &mut Traffic) -> Watch {
    let mut watch = Watch::default();
    while watch.usual().is_none() {
        assert_eq!(watch.observe(traffic.round()), None);
    }
    watch
}

/// Tested tokens until something changes, at most `n_most`.
fn until_change(watch: &mut Watch, n_most: u64, mut round: impl FnMut() -> Counts) -> Option<(u64, Change)> {
    let mut n_tested = 0;
    while n_tested < n_most {
        let counts = round();
        n_tested += counts.tested;
        if let Some(change) = watch.observe(counts) {
            return Some((n_tested, change));
        }
    }
    None
}

#[test]
fn a_draft_that_turns_useless_is_noticed_within_the_tokens_that_are_stated() {
    for usual in [0.95, 0.6, 0.2, 0.1] {
        let mut traffic = Traffic::new([usual - 0.05, usual + 0.05], 200.0, 4);
        let mut watch = learned(&mut traffic);
        assert_eq!(until_change(&mut watch, 100_000, || traffic.round()), None);
        let useless = || Counts { tested: 1, accepted: 0 };
        let (n_tested, change) = until_change(&mut watch, u64::MAX, useless).unwrap();
        let stated = BLOCK as f64 * LIMIT / (0.5 * usual);
        println!("{usual}: {n_tested} tokens, stated {stated:.0}: {change}");
        assert!((n_tested as f64 - stated).abs() < 0.1 * stated, "{usual}: {n_tested} tokens, stated {stated}");
        let Change::Fell { usual: said, low } = change else { panic!("{change}") };
        assert!((said - usual).abs() < 0.02 && low.share() < 0.1 * usual, "{change}");
        assert!(watch.has_fallen());
        assert_eq!(until_change(&mut watch, 1_000_000, useless), None, "one fall is one alarm");

        let (n_tested, change) = until_change(&mut watch, u64::MAX, || traffic.round()).unwrap();
        assert_eq!((change, watch.has_fallen()), (Change::Recovered, false));
        assert!((n_tested as f64) < 1.3 * stated, "{usual}: back after {n_tested} tokens, stated {stated}");
    }
}

#[test]
fn a_fall_to_a_third_is_noticed_and_one_to_two_thirds_is_not() {
    let mut traffic = Traffic::new([0.4, 0.8], 200.0, 4);
    let mut watch = learned(&mut traffic);
    traffic.shares = [0.2, 0.6];
    assert_eq!(until_change(&mut watch, 5_000_000, || traffic.round()), None);
    traffic.shares = [0.0, 0.4];
    let (n_tested, change) = until_change(&mut watch, 100_000, || traffic.round()).unwrap();
    assert!(matches!(change, Change::Fell { .. }) && n_tested < 40_000, "{n_tested}: {change}");
}

/// With the usual share learned as it comes. 7 kinds of traffic; long requests that run alone are the worst.
#[test]
fn a_steady_draft_raises_no_alarm() {
    let n_tokens = if std::env::var_os("SPECFLEET_TEST_LONG").is_some() { 400_000_000 } else { 4_000_000 };
    for (shares, mean_length, n_running) in [
        ([0.6, 0.6], 200.0, 1),
        ([0.1, 1.0], 20.0, 1),
        ([0.1, 1.0], 200.0, 1),
        ([0.1, 1.0], 200.0, 16),
        ([0.1, 1.0], 2000.0, 16),
        ([0.3, 0.9], 1000.0, 1),
        ([0.0, 0.2], 200.0, 4),
    ] {
        let mut traffic = Traffic::new(shares, mean_length, n_running);
        let mut watch = learned(&mut traffic);
        let alarm = until_change(&mut watch, n_tokens, || traffic.round());
        assert_eq!(alarm, None, "{n_running} requests of {mean_length} tokens, shares {shares:?}");
    }
}

/// Of a block all or none pass, one in twenty of them. Of the alarms that the bound allows there is hardly one.
#[test]
fn false_alarms_are_as_rare_as_stated_in_the_worst_of_cases() {
    const N_BLOCKS: u64 = 10_000_000;
    let (usual, mut dice, mut watch, mut n_alarms) = (0.05, Dice(3), Watch::default(), 0);
    while watch.usual().is_none() {
        watch.observe(Counts { tested: 20 * BLOCK, accepted: BLOCK });
    }
    for _ in 0..N_BLOCKS {
        let accepted = if dice.uniform() < usual { BLOCK } else { 0 };
        let change = watch.observe(Counts { tested: BLOCK, accepted });
        n_alarms += u64::from(matches!(change, Some(Change::Fell { .. })));
    }
    println!("{n_alarms} false alarms in {N_BLOCKS} blocks");
    assert!(n_alarms <= N_BLOCKS / 340_000, "{n_alarms} false alarms in {N_BLOCKS} blocks");
}

#[test]
fn what_was_useless_from_the_first_token_on_cannot_fall() {
    let mut watch = Watch::default();
    let round = |accepted| Counts { tested: 100, accepted };
    for _ in 0..400 {
        assert_eq!(watch.observe(round(4)), None);
    }
    assert!(watch.usual().unwrap() < LEAST_USUAL);
    for _ in 0..10_000 {
        assert_eq!(watch.observe(round(0)), None);
    }
    assert_eq!((watch.low(), watch.has_fallen()), (Counts::default(), false));
}
