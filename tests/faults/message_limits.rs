//! Messages above the four mebibytes that gRPC libraries allow unless told otherwise. Such a limit is met in production
//! only, by the first long draft over a large vocabulary.

use futures::future::join_all;
use specfleet_client::{
    Error,
    v1::{
        AcceptanceRule, DistributionForm, DraftSettings, ProposeRequest, SpeculationOptions,
        draft_service_client::DraftServiceClient,
    },
};
use specfleet_draft_service::Options;
use specfleet_model::{checkpoint::GenerationDefaults, load::Loaded, scripted::ScriptedModel, tokenizer::Tokenizer};
use specfleet_protocol::status::Reason;
use specfleet_speculation::propose::Support;
use specfleet_tests::{
    in_process::{Draft, Pair, Settings, Verifier},
    outcome::Outcome,
    scripted_pair::{request, settings},
};

/// What gRPC libraries allow.
const USUAL_LIMIT: usize = 4 << 20;
/// Qwen's vocabulary.
const QWEN: usize = 151_936;
/// Gemma's vocabulary: four distributions in f32 are exactly the usual limit, before anything else of the message.
const GEMMA: usize = 262_144;

/// A model of many ids, every one of which has a probability. Half of it is on the id after the last one.
fn model(n_vocab: usize) -> ScriptedModel {
    let ahead = (n_vocab as f32).ln();
    ScriptedModel::from_fn(n_vocab, move |prefix| {
        let mut logits = vec![0.0; n_vocab];
        logits[(prefix[prefix.len() - 1] as usize + 1) % n_vocab] = ahead;
        logits
    })
}

fn loaded(model: ScriptedModel, n_vocab: usize) -> Loaded {
    Loaded {
        model: Box::new(model),
        tokenizer: Tokenizer::from_bytes((0..n_vocab).map(|id| id.to_string().into_bytes()).collect(), &[], &[]),
        chat_template: None,
        generation: GenerationDefaults::default(),
        label: format!("{n_vocab} ids"),
    }
}

/// A pair whose draft sends all of q, with `draft_length` tokens a round.
async fn pair(n_vocab: usize, draft_length: usize) -> Pair {
    assert!(n_vocab * size_of::<f32>() * draft_length >= USUAL_LIMIT);
    let mut settings: Settings = settings();
    settings.draft.support = Support::Full;
    settings.draft.least_chance = 0.0;
    settings.verifier.draft_length = draft_length;
    Pair::start(loaded(model(n_vocab), n_vocab), loaded(model(n_vocab), n_vocab), settings).await
}

/// Runs a request whose rounds are as long as they can be; every proposal must have arrived.
async fn run(pair: &Pair, seed: u64, draft_length: usize) {
    let mut wire = request(&[7], 3 * draft_length as u32);
    wire.seed = Some(seed);
    wire.speculation =
        Some(SpeculationOptions { rule: AcceptanceRule::Standard.into(), ..SpeculationOptions::default() });
    let outcome = Outcome::of(&pair.client, wire).await.unwrap();
    let report = outcome.speculation();
    assert!(report.dropped_proposals.is_empty(), "{report:?}");
    assert!(report.plain_reasons.keys().all(|reason| reason == "budget"), "{report:?}");
    let longest = outcome.rounds.iter().map(|round| round.n_proposed as usize).max();
    assert_eq!(longest, Some(draft_length), "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_whole_q_of_seven_tokens_over_a_large_vocabulary_arrives() {
    let pair = pair(QWEN, 7).await;
    run(&pair, 1, 7).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proposal_a_few_bytes_above_the_usual_limit_arrives() {
    let pair = pair(GEMMA, 4).await;
    run(&pair, 1, 4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_requests_at_once_get_their_large_proposals() {
    let pair = pair(QWEN, 7).await;
    join_all((0..32).map(|seed| run(&pair, seed, 7))).await;
}

/// The other direction: a long prefix on its way to a draft. Ids of this size take five bytes each.
#[tokio::test(flavor = "multi_thread")]
async fn a_prefix_above_the_usual_limit_reaches_the_draft() {
    let draft = Draft::lookup(Options::default());
    let mut client = DraftServiceClient::new(draft.channel());
    let committed = vec![u32::MAX; 1_000_000];
    assert!(5 * committed.len() > USUAL_LIMIT);
    let settings = DraftSettings {
        draft_seed: vec![0; 32],
        rule: AcceptanceRule::Standard.into(),
        form: DistributionForm::Sparse.into(),
        ..DraftSettings::default()
    };
    let request = ProposeRequest {
        settings: Some(settings),
        prompt_length: committed.len() as u32,
        committed,
        draft_length: 4,
        ..ProposeRequest::default()
    };
    let proposal = client.propose(request).await.unwrap().into_inner().proposal.unwrap();
    assert_eq!(proposal.base_length, 1_000_000);
    assert!(proposal.tokens.iter().all(|token| token.token_id == u32::MAX));
}

/// A prompt that is too long is refused for its tokens, with their number, and not for its bytes.
#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_above_the_usual_limit_is_judged_by_its_tokens() {
    const CONTEXT_LENGTH: usize = 1_500_000;
    let model = model(QWEN).with_context_length(CONTEXT_LENGTH).with_kv_tokens(CONTEXT_LENGTH);
    let verifier = Verifier::start(loaded(model, QWEN), Vec::new(), settings().verifier);
    let prompt = vec![QWEN as u32 - 1; CONTEXT_LENGTH];
    assert!(3 * prompt.len() > USUAL_LIMIT);
    let refused = Outcome::of(&verifier.client, request(&prompt, 1)).await.unwrap_err();
    let Error::Refused(refusal) = refused else { panic!("{refused:?}") };
    assert_eq!(refusal.reason, Some(Reason::ContextLength), "{refusal}");
}
