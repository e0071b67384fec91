//! Requests without end, drafted for by a draft with a habit and decided by the standard rule.

use specfleet_speculation::distribution::Proposal;
use specfleet_speculation::honesty::{self, Audit, Observation};
use specfleet_speculation::propose::Rule;
use specfleet_speculation::random::{DraftRandomness, RequestSeed, VerifyRandomness};
use specfleet_speculation::round::RoundInput;
use specfleet_speculation::transform;

use crate::habit::{Habit, shape};
use crate::rows::{N_VOCAB, Rows};

const DRAFT_LENGTH: u64 = 3;
/// Tokens of a request; the next one has another seed.
const REQUEST_LENGTH: u64 = 200;

pub(crate) struct Simulation<'a> {
    pub(crate) rows: &'a Rows,
    pub(crate) habit: Habit,
    /// Tested positions before which the draft is honest whatever its habit.
    pub(crate) begins_at: u64,
    pub(crate) temperature: f32,
    pub(crate) seed: u64,
}

impl<'a> Simulation<'a> {
    pub(crate) fn of(rows: &'a Rows, habit: Habit) -> Self {
        Self { rows, habit, begins_at: 0, temperature: 1.0, seed: 0 }
    }

    /// An audit of at least `n_positions`, or of as many as it took to fail the draft.
    pub(crate) fn audit(&self, n_positions: u64) -> Audit {
        let mut audit = Audit::new();
        for request in 0.. {
            self.request(request, &mut audit);
            if audit.failed().is_some() || audit.figures().positions >= n_positions {
                break;
            }
        }
        audit
    }

    fn request(&self, request: u64, audit: &mut Audit) {
        let seed = RequestSeed::from_u64(hash(self.seed, request));
        let (verify, draft) = (VerifyRandomness::new(&seed), DraftRandomness::new(&seed.draft_seed()));
        let (mut base, mut observations) = (0, Vec::new());
        while base < REQUEST_LENGTH {
            let habit = if audit.figures().positions < self.begins_at { Habit::Honest } else { self.habit };
            let proposal = self.propose(habit, &draft, request, base);
            let input = RoundInput {
                proposal: Some(&proposal),
                base_length: base,
                rule: Rule::Standard,
                randomness: &verify,
                is_end: &|_| false,
                budget: usize::MAX,
            };
            let outcome = honesty::decide(input, &mut observations, |index, _| {
                let row = self.rows.target(hash(request, base + index as u64));
                Ok::<_, transform::Error>(shape(&row, self.temperature))
            });
            base += outcome.unwrap().committed.len() as u64;
            observations.drain(..).for_each(|observation: Observation| audit.observe(&observation));
        }
    }

    fn propose(&self, habit: Habit, randomness: &DraftRandomness, request: u64, base: u64) -> Proposal {
        let (mut tokens, mut distributions) = (Vec::new(), Vec::new());
        for position in base..base + DRAFT_LENGTH {
            let row = self.rows.draft(hash(request, position));
            let Some(drafted) = habit.draft(&row, self.temperature, randomness, base, position) else { break };
            tokens.push(drafted.token);
            distributions.push(drafted.distribution);
        }
        Proposal::new(tokens, distributions, N_VOCAB).unwrap()
    }
}

/// Mixes two numbers into one: a finalizer of shifts and multiplications, like that of SplitMix64 (Steele, Lea, Flood, "Fast
/// splittable pseudorandom number generators", 2014), with other shifts.
fn hash(left: u64, right: u64) -> u64 {
    let mut bits = left.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32) ^ right.wrapping_mul(0xD1B5_4A32_D192_ED03);
    for multiplier in [0xBF58_476D_1CE4_E5B9, 0x94D0_49BB_1331_11EB] {
        bits = (bits ^ bits >> 30).wrapping_mul(multiplier);
    }
    bits ^ bits >> 31
}
