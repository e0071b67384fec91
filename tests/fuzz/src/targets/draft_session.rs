//! What a draft says in a session, through the verifier that listens to it: whether it opens what was asked for, whether its
//! proposals answer what was asked, and what comes of them. Whatever it says, the text is that of plain decoding.

use std::time::Duration;

use prost::{DecodeError, Message};
use specfleet_model::identity::Identity;
use specfleet_protocol::{
    channel,
    convert::{RoundProposal, Timings},
    v1::{
        self, draft_response, draft_service_server::DraftServiceServer, generate_request::Prompt,
        generate_response::Event, verifier_service_server::SERVICE_NAME,
    },
};
use specfleet_service::{Metrics, identity::to_wire};
use specfleet_speculation::{
    TokenId,
    distribution::{DenseWeights, DraftDistribution, Proposal, SparseWeights},
};
use specfleet_verifier_service::Options;
use tonic::{Code, transport::Server};

use super::{messages, scripted, verifier_service};
use crate::{
    Allowance, Answer, Decode, Target,
    call::{call, frame},
};

mod draft;

use draft::Draft;

/// Each input has a verifier of its own: a draft that breaks the protocol is in doubt, and left alone for some time. The length
/// of a frame is believed up to the message limit.
pub(super) const TARGET: Target =
    Target { name: "draft-session", allowance: Allowance { fixed: 8 << 20, per_byte: 512 }, seeds, start };

/// Words come at once, on however busy a machine: none of them is ever late.
const DRAFT_WAIT: Duration = Duration::from_secs(60);
const MAX_TOKENS: u32 = 16;

/// A word that opens the session, one that proposes something, and any other holds nothing.
const OPENED: u8 = b'o';
const PROPOSAL: u8 = b'p';

fn start() -> Decode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let plain = runtime.block_on(generate(Vec::new())).tokens;
    Box::new(move |bytes| {
        let Ok(words) = messages::split(bytes).into_iter().map(word).collect() else { return Answer::Refused };
        let Generated { tokens, report } = runtime.block_on(generate(words));
        assert_eq!(tokens, plain, "a draft has changed the text: {report:?}");
        if report.proposed > 0 { Answer::Accepted } else { Answer::Refused }
    })
}

/// A byte that says what it is, and the bytes of that.
fn word(bytes: &[u8]) -> Result<v1::DraftResponse, DecodeError> {
    let (kind, content) = bytes.split_at(bytes.len().min(1));
    let message = match kind {
        [OPENED] => Some(draft_response::Message::Opened(v1::Opened::decode(content)?)),
        [PROPOSAL] => Some(draft_response::Message::Proposal(v1::Proposal::decode(content)?)),
        _ => None,
    };
    Ok(v1::DraftResponse { message })
}

struct Generated {
    tokens: Vec<TokenId>,
    report: v1::SpeculationReport,
}

/// Decodes greedily beside a draft that says this.
async fn generate(words: Vec<v1::DraftResponse>) -> Generated {
    let (channel, incoming) = channel::in_memory();
    let draft = DraftServiceServer::new(Draft::new(draft_identity(), words));
    let draft = Server::builder().add_service(draft);
    let drafting = tokio::spawn(draft.serve_with_incoming(incoming));
    let metrics = Metrics::local().expect("metrics");
    let options = Options { draft_wait: DRAFT_WAIT, ..verifier_service::OPTIONS };
    let service = verifier_service::service_with(vec![("draft".to_owned(), channel)], options, &metrics);
    while service.drafts()[0].state() != v1::DraftState::Ready {
        tokio::task::yield_now().await;
    }
    let request = v1::GenerateRequest {
        prompt: Some(Prompt::TokenIds(v1::TokenIds { ids: vec![1, 2] })),
        sampling: Some(v1::SamplingParams { temperature: Some(0.0), ..Default::default() }),
        max_tokens: Some(MAX_TOKENS),
        ignore_eos: true,
        ..Default::default()
    };
    let reply = call(service.grpc(), &format!("/{SERVICE_NAME}/Generate"), frame(&request)).await;
    service.stop().await;
    drafting.abort();
    assert_eq!(reply.status.code(), Code::Ok, "a draft has failed a request: {:?}", reply.status);

    let mut generated = Generated { tokens: Vec::new(), report: v1::SpeculationReport::default() };
    for message in reply.messages {
        match v1::GenerateResponse::decode(message).expect("a message").event.expect("an event") {
            Event::Started(_) => {}
            Event::Committed(committed) => generated.tokens.extend(committed.tokens.iter().map(|token| token.token_id)),
            Event::Finished(finished) => generated.report = finished.speculation.expect("a report"),
        }
    }
    assert_eq!(generated.tokens.len(), MAX_TOKENS as usize);
    generated
}

fn draft_identity() -> v1::Identity {
    let mut identity = Identity::of_lookup("a draft", "says what it is told to", 1 << 10);
    // Random for each start of a process, which the seeds must not be.
    identity.incarnation = "0123456789abcdef".repeat(2);
    to_wire(&identity, true)
}

fn seeds() -> Vec<Vec<u8>> {
    let point = |token| (token, DraftDistribution::Point(token));
    let sparse = |token| {
        let weights = SparseWeights::new(vec![0, 3, 4], vec![7, 2, 1]).expect("good weights");
        (token, DraftDistribution::Sparse(weights))
    };
    let dense = |token| {
        let weights = DenseWeights::new(vec![0.25, 0.25, 0.25, 0.25]).expect("good weights");
        (token, DraftDistribution::Dense(weights))
    };
    let whole = draft_identity();
    let short = v1::Identity { version_id: whole.version_id.clone(), ..Default::default() };
    let opened = |identity| [vec![OPENED], v1::Opened { identity: Some(identity) }.encode_to_vec()].concat();
    let proposed = |drafted| [vec![PROPOSAL], proposal(drafted).encode_to_vec()].concat();
    [
        vec![
            vec![point(3), point(0), point(0)],
            vec![point(0)],
            vec![],
            vec![point(5), point(0)],
            vec![point(0), point(0)],
        ],
        vec![
            vec![sparse(3), sparse(0), sparse(4)],
            vec![dense(0), dense(0), point(0)],
            vec![sparse(0)],
            vec![dense(3)],
        ],
    ]
    .into_iter()
    .zip([whole, short])
    .map(|(rounds, identity)| messages::join([opened(identity)].into_iter().chain(rounds.into_iter().map(proposed))))
    .collect()
}

fn proposal(drafted: Vec<(TokenId, DraftDistribution)>) -> v1::Proposal {
    let (tokens, distributions) = drafted.into_iter().unzip();
    let proposal = Proposal::new(tokens, distributions, scripted::N_VOCAB).expect("a good proposal");
    let timings = Timings { queue: Duration::from_micros(5), compute: Duration::from_millis(2) };
    (&RoundProposal { round: 0, base_length: 0, base_digest: 0, version_id: String::new(), proposal, timings }).into()
}
