//! Rows belong to requests. Sixteen of them share passes with rounds of all lengths, while others join and leave: what
//! each gets is what it would get alone.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use specfleet_model::scripted::ScriptedModel;
use specfleet_protocol::v1::{self, GenerateRequest, generate_response::Event};
use specfleet_speculation::TokenId;

use crate::support::{
    Advance, Answer, FakeDraft, N_VOCAB, Verifier, drafted, greedy_target, options, request, winding,
};

/// Draft lengths are from 0 to 5.
const LONGEST: u32 = 5;
/// The longest answer.
const MAX_TOKENS: u32 = 24;
/// Rounds of all requests together.
const N_ROUNDS: u32 = 500;

/// A number for a place, in no order.
fn scattered(place: &[TokenId]) -> u32 {
    (place.iter()).fold(7_u32, |hash, &part| (hash ^ part).wrapping_mul(0x9E37_79B1).rotate_left(13)) >> 7
}

/// From none to all of the tokens asked for; some of them what `next` says, others anything.
fn moody(next: impl Fn(&[TokenId]) -> TokenId + Send + Sync + 'static) -> FakeDraft {
    FakeDraft::new(move |advance: &Advance| {
        let mut prefix = advance.committed.clone();
        let length = scattered(&[&prefix[..], &[1]].concat()) as usize % (advance.draft_length + 1);
        let tokens = (0..length).map(|_| {
            let mood = scattered(&[&prefix[..], &[2]].concat());
            let token = if mood.is_multiple_of(4) { mood / 4 % N_VOCAB as u32 } else { next(&prefix) };
            prefix.push(token);
            token
        });
        Answer::Tokens(tokens.collect())
    })
}

/// Runs requests for all prompts side by side, each again and again with another length, and leaves every third of them
/// in the middle. `alone` holds what each would get without the others.
async fn assert_undisturbed(
    verifier: &Verifier,
    request: impl Fn(TokenId, u32) -> GenerateRequest,
    alone: &[Vec<TokenId>],
) {
    let n_rounds = AtomicU32::new(0);
    let one = async |index: usize| {
        let mut n_requests = 0;
        while n_rounds.load(Relaxed) < N_ROUNDS {
            n_requests += 1;
            let chance = scattered(&[index as TokenId, n_requests]);
            let (n_tokens, leaves) = (1 + chance % MAX_TOKENS, (chance / MAX_TOKENS).is_multiple_of(3));
            let mut stream = verifier.stream(request(index as TokenId, n_tokens)).await.unwrap();
            let mut tokens = Vec::new();
            while let Some(response) = stream.message().await.unwrap() {
                let Some(Event::Committed(round)) = response.event else { continue };
                n_rounds.fetch_add(1, Relaxed);
                tokens.extend(round.tokens.iter().map(|token| token.token_id));
                assert!(alone[index].starts_with(&tokens), "request {index}: {tokens:?}, alone {:?}", alone[index]);
                if leaves && tokens.len() > n_tokens as usize / 2 {
                    break;
                }
            }
            assert!(leaves || tokens.len() == n_tokens as usize, "{tokens:?}");
        }
    };
    futures::future::join_all((0..alone.len()).map(one)).await;
    verifier.assert_idle().await;
}

/// The target of request r emits r and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn no_token_reaches_another_request() {
    let own = |prefix: &[TokenId]| prefix[0];
    let verifier = Verifier::with_draft(greedy_target(own), &moody(own), options()).await;
    let alone: Vec<Vec<TokenId>> = (0..16).map(|own| vec![own; MAX_TOKENS as usize]).collect();
    let endless = |own, n_tokens| GenerateRequest { ignore_eos: true, ..drafted(&[own], n_tokens, LONGEST) };
    assert_undisturbed(&verifier, endless, &alone).await;
}

/// Each request likes its own ids in its own order, and a penalty makes it go round them: a count that belongs to another
/// row, or to a token that was rejected, changes the order.
#[tokio::test(flavor = "multi_thread")]
async fn no_penalty_counts_the_tokens_of_another_request() {
    let target = || {
        ScriptedModel::from_fn(N_VOCAB, |prefix| {
            let logit = |id: u32| if id < 15 { winding(&[prefix[0], id]) as f32 / 8.0 } else { f32::NEG_INFINITY };
            (0..N_VOCAB as u32).map(logit).collect()
        })
    };
    let penalised = |wire: GenerateRequest| {
        let sampling = v1::SamplingParams {
            temperature: Some(0.0),
            frequency_penalty: Some(0.3),
            presence_penalty: Some(0.2),
            ..Default::default()
        };
        GenerateRequest { sampling: Some(sampling), ..wire }
    };
    let solo = Verifier::start(target(), Vec::new(), options());
    let mut alone = Vec::new();
    for own in 0..14 {
        let tokens = solo.generate(penalised(request(&[own], MAX_TOKENS))).await.tokens();
        assert!(tokens.iter().any(|token| *token != tokens[0]), "it goes round: {tokens:?}");
        alone.push(tokens);
    }
    // A draft that looks at all of the committed tokens is right often enough.
    let expected = alone.clone();
    let next =
        move |prefix: &[TokenId]| expected[prefix[0] as usize].get(prefix.len() - 1).copied().unwrap_or_default();
    let verifier = Verifier::with_draft(target(), &moody(next), options()).await;
    assert_undisturbed(&verifier, |own, n_tokens| penalised(drafted(&[own], n_tokens, LONGEST)), &alone).await;
    assert!(verifier.metric("specfleet_verifier_draft_tokens_accepted_total", "") > 100.0);
}
