//! Whether a token is tested may not depend on it. Who looks at a token before the test and then lets it be, tests those of
//! its kind too seldom: the output leans towards the others, as it does if a draft keeps unlikely tokens to itself.
//!
//! Nobody here looks at tokens. But a draft ends where it doubts, so how *long* a proposal is follows from what was drawn
//! for it, and whatever is decided by its length is decided by its tokens. Here the draft makes much of that: after id 2 it
//! proposes 0 or 1, each half of the time, and goes on for ever after 0, and ends after 1. What follows id 2 is counted.
//!
//! - `memory`: a round gets its memory for the tokens that were asked for, not for those that came.
//! - `lateness`: a draft that takes long for long proposals ends them in time. One that cannot is what the promise excludes.

use specfleet_client::v1::{AcceptanceRule, GenerateRequest, SpeculationOptions};
use specfleet_speculation::TokenId;
use specfleet_tests::{
    chi_square::{ChiSquare, detection},
    report, scripted_pair,
};

mod lateness;
mod memory;

/// Two ids that the draft proposes, and one, as likely as both, that it does not.
const TARGET: &str = "* -> 0:1 1:1 2:2";
/// Sure after 0, in doubt after 1.
const DRAFT: &str = "
    * -> 0:1 1:1
    0 -> 0:1
    1 -> 0:1 1:1 2:1 3:1 4:1 5:1 6:1 7:1 8:1 9:1 10:1 11:1 12:1 13:1 14:1 15:1";
/// Where the length of a proposal follows from its first token.
const FORK: TokenId = 2;

/// What came after [`FORK`], in order.
#[derive(Debug, Default)]
struct Draws(Vec<usize>);

impl Draws {
    /// Takes in a text.
    fn read(&mut self, tokens: &[TokenId]) {
        let after_fork = tokens.windows(2).filter(|pair| pair[0] == FORK);
        self.0.extend(after_fork.map(|pair| pair[1] as usize));
    }

    /// Prints a table of one line, and says after how many draws the target's law was refuted.
    fn judge(&self, title: &str) -> Option<usize> {
        const LAW: [f64; 3] = [0.25, 0.25, 0.5];
        let mut counts = [0; LAW.len()];
        self.0.iter().for_each(|token| counts[*token] += 1);
        let (test, caught_after) = (ChiSquare::of(&counts, &LAW), detection(self.0.iter().copied(), &LAW));
        let cells = [
            format!("{counts:?}"),
            self.0.len().to_string(),
            format!("{:.1}", test.statistic),
            format!("{:.1}", test.threshold()),
            caught_after.map_or("never".to_owned(), |n_draws| n_draws.to_string()),
        ];
        report::print(title, ["of each id", "draws", "chi-square", "threshold", "caught after"], [cells]);
        caught_after
    }
}

/// A request under the standard rule, which speculates with proposals of up to `draft_length` tokens.
fn request(prompt: &[TokenId], n_tokens: usize, draft_length: usize, seed: usize) -> GenerateRequest {
    GenerateRequest {
        seed: Some(seed as u64),
        speculation: Some(SpeculationOptions {
            max_draft_length: Some(draft_length as u32),
            rule: AcceptanceRule::Standard.into(),
            ..SpeculationOptions::default()
        }),
        ..scripted_pair::request(prompt, n_tokens as u32)
    }
}
