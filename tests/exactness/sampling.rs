//! Draws through both services have the law of the target.
//!
//! Target and draft are tables over sixteen ids, mostly with the draft the reverse of the target, behind the production
//! services. The output is counted and held against the law that `law` enumerates, by Pearson's chi-square test.
//! Under the right law the statistic is about its degrees of freedom (df); ten standard deviations above, at
//! df + 10 sqrt(2 df), a test fails. By chance that happens in fewer than one of 100 million tests with the 15 degrees of
//! freedom that most have, and in one of 200 000 with 3. So requests without a seed can be tested too: seeds of their own
//! are the point of them.
//!
//! Every token of a long request is a draw, given its context: whatever the tokens before it were, the law of the next
//! is known. Seeds are numbers from 0, the same in every test: under the draft-invariant rule they give the same draws
//! with every draft, so that whole lines of different tables agree.
//!
//! - `concurrency`: alone and among others, with seeds and without.
//! - `drafts`: draft lengths, and drafts of every kind.
//! - `transforms`: each transform alone, and all of them.
//! - `joint`: two and three tokens together, where a bias between positions shows that single tokens hide.
//! - `real_pair`: the real models, with speculation against without.

use specfleet_client::Client;
use specfleet_tests::{chi_square::ChiSquare, report};

mod concurrency;
mod drafts;
pub(crate) mod draws;
mod joint;
pub(crate) mod law;
mod real_pair;
mod transforms;
mod two_samples;

use self::{
    draws::{Plan, Sample},
    law::Law,
};

/// Every id is likelier than the one before it.
const RISING: &str = include_str!("sampling/tables/rising.txt");
/// The reverse.
const FALLING: &str = include_str!("sampling/tables/falling.txt");

/// The lines of a table, and whether any of them is bad.
struct Report {
    title: &'static str,
    lines: Vec<Line>,
}

struct Line {
    case: String,
    n_draws: u64,
    test: ChiSquare,
    accepted: Option<f64>,
    draws_per_second: f64,
}

impl Report {
    fn new(title: &'static str) -> Self {
        Self { title, lines: Vec::new() }
    }

    /// Draws by a plan and judges the draws by the law of a target.
    async fn case(&mut self, case: impl Into<String>, client: &Client, plan: &Plan, target: &str) -> Sample {
        let sample = Sample::draw(client, plan).await;
        self.judge(case, &sample, &Law::new(target, &plan.sampling), plan.length());
        sample
    }

    /// Judges the first `length` tokens of each draw.
    fn judge(&mut self, case: impl Into<String>, sample: &Sample, law: &Law, length: usize) {
        self.lines.push(Line {
            case: case.into(),
            n_draws: sample.n_draws(),
            test: sample.judge(law, length),
            accepted: sample.share_accepted(),
            draws_per_second: sample.draws_per_second(),
        });
    }

    /// Prints the table, then fails if a line does.
    fn finish(self) {
        let header = ["case", "draws", "df", "chi-square", "threshold", "accepted", "draws/s"];
        report::print(self.title, header, self.lines.iter().map(Line::cells));
        let failed: Vec<_> = self.lines.iter().filter(|line| !line.test.passes()).map(|line| &line.case).collect();
        assert!(failed.is_empty(), "not the target's law: {failed:?}");
    }
}

impl Line {
    fn cells(&self) -> [String; 7] {
        [
            self.case.clone(),
            self.n_draws.to_string(),
            self.test.degrees.to_string(),
            format!("{:.1}", self.test.statistic),
            format!("{:.1}", self.test.threshold()),
            self.accepted.map_or("-".to_owned(), |share| format!("{:.1}%", 100.0 * share)),
            format!("{:.0}", self.draws_per_second),
        ]
    }
}
