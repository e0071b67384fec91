//! Draws short answers for the comparison of laws.

use specfleet_client::Answer;
use specfleet_client::v1::{AcceptanceRule, GenerateRequest};

use crate::acceptance::Acceptance;
use crate::audit::ask::{CUT, WHOLE, with_rule};
use crate::audit::cells::Beginning;
use crate::audit::check::Check;
use crate::audit::checks::Audit;
use crate::audit::evidence;
use crate::audit::law::{Case, Finding};
use crate::progress::Progress;
use crate::prompts::{self, Prompt};
use crate::sides::{Mode, Shape};

/// Prompts that answers are drawn to.
const N_PROMPTS: usize = 3;
/// Tokens of an answer: the first one, a round of three, and the bonus token.
const N_TOKENS: u32 = 5;
/// Answers of a case between two looks at the clock.
const LAP: usize = 25;

/// A case, and its answers that were drawn in three ways.
struct Draws {
    prompt: Prompt,
    shape: Shape,
    plain: Vec<Beginning>,
    speculative: Vec<Beginning>,
    noise: Vec<Beginning>,
}

impl Draws {
    fn new(prompt: Prompt, shape: Shape) -> Self {
        Self { prompt, shape, plain: Vec::new(), speculative: Vec::new(), noise: Vec::new() }
    }
}

impl Audit<'_> {
    /// The checks named law and noise.
    pub(super) async fn laws(&self) -> anyhow::Result<[Check; 2]> {
        let prompts = prompts::spread(self.prompts.clone(), N_PROMPTS);
        let cases = [WHOLE, CUT]
            .into_iter()
            .flat_map(|shape| prompts.iter().map(move |prompt| Draws::new(prompt.clone(), shape)));
        let (mut cases, mut acceptance) = (cases.collect::<Vec<_>>(), Acceptance::default());
        let n_samples = self.asker.args.samples;
        let progress = Progress::new("laws".to_owned(), n_samples, "answers a case");
        let mut n_done = 0;
        'laps: while n_done < n_samples {
            let n = LAP.min(n_samples - n_done);
            for case in &mut cases {
                if self.is_out_of_time() {
                    break 'laps;
                }
                self.draw(case, n, &mut acceptance).await?;
            }
            n_done += n;
            progress.show(n_done);
        }
        progress.end();

        // Two tests share what may fail by chance.
        let false_alarm = self.asker.args.false_alarm / 2.0;
        let mut law =
            compare(&cases, |case| &case.speculative).check("law", false_alarm, evidence::too_little(&acceptance));
        law.compared = format!("{}; {}", law.compared, evidence::words(&acceptance));
        law.numbers.extend(evidence::numbers(&acceptance));
        let noise = compare(&cases, |case| &case.noise).check("noise", false_alarm, None);
        Ok([law, noise])
    }

    /// `n` more answers in each way.
    async fn draw(&self, case: &mut Draws, n: usize, acceptance: &mut Acceptance) -> anyhow::Result<()> {
        let request = |mode, rule| with_rule(self.asker.request(&case.prompt, case.shape, mode, N_TOKENS), rule);
        let one_by_one = std::iter::repeat_n(request(Mode::Speculative, AcceptanceRule::Standard), n);
        let together = |rule| [GenerateRequest { n: n as u32, ..request(Mode::Plain, rule) }];
        let speculative = self.asker.answers(one_by_one, self.asker.args.streams).await?.concat();
        let plain = self.asker.answers(together(AcceptanceRule::Standard), 1).await?.concat();
        let noise = self.asker.answers(together(AcceptanceRule::DraftInvariant), 1).await?.concat();
        acceptance.add_all(speculative.iter().filter_map(|answer| answer.finished.speculation.as_ref()));
        case.speculative.extend(speculative.iter().map(Answer::token_ids));
        case.plain.extend(plain.iter().map(Answer::token_ids));
        case.noise.extend(noise.iter().map(Answer::token_ids));
        Ok(())
    }
}

/// Plain answers by the standard rule, against others.
fn compare(cases: &[Draws], others: impl Fn(&Draws) -> &Vec<Beginning>) -> Finding {
    let pair = |case: &Draws| Case { first: case.plain.clone(), second: others(case).clone() };
    Finding::of(&cases.iter().map(pair).collect::<Vec<_>>())
}
