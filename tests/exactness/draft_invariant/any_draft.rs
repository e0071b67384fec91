//! Any draft, any draft length, a fail-over in the middle: one text.

use std::time::Duration;

use futures::{StreamExt, stream};
use specfleet_client::{
    Event,
    v1::{AcceptanceRule, DraftState, GenerateRequest, SpeculationOptions, TokenOrigin},
};
use specfleet_speculation::TokenId;
use specfleet_tests::{
    drafts::{self, Drafts},
    in_process::{Draft, Verifier},
    known_text::KnownText,
    outcome::Outcome,
    scripted_pair::{N_VOCAB, loaded, settings},
};

use super::{lively, sampled, taste, transformed};

const PROMPT: [TokenId; 4] = [1, 6, 1, 8];
const N_TOKENS: usize = 64;

/// A model with a taste of its own, prompt lookup, and drafts that know the text.
#[tokio::test(flavor = "multi_thread")]
async fn the_text_of_a_seed_is_the_same_with_every_draft_of_every_length() {
    let known = KnownText::new(N_VOCAB);
    let drafts = Drafts::of_every_kind(loaded(taste(2, 4.0)), &known);
    let verifier = Verifier::start(loaded(lively()), drafts.channels(), settings().verifier);
    verifier.wait_for_drafts().await;
    for seed in 0..6 {
        let plain_request = |request| GenerateRequest { speculation: Some(drafts::off()), ..request };
        let requests = [sampled(&PROMPT, N_TOKENS, Some(seed)), transformed(sampled(&PROMPT, N_TOKENS, Some(seed)))];
        for request in requests {
            let plain = Outcome::of(&verifier.client, plain_request(request.clone())).await.unwrap();
            known.learn(&PROMPT, &plain.token_ids());
            for (draft, draft_length) in (0..drafts.len()).flat_map(|draft| (1..=8).map(move |length| (draft, length)))
            {
                let speculation = Some(drafts.only(draft, draft_length));
                let request = GenerateRequest { speculation, ..request.clone() };
                let outcome = Outcome::of(&verifier.client, request).await.unwrap();
                let who = format!("seed {seed}, draft {:?}, length {draft_length}", drafts.name(draft));
                assert_eq!(outcome.token_ids(), plain.token_ids(), "{who}");
                assert_eq!(outcome.speculation().rule(), AcceptanceRule::DraftInvariant, "{who}");
                match drafts.name(draft) {
                    "perfect" => assert_eq!(outcome.speculation().corrected, 0, "{who}"),
                    "always wrong" => assert_eq!(outcome.speculation().accepted, 0, "{who}"),
                    "model" => assert!(outcome.speculation().accepted > 0, "{who}: {:?}", outcome.speculation()),
                    _ => {}
                }
            }
        }
    }
}

/// Requests with drafts of all kinds at once, in any order, among strangers.
#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_with_other_drafts_changes_nothing() {
    let known = KnownText::new(N_VOCAB);
    let drafts = Drafts::of_every_kind(loaded(taste(2, 4.0)), &known);
    let verifier = Verifier::start(loaded(lively()), drafts.channels(), settings().verifier);
    verifier.wait_for_drafts().await;
    let mut texts = Vec::new();
    for seed in 0..8_u64 {
        let request = GenerateRequest { speculation: Some(drafts::off()), ..sampled(&PROMPT, N_TOKENS, Some(seed)) };
        let text = Outcome::of(&verifier.client, request).await.unwrap().token_ids();
        known.learn(&PROMPT, &text);
        texts.push(text);
    }
    let (verifier, drafts, texts) = (&verifier, &drafts, &texts);
    let run = |index: usize| async move {
        let stranger = index.is_multiple_of(3);
        let seed = (!stranger).then_some((index % texts.len()) as u64);
        let n_tokens = N_TOKENS / (1 + index % 3);
        let speculation = Some(drafts.only(index % drafts.len(), 1 + (index % 7) as u32));
        let request = GenerateRequest { speculation, ..sampled(&PROMPT, n_tokens, seed) };
        let tokens = Outcome::of(&verifier.client, request).await.unwrap().token_ids();
        if let Some(seed) = seed {
            assert_eq!(tokens, texts[seed as usize][..n_tokens], "request {index}");
        }
    };
    stream::iter(0..200).for_each_concurrent(16, run).await;
    verifier.wait_until_idle().await;
}

/// The draft dies in the middle, while others share the batch; another version takes over, then that dies too.
#[tokio::test(flavor = "multi_thread")]
async fn a_fail_over_to_another_version_and_then_to_none_is_invisible() {
    let request = || sampled(&PROMPT, 300, Some(7));
    let alone = Verifier::start(loaded(lively()), Vec::new(), settings().verifier);
    let expected = Outcome::of(&alone.client, request()).await.unwrap().token_ids();

    let start = |salt| Draft::start(loaded(taste(salt, 4.0)), drafts::options());
    let (first, second) = (start(2), start(3));
    let versions = [first.version_id.clone(), second.version_id.clone()];
    assert_ne!(versions[0], versions[1]);
    let channels = [&first, &second].map(|draft| (draft.version_id.clone(), draft.channel()));
    // Slow enough that a draft can die in the middle.
    let target = lively().with_delay(Duration::from_millis(2));
    let verifier = Verifier::start(loaded(target), channels.into(), settings().verifier);
    verifier.wait_for_drafts().await;

    let others: Vec<_> = (0..4)
        .map(|index| {
            let client = verifier.client.clone();
            tokio::spawn(async move { Outcome::of(&client, sampled(&[index], 150, None)).await.unwrap() })
        })
        .collect();
    let mut drafts = vec![second, first];
    let mut events = verifier.client.generate(request()).await.unwrap();
    let (mut tokens, mut origins) = (Vec::new(), Vec::new());
    let finished = loop {
        match events.next().await.unwrap().unwrap() {
            Event::Started(_) => {}
            Event::Committed(round) => {
                tokens.extend(round.tokens.iter().map(|token| token.token_id));
                origins.extend(round.tokens.iter().map(|token| token.origin()));
                if tokens.len() > 100 * (3 - drafts.len()) {
                    drafts.pop();
                }
            }
            Event::Finished(finished) => break finished,
        }
    };
    assert_eq!(tokens, expected);
    let report = finished.speculation.unwrap();
    assert_eq!(report.draft_version_ids, versions, "both were used");
    assert_eq!(*origins.last().unwrap(), TokenOrigin::Plain, "in the end there was none");
    for other in others {
        assert_eq!(other.await.unwrap().token_ids().len(), 150);
    }
    let identity = verifier.client.identity().await.unwrap();
    assert!(identity.drafts.iter().all(|draft| draft.state() == DraftState::Unreachable), "{:?}", identity.drafts);
}

/// The request's own settings of speculation are no part of what the seed fixes.
#[tokio::test(flavor = "multi_thread")]
async fn a_pin_or_a_short_wait_changes_nothing() {
    let draft = Draft::start(loaded(taste(2, 4.0)), drafts::options());
    let version = draft.version_id.clone();
    let verifier = Verifier::start(loaded(lively()), vec![("draft".into(), draft.channel())], settings().verifier);
    verifier.wait_for_drafts().await;
    let run = async |speculation| {
        let request = GenerateRequest { speculation, ..sampled(&PROMPT, N_TOKENS, Some(3)) };
        Outcome::of(&verifier.client, request).await.unwrap().token_ids()
    };
    let expected = run(None).await;
    let ways = [
        SpeculationOptions { pin: version, require_pin: true, ..Default::default() },
        SpeculationOptions { pin: "f".repeat(64), ..Default::default() },
        SpeculationOptions { max_wait_micros: Some(1), ..Default::default() },
        SpeculationOptions { max_draft_length: Some(0), ..Default::default() },
        drafts::off(),
    ];
    for way in ways {
        assert_eq!(run(Some(way.clone())).await, expected, "{way:?}");
    }
}
