//! Several continuations of one prompt: independent of each other, each with an end of its own, and one fate when the
//! request is refused, fails or is cancelled.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::Duration,
};

use specfleet_model::scripted::ScriptedModel;
use specfleet_protocol::{
    status::Reason,
    v1::{self, FinishReason, GenerateRequest},
};
use specfleet_speculation::TokenId;
use specfleet_verifier_service::Options;

use crate::{
    sampling::{TARGET, chi_square, lively, reversed, sampled, skewed},
    support::{
        FakeDraft, N_VOCAB, Outcome, PATIENCE, Verifier, greedy_target, one_hot, options, plain, request, winding,
    },
};

fn several(n: u32, request: GenerateRequest) -> GenerateRequest {
    GenerateRequest { n, ..request }
}

/// A draft that draws anew each time, also for two continuations that have the same tokens so far.
fn drawing() -> FakeDraft {
    let n_draws = AtomicU32::new(0);
    FakeDraft::new(move |advance| reversed(advance, n_draws.fetch_add(1, Relaxed).wrapping_mul(0x85EB_CA6B)))
}

fn tokens(choices: &[Outcome]) -> Vec<Vec<TokenId>> {
    choices.iter().map(Outcome::tokens).collect()
}

/// Eight continuations of three tokens each, over the law [.1 .2 .3 .4] with a draft of the reverse: all tokens follow the
/// law, two continuations agree at a position with probability sum p^2 = 0.3, and all eight with sum p^8 = 0.0007.
async fn assert_independent(n_requests: u32, seed: impl Fn(u32) -> Option<u64>) {
    const N: u32 = 8;
    let verifier = Verifier::with_draft(skewed(), &drawing(), options()).await;
    let (mut counts, mut n_pairs, mut n_equal_pairs, mut n_all_equal) = ([0_u64; 4], 0.0, 0.0, 0);
    for index in 0..n_requests {
        let prompt = [index % 14, index / 14 % 14, 5];
        let choices = verifier.choices(several(N, sampled(&prompt, 3, seed(index)))).await.unwrap();
        let choices = tokens(&choices);
        choices.iter().flatten().for_each(|&token| counts[token as usize] += 1);
        for position in 0..3 {
            let at_position: Vec<TokenId> = choices.iter().map(|tokens| tokens[position]).collect();
            n_all_equal += u32::from(at_position.iter().all(|token| *token == at_position[0]));
            // Pairs without a common member, so that they are independent trials.
            for pair in at_position.as_chunks::<2>().0 {
                n_pairs += 1.0;
                n_equal_pairs += f64::from(u8::from(pair[0] == pair[1]));
            }
        }
    }
    // 3 degrees of freedom; false alarms: one in a million.
    assert!(chi_square(&counts, &TARGET) < 30.7, "{counts:?}");
    // Five standard deviations: one in two million.
    let deviation: f64 = (n_equal_pairs - 0.3 * n_pairs) / (0.3_f64 * 0.7 * n_pairs).sqrt();
    assert!(deviation.abs() < 5.0, "{n_equal_pairs} of {n_pairs} pairs are equal");
    // Poisson with a mean of 0.0007 x 3 x requests: at most 5.4, and above 20 once in two million.
    assert!(n_all_equal <= 20, "{n_all_equal} of {n_requests} requests");
}

fn n_requests() -> u32 {
    if std::env::var_os("SPECFLEET_TEST_LONG").is_some() { 2500 } else { 500 }
}

#[tokio::test(flavor = "multi_thread")]
async fn continuations_without_a_seed_are_independent_samples() {
    assert_independent(n_requests(), |_| None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn continuations_of_one_seed_are_independent_samples() {
    assert_independent(n_requests(), |index| Some(index.into())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_seed_fixes_every_continuation_and_the_first_is_that_of_a_single_one() {
    let verifier = Verifier::with_draft(lively(), &FakeDraft::following(winding), options()).await;
    let eight = tokens(&verifier.choices(several(8, sampled(&[1], 32, Some(7)))).await.unwrap());
    assert_eq!(tokens(&verifier.choices(several(8, sampled(&[1], 32, Some(7)))).await.unwrap()), eight);
    assert_eq!(eight.iter().collect::<BTreeSet<_>>().len(), 8, "they differ");
    verifier.generate(sampled(&[1], 32, Some(7))).await.assert_tokens(&eight[0]);
    let three = tokens(&verifier.choices(several(3, sampled(&[1], 32, Some(7)))).await.unwrap());
    assert_eq!(three, eight[..3], "whatever their number");

    let alone = Verifier::start(lively(), Vec::new(), options());
    let undrafted = tokens(&alone.choices(several(8, sampled(&[1], 32, Some(7)))).await.unwrap());
    assert_eq!(undrafted, eight, "whatever the draft");
    verifier.assert_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_continuation_that_ends_early_lets_the_others_go_on() {
    let verifier = Verifier::with_draft(skewed(), &drawing(), options()).await;
    let wire = GenerateRequest { stop_token_ids: vec![1], ..several(16, sampled(&[5], 8, Some(3))) };
    let choices = verifier.choices(wire).await.unwrap();
    let mut n_stopped = 0;
    for (index, choice) in choices.iter().enumerate() {
        choice.assert_consistent();
        let finished = choice.finished.as_ref().unwrap();
        assert_eq!((finished.choice_index as usize, finished.usage.unwrap().prompt_tokens), (index, 1));
        let tokens = choice.tokens();
        match choice.reason() {
            FinishReason::Stop => {
                n_stopped += 1;
                assert_eq!(tokens.iter().position(|&token| token == 1), Some(tokens.len() - 1), "{tokens:?}");
            }
            _ => assert!(tokens.len() == 8 && !tokens.contains(&1), "{tokens:?}"),
        }
    }
    assert!((1..16).contains(&n_stopped), "{n_stopped}");
    verifier.assert_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn greedy_continuations_are_equal_and_the_prompt_is_computed_once() {
    // A pass takes 64 rows: the prompt alone takes ten of them, and would take eighty if everybody computed it.
    let verifier = Verifier::start(greedy_target(winding), Vec::new(), Options { step_tokens: 64, ..options() });
    let prompt: Vec<TokenId> = (0..640).map(|index| index * 7 % 15).collect();
    for choice in verifier.choices(several(8, request(&prompt, 4))).await.unwrap() {
        choice.assert_tokens(&plain(winding, &prompt, 4));
    }
    let n_passes = verifier.metric("specfleet_verifier_step_seconds_count", "");
    assert!(n_passes < 20.0, "{n_passes}");
    verifier.assert_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_continuations_than_fit_the_memory_take_turns() {
    let wire = || several(8, sampled(&(0..40).map(|id| id % 14).collect::<Vec<_>>(), 100, Some(11)));
    let roomy = Verifier::start(lively(), Vec::new(), options());
    let expected = tokens(&roomy.choices(wire()).await.unwrap());
    let narrow = Verifier::start(lively().with_kv_tokens(320), Vec::new(), options());
    assert_eq!(tokens(&narrow.choices(wire()).await.unwrap()), expected);
    narrow.assert_idle().await;
}

async fn assert_cancelled(verifier: &Verifier, n: f64) {
    let n_cancelled = || verifier.metric("specfleet_verifier_requests_total", "cancelled");
    verifier.until("the client is missed", async || n_cancelled() == n).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_frees_all_continuations() {
    let draft = FakeDraft::following(winding);
    let target = greedy_target(winding).with_delay(Duration::from_millis(5));
    let verifier = Verifier::with_draft(target, &draft, options()).await;
    let mut stream = verifier.stream(several(8, request(&[1], 4000))).await.unwrap();
    for _ in 0..20 {
        stream.message().await.unwrap().unwrap();
    }
    drop(stream);
    assert_cancelled(&verifier, 8.0).await;
    verifier.assert_idle().await;
    verifier.until("no session", async || draft.n_open() == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_while_the_prompt_is_computed_frees_those_who_wait_for_it() {
    let target = greedy_target(winding).with_delay(Duration::from_millis(5));
    let verifier = Verifier::start(target, Vec::new(), options());
    let prompt: Vec<TokenId> = (0..3000).map(|index| index % 15).collect();
    let mut stream = verifier.stream(several(8, request(&prompt, 10))).await.unwrap();
    stream.message().await.unwrap().unwrap();
    drop(stream);
    assert_cancelled(&verifier, 8.0).await;
    verifier.assert_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_failure_of_one_continuation_is_that_of_the_request() {
    // Whoever draws id 0 three times in a row cannot go on; the others could.
    let target = ScriptedModel::from_fn(N_VOCAB, |prefix| match prefix.ends_with(&[0, 0, 0]) {
        true => vec![f32::NAN; N_VOCAB],
        false => (0..N_VOCAB).map(|id| if id < 2 { 0.0 } else { f32::NEG_INFINITY }).collect(),
    });
    let verifier = Verifier::start(target, Vec::new(), options());
    let failed = verifier.choices(several(16, sampled(&[1], 4000, Some(1)))).await.unwrap_err();
    assert_eq!(Reason::of(&failed), Some(Reason::ModelFailed), "{failed:?}");
    verifier.assert_idle().await;
    verifier.generate(sampled(&[1], 2, Some(1))).await.assert_consistent();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_that_fails_fails_for_all() {
    let target = ScriptedModel::from_fn(N_VOCAB, |prefix| match prefix[0] == 13 {
        true => vec![f32::NAN; N_VOCAB],
        false => one_hot(winding(prefix)),
    });
    let verifier = Verifier::start(target, Vec::new(), options());
    let failed = verifier.choices(several(4, request(&[13], 10))).await.unwrap_err();
    assert_eq!(Reason::of(&failed), Some(Reason::ModelFailed), "{failed:?}");
    verifier.assert_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_continuations_are_admitted_or_none() {
    let target = greedy_target(winding).with_delay(Duration::from_millis(20));
    let verifier = Verifier::start(target, Vec::new(), Options { max_sequences: 2, max_queue: 3, ..options() });
    let reason = async |request| Reason::of(&verifier.choices(request).await.unwrap_err());
    assert_eq!(reason(several(6, request(&[1], 5))).await, Some(Reason::InvalidArgument), "it could never run");

    let running = verifier.stream(several(3, request(&[1], 500))).await.unwrap();
    assert_eq!(reason(several(3, request(&[1], 5))).await, Some(Reason::Overloaded));
    let beside = tokio::time::timeout(PATIENCE, verifier.stream(several(2, request(&[1], 5)))).await.unwrap().unwrap();
    assert_eq!(reason(several(1, request(&[1], 5))).await, Some(Reason::Overloaded));
    drop((running, beside));
    verifier.until("room for five", async || verifier.choices(several(5, request(&[1], 5))).await.is_ok()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_continuation_reports_the_speculation_that_it_had() {
    let draft = FakeDraft::following(winding);
    let verifier = Verifier::with_draft(greedy_target(winding), &draft, options()).await;
    for choice in verifier.choices(several(4, request(&[1], 30))).await.unwrap() {
        choice.assert_tokens(&plain(winding, &[1], 30));
        let report = choice.speculation();
        assert!(report.accepted > 10 && report.corrected == 0, "{report:?}");
        assert_eq!(report.rule(), v1::AcceptanceRule::Standard);
    }
    verifier.until("no session", async || draft.n_open() == 0).await;
}
