//! Faults that no law shows: each text is a fine draw of the target's, only not the one that was promised. What is held
//! against each other here is texts.

use std::sync::{Mutex, PoisonError};

use futures::future::join_all;
use specfleet_client::v1::{GenerateRequest, SamplingParams};
use specfleet_speculation::{TokenId, random::VerifyRandomness};
use specfleet_tests::{
    drafts,
    in_process::{Draft, Verifier},
    outcome::Outcome,
    report,
    scripted_pair::{loaded, model, request, settings},
};
use specfleet_verifier_service::controls::Control;

use super::{case::serve, rounds};

const RISING: &str = include_str!("../sampling/tables/rising.txt");
const FALLING: &str = include_str!("../sampling/tables/falling.txt");

/// Tokens of each text.
const LENGTH: u32 = 64;

/// What is promised about texts.
#[derive(Clone, Copy, Debug)]
enum Promise {
    /// The text of a seed is the one that another verifier gives, without a draft.
    Seed,
    /// It is in a crowd too, half of which has no seed.
    SeedInACrowd,
    /// Greedy text is plain decoding's, where two tokens are nearly as likely: one number in half precision.
    GreedyNearATie,
    /// And where they are equally likely, and the draft prefers the other one.
    GreedyAtATie,
}

/// Texts side by side.
#[derive(Debug)]
struct Comparison {
    n_tokens: usize,
    /// Tokens up to the first that differs.
    differs_after: Option<usize>,
}

impl Promise {
    const ALL: [Self; 4] = [Self::Seed, Self::SeedInACrowd, Self::GreedyNearATie, Self::GreedyAtATie];

    /// Whether a verifier keeps it.
    async fn check(self, control: Option<Control>) -> Comparison {
        let [target, draft] = match self {
            Self::Seed | Self::SeedInACrowd => [RISING, FALLING],
            // Logits of 10 and 10.03.
            Self::GreedyNearATie => ["* -> 0:22026.47 1:22697.27"; 2],
            Self::GreedyAtATie => ["* -> 0:5 1:5 2:1", "* -> 1:1"],
        };
        let draft = Draft::start(loaded(model(draft)), settings().draft);
        let verifier = serve(model(target), vec![draft.channel()], settings().verifier, control);
        let other = serve(model(target), vec![], settings().verifier, None);
        verifier.wait_for_drafts().await;

        let (expected, texts) = match self {
            Self::Seed => (texts(&other, [0, 1, 2].map(seeded)).await, texts(&verifier, [0, 1, 2].map(seeded)).await),
            Self::SeedInACrowd => {
                let strangers = (0..8).map(|index| request(&[index], LENGTH));
                let crowd = join_all(strangers.map(|request| Outcome::of(&verifier.client, request)));
                let seeds = std::array::from_fn::<_, 8, _>(|seed| seeded(seed as u64));
                let (texts_in_a_crowd, _) = tokio::join!(texts(&verifier, seeds.clone()), crowd);
                (texts(&other, seeds).await, texts_in_a_crowd)
            }
            Self::GreedyNearATie | Self::GreedyAtATie => {
                let plain = GenerateRequest { speculation: Some(drafts::off()), ..greedy() };
                (texts(&verifier, [plain]).await, texts(&verifier, [greedy()]).await)
            }
        };
        Comparison::of(&expected, &texts)
    }
}

impl Comparison {
    fn of(expected: &[TokenId], texts: &[TokenId]) -> Self {
        assert_eq!(expected.len(), texts.len(), "nothing ends these texts before their length");
        let differs_at = expected.iter().zip(texts).position(|(expected, token)| expected != token);
        Self { n_tokens: texts.len(), differs_after: differs_at.map(|index| index + 1) }
    }
}

/// Texts and not laws, so what is counted is tokens until one is not the promised one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_that_are_not_the_promised_ones_are_caught() {
    let decided = |decide: rounds::Decide| Control::Decides(Box::new(move |round| decide(&round)));
    let faults = [
        ("a seed without effect", Promise::Seed, decided(rounds::numbers_from_nowhere)),
        ("random numbers in the wrong row", Promise::SeedInACrowd, numbers_of_the_one_before()),
        (
            "greedy: rows of a round in half precision",
            Promise::GreedyNearATie,
            decided(rounds::rounds_in_half_precision),
        ),
        ("greedy: a tie goes to the draft", Promise::GreedyAtATie, decided(rounds::ties_for_the_draft)),
    ];
    let (mut lines, mut missed) = (vec![], vec![]);
    for (name, promise, control) in faults {
        let Comparison { n_tokens, differs_after } = promise.check(Some(control)).await;
        let caught_after = differs_after.map_or("never".to_owned(), |n_tokens| n_tokens.to_string());
        lines.push([name.to_owned(), n_tokens.to_string(), caught_after]);
        if differs_after.is_none() {
            missed.push(name);
        }
    }
    report::print("Faults that break a promise about a text", ["", "tokens", "caught after"], lines);
    assert!(missed.is_empty(), "not caught: {missed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn promised_texts_are_kept() {
    for promise in Promise::ALL {
        let comparison = promise.check(None).await;
        assert_eq!(comparison.differs_after, None, "{promise:?}: {comparison:?}");
    }
}

/// Random numbers that arrive a request late: each gets those of whoever was decided before it. Alone nobody can tell.
fn numbers_of_the_one_before() -> Control {
    let last: Mutex<Option<VerifyRandomness>> = Mutex::new(None);
    Control::Decides(Box::new(move |undecided| {
        let own = undecided.input.randomness.clone();
        let before = last.lock().unwrap_or_else(PoisonError::into_inner).replace(own.clone());
        rounds::with_numbers(&undecided, &before.unwrap_or(own))
    }))
}

fn seeded(seed: u64) -> GenerateRequest {
    GenerateRequest { seed: Some(seed), ignore_eos: true, ..request(&[2, 7], LENGTH) }
}

fn greedy() -> GenerateRequest {
    let sampling = Some(SamplingParams { temperature: Some(0.0), ..SamplingParams::default() });
    GenerateRequest { sampling, ..request(&[2, 7], LENGTH) }
}

/// Of all requests at once, one after the other.
async fn texts<const N: usize>(verifier: &Verifier, requests: [GenerateRequest; N]) -> Vec<TokenId> {
    let outcomes = join_all(requests.into_iter().map(|request| Outcome::of(&verifier.client, request))).await;
    outcomes.into_iter().flat_map(|outcome| outcome.unwrap().token_ids()).collect()
}
