//! What the audit costs: it runs on the thread that owns the model.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use specfleet_speculation::TokenId;
use specfleet_speculation::distribution::Proposal;
use specfleet_speculation::honesty::{self, Audit};
use specfleet_speculation::propose::Rule;
use specfleet_speculation::random::{DraftRandomness, RequestSeed, VerifyRandomness};
use specfleet_speculation::round::{self, RoundInput};

use crate::habit::{Habit, shape};
use crate::rows::{N_VOCAB, Rows};
use crate::say;

/// `cargo test --release -p specfleet-speculation --test honesty -- --ignored`
#[test]
#[ignore = "a measurement, for a quiet machine"]
fn microseconds_a_position() {
    const N_ROUNDS: u64 = 20_000;
    let (rows, seed) = (Rows::new(), RequestSeed::from_u64(1));
    let (verify, draft) = (VerifyRandomness::new(&seed), DraftRandomness::new(&seed.draft_seed()));
    let propose = |position| {
        let drafted = Habit::Honest.draft(&rows.draft(0), 1.0, &draft, position, position).unwrap();
        Proposal::new(vec![drafted.token], vec![drafted.distribution], N_VOCAB).unwrap()
    };
    let proposals: Vec<Proposal> = (0..N_ROUNDS).map(propose).collect();
    let target = shape(&rows.target(0), 1.0);
    let input = |base_length| RoundInput {
        proposal: Some(&proposals[base_length as usize]),
        base_length,
        rule: Rule::Standard,
        randomness: &verify,
        is_end: &|_| false,
        budget: 1,
    };
    let row = |_: usize, _: &[TokenId]| Ok::<_, Infallible>(target.clone());

    let started = Instant::now();
    (0..N_ROUNDS).for_each(|base| drop(round::decide(input(base), row)));
    let alone = started.elapsed();
    let (mut audit, mut observations) = (Audit::new(), Vec::new());
    let started = Instant::now();
    for base in 0..N_ROUNDS {
        drop(honesty::decide(input(base), &mut observations, row));
        observations.drain(..).for_each(|observation| audit.observe(&observation));
    }
    let audited = started.elapsed();
    let per_position = |time: Duration| 1e6 * time.as_secs_f64() / N_ROUNDS as f64;
    say(&format!(
        "a decision takes {:.2} microseconds, its audit {:.2} more",
        per_position(alone),
        per_position(audited) - per_position(alone)
    ));
    assert_eq!(audit.figures().positions, N_ROUNDS, "the proposals are honest");
}
