//! At each position p is masked, then cut and renormalised like any p.
//!
//! The form is pairs of a letter from `a` to `d` and one from `e` to `h`, any number of them, so the last letter says what
//! may follow. That makes the masked law a table too: it is written down here by hand, and what is drawn from the target
//! *with* the form is judged by it *without* one.

use std::collections::BTreeMap;

use specfleet_client::{
    Client,
    v1::{AcceptanceRule, GenerateRequest, SamplingParams, SpeculationOptions, TokenOrigin},
};
use specfleet_model::scripted::table::Table;
use specfleet_speculation::{
    TokenId,
    round::{self, RoundOutcome},
    transform,
};
use specfleet_tests::{
    chi_square::ChiSquare,
    in_process::{Draft, Verifier},
    lying_draft::{Lie, LyingDraft},
    outcome::Outcome,
    real_models::long_form,
    report,
    scripted_pair::{self, END, N_VOCAB, model, settings, tokenizer},
};
use specfleet_verifier_service::{
    Service,
    controls::{Control, Undecided},
};

use super::{of_form, regex};
use crate::sampling::law::Law;

const PAIRS: &str = "([a-d][e-h])*";
/// What may follow after the second of a pair, and at the beginning.
const FIRST: [TokenId; 5] = [0, 1, 2, 3, END];
const SECOND: [TokenId; 4] = [4, 5, 6, 7];

/// The end is unlikely, and the rest is likelier the lower the id.
const TARGET: &str = include_str!("../sampling/tables/falling.txt");
/// The reverse.
const DRAFT: &str = include_str!("../sampling/tables/rising.txt");

/// The rows of a table with everything taken out that the form does not allow.
fn masked(table: &str) -> String {
    let row = Table::parse(table, N_VOCAB).unwrap().logits(&[]);
    let rule = |ending: &str, allowed: &[TokenId]| {
        let weights = allowed.iter().map(|id| format!(" {id}:{}", row[*id as usize].exp()));
        format!("{ending} ->{}\n", weights.collect::<String>())
    };
    let inside = (0..4).map(|id| rule(&id.to_string(), &SECOND));
    inside.chain([rule("*", &FIRST)]).collect()
}

#[derive(Clone, Copy)]
struct Mode {
    name: &'static str,
    is_seeded: bool,
    rule: AcceptanceRule,
}

const MODES: [Mode; 3] = [
    Mode { name: "standard, no seed", is_seeded: false, rule: AcceptanceRule::Standard },
    Mode { name: "standard, seeded", is_seeded: true, rule: AcceptanceRule::Standard },
    Mode { name: "draft-invariant", is_seeded: true, rule: AcceptanceRule::DraftInvariant },
];

fn samplings() -> [(&'static str, SamplingParams); 3] {
    let plain = SamplingParams::default();
    let cut = SamplingParams { temperature: Some(0.7), top_k: Some(3), ..plain.clone() };
    // The nucleus of what is allowed, not of everything.
    let nucleus = SamplingParams { temperature: Some(1.5), top_p: Some(0.6), min_p: Some(0.1), ..plain.clone() };
    [("no other transform", plain), ("temperature, top-k", cut), ("temperature, min-p, top-p", nucleus)]
}

/// What was drawn after each token, and what became of the draft.
#[derive(Default)]
struct Sample {
    counts: BTreeMap<TokenId, [u64; N_VOCAB]>,
    n_tested: u64,
    n_accepted: u64,
    n_bonus: usize,
    n_failed: u64,
}

impl Sample {
    async fn draw(client: &Client, sampling: &SamplingParams, mode: Mode, n_draws: u64) -> Self {
        let mut sample = Self::default();
        for index in 0.. {
            if sample.n_draws() >= n_draws || sample.n_failed >= n_draws {
                break;
            }
            let prompt = [9, 4 + index % 4];
            let speculation = SpeculationOptions {
                max_draft_length: Some(1 + index % 4),
                rule: mode.rule.into(),
                ..Default::default()
            };
            let request = GenerateRequest {
                sampling: Some(sampling.clone()),
                seed: mode.is_seeded.then_some(index.into()),
                speculation: Some(speculation),
                ..scripted_pair::request(&prompt, 200)
            };
            let outcome = Outcome::of(client, of_form(regex(PAIRS), request)).await;
            match outcome {
                Ok(outcome) => sample.count(prompt[1], &outcome),
                // What it drew before is not known.
                Err(_) => sample.n_failed += 1,
            }
        }
        sample
    }

    fn count(&mut self, last: TokenId, outcome: &Outcome) {
        let mut last = last;
        for token in outcome.token_ids() {
            self.counts.entry(last).or_default()[token as usize] += 1;
            last = token;
        }
        self.n_tested += u64::from(outcome.n_tested());
        self.n_accepted += u64::from(outcome.speculation().accepted);
        self.n_bonus += outcome.count(TokenOrigin::Bonus);
    }

    fn n_draws(&self) -> u64 {
        self.counts.values().flatten().sum()
    }

    fn judge(&self, law: &Law) -> ChiSquare {
        let mut sum = ChiSquare { statistic: 0.0, degrees: 0 };
        for (&last, counts) in &self.counts {
            let test = ChiSquare::of(counts, &law.next(&[last], &[]));
            sum.statistic += test.statistic;
            sum.degrees += test.degrees;
        }
        sum
    }

    fn share_accepted(&self) -> f64 {
        self.n_accepted as f64 / self.n_tested as f64
    }
}

struct Lines(Vec<([String; 5], bool)>);

impl Lines {
    fn push(&mut self, case: String, sample: &Sample, test: &ChiSquare) {
        let figures = [
            case,
            sample.n_draws().to_string(),
            format!("{:.1} (df {})", test.statistic, test.degrees),
            format!("{:.1}", test.threshold()),
            format!("{:.1}%", 100.0 * sample.share_accepted()),
        ];
        self.0.push((figures, test.passes()));
    }

    fn print(self, title: &str) -> Vec<bool> {
        let (figures, passed): (Vec<_>, Vec<_>) = self.0.into_iter().unzip();
        report::print(title, ["case", "draws", "chi-square", "threshold", "accepted"], figures);
        passed
    }
}

fn n_draws() -> u64 {
    if long_form() { 200_000 } else { 5_000 }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_position_has_the_targets_law_masked_and_renormalised() {
    let draft = Draft::start(scripted_pair::loaded(model(DRAFT)), settings().draft);
    let unaware = LyingDraft::new(DRAFT, &tokenizer(), Lie::None);
    let mut lines = Lines(Vec::new());
    let mut accepted = Vec::new();
    for (who, channel, is_aware) in
        [("that masks q", draft.channel(), true), ("that knows nothing of it", unaware.serve(), false)]
    {
        let target = scripted_pair::loaded(model(TARGET));
        let verifier = Verifier::start(target, vec![("draft".to_owned(), channel)], settings().verifier);
        verifier.wait_for_drafts().await;
        for mode in MODES {
            for (transforms, sampling) in samplings() {
                let sample = Sample::draw(&verifier.client, &sampling, mode, n_draws()).await;
                assert_eq!(sample.n_failed, 0, "requests that are left out would bend the law");
                assert!(sample.n_tested > sample.n_draws() / 4, "the draft took part");
                assert!(sample.n_bonus > 100 || !is_aware, "{} bonus tokens", sample.n_bonus);
                let test = sample.judge(&Law::new(&masked(TARGET), &sampling));
                lines.push(format!("draft {who}: {}, {transforms}", mode.name), &sample, &test);
                accepted.push(sample.share_accepted());
            }
        }
    }
    let passed = lines.print("Pairs of letters, drawn under a grammar; draft the reverse of the target");
    assert!(passed.iter().all(|passed| *passed), "not the masked law: {passed:?}");
    let (aware, unaware) = accepted.split_at(MODES.len() * samplings().len());
    let are_more = aware.iter().zip(unaware).all(|(aware, unaware)| aware > unaware);
    assert!(are_more, "a masked q is accepted more often: {aware:?} against {unaware:?}");
}

/// A mask on the rows that judge draft tokens, and none on the one that gives the bonus.
fn bonus_without_the_mask(undecided: &Undecided<'_>) -> Result<RoundOutcome, transform::Error> {
    let n_drafted = undecided.input.proposal.map_or(0, |proposal| proposal.len());
    round::decide(undecided.input, |index, before| match index > 0 && index == n_drafted {
        true => undecided.shape_unmasked(index, undecided.transforms, before),
        false => undecided.shape(index, undecided.transforms, before),
    })
}

fn right(undecided: &Undecided<'_>) -> Result<RoundOutcome, transform::Error> {
    round::decide(undecided.input, |index, before| undecided.shape(index, undecided.transforms, before))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bonus_token_without_the_mask_is_caught() {
    let mut lines = Lines(Vec::new());
    for (name, decide) in [("the right rule", right as fn(&Undecided<'_>) -> _), ("the fault", bonus_without_the_mask)]
    {
        let draft = Draft::start(scripted_pair::loaded(model(DRAFT)), settings().draft);
        let target = scripted_pair::loaded(model(TARGET));
        let (drafts, options) = (vec![("draft".to_owned(), draft.channel())], settings().verifier);
        let verifier = Verifier::serve(|metrics| {
            let control = Control::Decides(Box::new(move |round: Undecided<'_>| decide(&round)));
            Service::start_with_control(target, drafts, options, &metrics.meter(), control)
        });
        verifier.wait_for_drafts().await;
        let sampling = SamplingParams::default();
        let sample = Sample::draw(&verifier.client, &sampling, MODES[0], 2000).await;
        lines.push(name.to_owned(), &sample, &sample.judge(&Law::new(&masked(TARGET), &sampling)));
    }
    assert_eq!(lines.print("A bonus token that the grammar does not bind"), [true, false]);
}
