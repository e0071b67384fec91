//! Many requests, little memory, clients that leave: each request gets what it would get alone, and an end.

use std::{collections::BTreeMap, time::Duration};

use futures::future::join_all;
use specfleet_model::scripted::ScriptedModel;
use specfleet_protocol::{
    status::Reason,
    v1::{self, GenerateRequest, generate_request::Prompt},
};
use specfleet_speculation::TokenId;
use specfleet_verifier_service::Options;
use tonic::{Code, Request};
use tonic_types::StatusExt;

use crate::support::{
    Answer, FakeDraft, LONG, N_VOCAB, Outcome, PATIENCE, Verifier, drafted, greedy_target, one_hot, options, plain,
    request, winding,
};

/// Three requests in KV memory for one and a quarter. All three run, until the youngest has to go; then the second, until
/// the first is done; then both, until the youngest has to go once more. A session that was opened anew has proposed nothing
/// for the first round, so if that tests anything, it is from before the loss.
///
/// A prefix that is computed again ends with a plain round, whatever is held, unless the last pass is for a single token. So
/// prompts, rounds and passes are as long as each other: what comes after a prefix is one token.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_loses_its_memory_twice_tests_no_proposal_from_before() {
    const N_TOKENS: u32 = 250;
    const ROUND: usize = 16;
    let draft = FakeDraft::following(winding);
    let target = greedy_target(winding).with_kv_tokens(320).with_delay(Duration::from_millis(5));
    let options = Options { step_tokens: ROUND, max_draft_length: ROUND - 1, ..options() };
    let verifier = Verifier::with_draft(target, &draft, options).await;
    let prompts: [[TokenId; ROUND]; 3] = [[1; ROUND], [2; ROUND], [3; ROUND]];
    let generate = |prompt: &[TokenId; ROUND]| verifier.generate(drafted(prompt, N_TOKENS, ROUND as u32 - 1));
    let outcomes = join_all(prompts.iter().map(generate)).await;

    let (mut losses, mut n_dropped) = (Vec::new(), 0);
    for (prompt, outcome) in prompts.iter().zip(&outcomes) {
        outcome.assert_tokens(&plain(winding, prompt, N_TOKENS as usize));
        let opened = draft.opens().into_iter().map(|open| open.committed).filter(|prefix| prefix.starts_with(prompt));
        let reopened: Vec<usize> = opened.skip(1).map(|prefix| prefix.len()).collect();
        let tested = tested_by_prefix(prompt.len(), outcome);
        assert!(reopened.first().is_none_or(|length| length % ROUND == 1), "one token after the prefix: {reopened:?}");
        for length in &reopened {
            assert_eq!(tested[length], 0, "what was proposed for the prefix of {length} tokens before it was lost");
        }
        losses.push(reopened.len());
        n_dropped += outcome.speculation().dropped_proposals.get("stale").copied().unwrap_or_default();
    }
    let n_losses = losses.iter().sum::<usize>() as f64;
    assert_eq!(n_losses, verifier.metric("specfleet_verifier_preemptions_total", ""), "a new session after each loss");
    assert!(losses.iter().any(|&n_losses| n_losses >= 2), "{losses:?}");
    assert!(n_dropped > 0, "proposals were held, and void");
    verifier.assert_idle().await;
}

/// How many draft tokens were tested by the round that found so many tokens committed.
fn tested_by_prefix(mut n_committed: usize, outcome: &Outcome) -> BTreeMap<usize, u32> {
    let mut tested = BTreeMap::new();
    for round in &outcome.rounds {
        tested.insert(n_committed, round.n_proposed);
        n_committed += round.tokens.len();
    }
    tested
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preempted_request_keeps_its_place_and_its_random_numbers() {
    let sampled = |prompt: &[TokenId]| GenerateRequest {
        sampling: Some(v1::SamplingParams { temperature: Some(1.0), ..Default::default() }),
        seed: Some(11),
        ..request(prompt, 150)
    };
    let target = || {
        ScriptedModel::from_fn(N_VOCAB, |prefix| {
            (0..N_VOCAB as u32)
                .map(|id| if id == 15 { -30.0 } else { winding(&[prefix[prefix.len() - 1], id]) as f32 / 5.0 })
                .collect()
        })
    };
    let alone = Verifier::start(target(), Vec::new(), options());
    // Slow enough for all of them to meet, however late the last one comes.
    let crowded = target().with_kv_tokens(320).with_delay(Duration::from_millis(3));
    let crowded = Verifier::start(crowded, Vec::new(), options());
    let prompts: [[TokenId; 2]; 4] = [[1, 2], [3, 4], [5, 6], [7, 8]];
    let outcomes = join_all(prompts.iter().map(|prompt| crowded.generate(sampled(prompt)))).await;
    assert!(crowded.metric("specfleet_verifier_preemptions_total", "") >= 1.0);
    for (prompt, outcome) in prompts.iter().zip(outcomes) {
        outcome.assert_tokens(&alone.generate(sampled(prompt)).await.tokens());
    }
    crowded.assert_idle().await;
}

/// Together their prompts do not fit: the second must wait, although the first holds little memory when it arrives.
#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_that_is_admitted_and_not_yet_computed_counts() {
    let target = greedy_target(winding).with_kv_tokens(320).with_delay(Duration::from_millis(20));
    let verifier = Verifier::start(target, Vec::new(), options());
    let prompts: [Vec<TokenId>; 2] = [1, 2].map(|first| (first..first + 200).map(|id| id % 14).collect());
    join_all(prompts.iter().map(|prompt| {
        let verifier = &verifier;
        async move { verifier.generate(request(prompt, 3)).await.assert_tokens(&plain(winding, prompt, 3)) }
    }))
    .await;
    assert_eq!(verifier.metric("specfleet_verifier_preemptions_total", ""), 0.0);
    verifier.assert_idle().await;
}

/// A context that is longer than the memory is cut to it, so that every accepted request can run.
#[tokio::test(flavor = "multi_thread")]
async fn a_text_ends_where_the_memory_ends() {
    let verifier = Verifier::start(greedy_target(winding).with_kv_tokens(64), Vec::new(), options());
    let outcome = verifier.generate(GenerateRequest { max_tokens: None, ..request(&[1, 2, 3, 4], 0) }).await;
    outcome.assert_tokens(&plain(winding, &[1, 2, 3, 4], 60));
    let status = verifier.generate(request(&[1; 64], 1)).await.status.unwrap();
    assert_eq!(Reason::of(&status), Some(Reason::ContextLength));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_in_chunks_is_the_same_prompt() {
    let verifier = Verifier::start(greedy_target(winding), Vec::new(), options());
    for n_prompt in [1, 15, 16, 17, 63, 64, 65, 500, 1000] {
        let prompt: Vec<TokenId> = (0..n_prompt).map(|index| index * 7 % 15).collect();
        verifier.generate(request(&prompt, 5)).await.assert_tokens(&plain(winding, &prompt, 5));
    }
    verifier.assert_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_known_prefix_is_not_computed_again_and_drafts_as_well() {
    let draft = FakeDraft::following(winding);
    let verifier = Verifier::with_draft(greedy_target(winding), &draft, options()).await;
    let prompt: Vec<TokenId> = (0..100).map(|index| index % 15).collect();
    for index in 0..5 {
        let outcome = verifier.generate(drafted(&prompt, 40, 3)).await;
        outcome.assert_tokens(&plain(winding, &prompt, 40));
        let reused = outcome.started.unwrap().reused_prompt_tokens;
        assert_eq!(reused, if index == 0 { 0 } else { 96 });
        assert_eq!(outcome.finished.unwrap().speculation.unwrap().corrected, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_frees_everything_within_two_rounds() {
    let draft = FakeDraft::following(winding);
    let target = greedy_target(winding).with_delay(Duration::from_millis(5));
    let verifier = Verifier::with_draft(target, &draft, options()).await;
    let mut stream = verifier.stream(drafted(&[1], 4000, 3)).await.unwrap();
    for _ in 0..3 {
        stream.message().await.unwrap().unwrap();
    }
    let asked_before = draft.advances().len();
    drop(stream);
    verifier.assert_idle().await;
    assert!(draft.advances().len() <= asked_before + 3, "{asked_before} then {}", draft.advances().len());
    verifier.until("the draft's session is gone", async || draft.n_open() == 0).await;
    assert_eq!(verifier.metric("specfleet_verifier_requests_total", "cancelled"), 1.0);

    verifier.generate(drafted(&[1], 10, 3)).await.assert_consistent();
    assert_eq!(verifier.metric("specfleet_verifier_requests_total", "cancelled"), 1.0, "a normal end is none");
    assert_eq!(verifier.metric("specfleet_verifier_requests_total", "finished"), 1.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_while_its_draft_is_silent_is_noticed_too() {
    let draft = FakeDraft::new(|_| Answer::Silence);
    let verifier = Verifier::with_draft(greedy_target(winding), &draft, options()).await;
    let mut stream = verifier.stream(drafted(&[1], 4000, 3)).await.unwrap();
    for _ in 0..2 {
        stream.message().await.unwrap().unwrap();
    }
    drop(stream);
    verifier.assert_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_ends_the_request_with_what_it_has() {
    let draft = FakeDraft::new(|advance| {
        let answer = Answer::Tokens(plain(winding, &advance.committed, advance.draft_length));
        Answer::After(Duration::from_millis(10), Box::new(answer))
    });
    let target = greedy_target(winding).with_delay(Duration::from_millis(50));
    let verifier = Verifier::with_draft(target, &draft, options()).await;
    let mut timed = Request::new(drafted(&[1], 1000, 3));
    timed.set_timeout(Duration::from_millis(300));
    let started = std::time::Instant::now();
    let outcome = verifier.generate_within(timed).await;
    let took = started.elapsed();
    // To the end it would take 14 seconds.
    assert!((250..2000).contains(&took.as_millis()), "{took:?}");
    let status = outcome.status.as_ref().unwrap();
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status:?}");
    let tokens = outcome.tokens();
    assert!(!tokens.is_empty(), "verified tokens are kept: {tokens:?}");
    assert_eq!(tokens, plain(winding, &[1], tokens.len()));
    verifier.assert_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_of_a_deadline_is_passed_on_to_the_draft() {
    let draft = FakeDraft::following(winding);
    let verifier = Verifier::with_draft(greedy_target(winding), &draft, options()).await;
    let allowed = Duration::from_secs(15);
    let mut timed = Request::new(drafted(&[1], 10, 3));
    timed.set_timeout(allowed);
    verifier.generate_within(timed).await.assert_consistent();
    verifier.generate(drafted(&[1], 10, 3)).await.assert_consistent();
    let [Some(passed_on), None] = draft.timeouts()[..] else { panic!("{:?}", draft.timeouts()) };
    assert!(passed_on <= allowed && passed_on > allowed / 2, "{passed_on:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn strange_text_is_served_or_refused_and_never_an_error_of_ours() {
    let verifier = Verifier::start(greedy_target(winding), Vec::new(), options());
    for text in [" ", "\n", "\0", "a\0b", "\u{FFFD}", "🦀", "a🦀", "<end>", "\u{202E}ab", "é", "e\u{301}"] {
        let wire = GenerateRequest { prompt: Some(Prompt::Text(text.to_owned())), ..request(&[1], 3) };
        match verifier.generate(wire).await.status {
            None => {}
            Some(status) => assert_eq!(status.code(), Code::InvalidArgument, "{text:?}: {status:?}"),
        }
        verifier.generate(request(&[1], 3)).await.assert_tokens(&plain(winding, &[1], 3));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_requests_are_refused_and_the_next_one_works() {
    let verifier = Verifier::start(greedy_target(winding), Vec::new(), options());
    let text = |text: &str| GenerateRequest { prompt: Some(Prompt::Text(text.to_owned())), ..request(&[1], 3) };
    let bad = [
        text(""),
        request(&[], 3),
        request(&[16], 3),
        request(&[u32::MAX], 3),
        request(&[1], 0),
        drafted(&[1], 3, 1000),
        GenerateRequest { prompt: None, ..request(&[1], 3) },
        GenerateRequest { prompt: Some(Prompt::Chat(v1::ChatPrompt::default())), ..request(&[1], 3) },
        GenerateRequest {
            sampling: Some(v1::SamplingParams { temperature: Some(f32::NAN), ..Default::default() }),
            ..request(&[1], 3)
        },
    ];
    for wire in bad {
        let status = verifier.generate(wire).await.status.unwrap();
        assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
        assert_eq!(Reason::of(&status), Some(Reason::InvalidArgument));
        assert!(!status.get_details_bad_request().unwrap().field_violations.is_empty());
        verifier.generate(text("ab")).await.assert_tokens(&plain(winding, &[0, 1], 3));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_is_not_a_number_fails_its_own_request_only() {
    let poison = |prefix: &[TokenId]| prefix[0] == 13 && prefix.len() == 8;
    let target = ScriptedModel::from_fn(N_VOCAB, move |prefix| match poison(prefix) {
        true => vec![f32::NAN; N_VOCAB],
        false => one_hot(winding(prefix)),
    });
    let draft = FakeDraft::following(winding);
    let verifier = Verifier::with_draft(target, &draft, options()).await;
    let (sick, well) = tokio::join!(verifier.generate(drafted(&[13], 50, 3)), verifier.generate(drafted(&[1], 50, 3)));
    well.assert_tokens(&plain(winding, &[1], 50));
    assert_eq!(Reason::of(sick.status.as_ref().unwrap()), Some(Reason::ModelFailed));
    assert!(sick.finished.is_none(), "no made-up end");
    let tokens = sick.tokens();
    assert_eq!(tokens, plain(winding, &[13], tokens.len()), "what came before is right");
    assert!((1..=7).contains(&tokens.len()));
    verifier.assert_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_request_too_many_is_refused_with_a_time_to_come_back() {
    let target = greedy_target(winding).with_delay(Duration::from_millis(20));
    let verifier = Verifier::start(target, Vec::new(), Options { max_sequences: 1, max_queue: 2, ..options() });
    let mut streams = Vec::new();
    for _ in 0..3 {
        streams.push(verifier.stream(request(&[1], 500)).await.unwrap());
    }
    verifier.until("a running one", async || verifier.metric("specfleet_verifier_running_requests", "") == 1.0).await;
    let status = verifier.generate(request(&[1], 5)).await.status.unwrap();
    assert_eq!(Reason::of(&status), Some(Reason::Overloaded));
    assert!(status.get_details_retry_info().unwrap().retry_delay.is_some());
    let status = verifier.generate(request(&[], 5)).await.status.unwrap();
    assert_eq!(Reason::of(&status), Some(Reason::Overloaded), "nobody has looked at it");
    drop(streams);
    verifier.assert_idle().await;
    verifier.generate(request(&[1], 5)).await.assert_tokens(&plain(winding, &[1], 5));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_loses_its_own_stream_only() {
    let next = |prefix: &[TokenId]| if prefix[0] == LONG { LONG } else { winding(prefix) };
    let verifier = Verifier::start(greedy_target(next), Vec::new(), options());
    // Between engine and client there is room for three megabytes, and then for half a megabyte.
    let unread = verifier.stream(request(&[LONG], 4000)).await.unwrap();
    verifier.generate(request(&[2], 50)).await.assert_tokens(&plain(winding, &[2], 50));
    verifier
        .until("the engine gives up", async || {
            verifier.metric("specfleet_verifier_requests_total", "slow_client") == 1.0
        })
        .await;
    let mut outcome = Outcome::default();
    outcome.read(unread).await;
    assert_eq!(outcome.status.as_ref().unwrap().code(), Code::ResourceExhausted);
    let tokens = outcome.tokens();
    assert!((100..4000).contains(&tokens.len()), "{}", tokens.len());
    assert!(outcome.finished.is_none() && tokens.iter().all(|&token| token == LONG));
}

#[tokio::test(flavor = "multi_thread")]
async fn draining_finishes_what_runs_and_takes_nothing_new() {
    let target = greedy_target(winding).with_delay(Duration::from_millis(5));
    let verifier = Verifier::start(target, Vec::new(), options());
    let short = verifier.stream(request(&[1], 20)).await.unwrap();
    let long = verifier.stream(request(&[2], 4000)).await.unwrap();
    verifier.shutdown.begin();
    let (mut short_outcome, mut long_outcome) = (Outcome::default(), Outcome::default());
    let both = async { tokio::join!(short_outcome.read(short), long_outcome.read(long)) };
    tokio::time::timeout(PATIENCE, both).await.unwrap();
    short_outcome.assert_tokens(&plain(winding, &[1], 20));
    let status = long_outcome.status.unwrap();
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
}
