//! Open, Advance and Propose, as a draft service takes them from anybody: with a model, and with prompt lookup.

use prost::Message;
use specfleet_draft_service::{LookupOptions, Options, Service};
use specfleet_protocol::{
    PrefixDigest,
    convert::{ProposalBounds, RoundProposal},
    v1::{self, draft_request, draft_response, draft_service_server::SERVICE_NAME},
};
use specfleet_service::Metrics;
use tonic::Code;

use super::scripted;
use crate::{
    Allowance, Answer, Decode, Target,
    call::{call, frame},
};

/// A call has spans, channels and a session. A frame's length is believed up to the message limit, which is 80 KB here. A list
/// of numbers takes eight times its bytes while it grows, and it is kept in more than one form.
pub(super) const TARGET: Target =
    Target { name: "draft-service", allowance: Allowance { fixed: 256 << 10, per_byte: 256 }, seeds, start };

const METHODS: [&str; 3] = ["Draft", "Propose", "GetIdentity"];

/// With a model, and without.
fn services() -> [Service; 2] {
    let meter = Metrics::local().expect("metrics").meter();
    let options = Options::default();
    let lookup_options = LookupOptions {
        max_tokens: options.max_draft_length.saturating_mul(options.max_sessions),
        ..Default::default()
    };
    let model = Box::new(scripted::model());
    let with_model = Service::from_model(model, &scripted::tokenizer(), "scripted", options, &meter);
    let lookup = Service::from_lookup("lookup", lookup_options, options, &meter);
    [with_model.expect("it starts"), lookup.expect("it starts")]
}

/// The first byte says which service and method, the others are the body of the call.
fn start() -> Decode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let services = services();
    Box::new(move |bytes| {
        let Some((&choice, body)) = bytes.split_first() else { return Answer::Refused };
        let service = &services[usize::from(choice) % services.len()];
        let method = METHODS[usize::from(choice) / services.len() % METHODS.len()];
        let path = format!("/{SERVICE_NAME}/{method}");
        let reply = runtime.block_on(call(service.grpc(), &path, body.to_vec()));
        reply.assert_no_fault();
        for message in &reply.messages {
            let proposal = match method {
                "Draft" => match v1::DraftResponse::decode(message.clone()).expect("a message").message {
                    Some(draft_response::Message::Proposal(proposal)) => Some(proposal),
                    _ => None,
                },
                "Propose" => v1::ProposeResponse::decode(message.clone()).expect("a message").proposal,
                _ => None,
            };
            // A verifier must be able to use whatever it is sent.
            let bounds =
                ProposalBounds { n_vocab: usize::MAX, draft_length: Options::default().max_draft_length.get() };
            proposal.map(|proposal| RoundProposal::from_wire(proposal, bounds).expect("a proposal that can be used"));
        }
        if reply.status.code() == Code::Ok { Answer::Accepted } else { Answer::Refused }
    })
}

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (index, service) in (0_u8..).zip(&services()) {
        let pin = service.identity().version_id.clone();
        for (rule, form) in [
            (v1::AcceptanceRule::Standard, v1::DistributionForm::Sparse),
            (v1::AcceptanceRule::DraftInvariant, v1::DistributionForm::Dense),
        ] {
            let settings = settings(rule, form);
            let committed = vec![1, 2, 3, 1, 2];
            let open = v1::Open {
                request_id: "a request".to_owned(),
                pin: pin.clone(),
                settings: Some(settings.clone()),
                committed: committed.clone(),
                prompt_length: 3,
            };
            let mut body = vec![index];
            body.extend(frame(&v1::DraftRequest { message: Some(draft_request::Message::Open(open)) }));
            let mut prefix = committed.clone();
            for round in 1..=4 {
                prefix.extend([3, round as u32]);
                let advance = v1::Advance {
                    round,
                    committed: vec![3, round as u32],
                    base_length: prefix.len() as u32,
                    base_digest: PrefixDigest::of(&prefix).value(),
                    draft_length: 3,
                    time_budget_micros: 1_000_000,
                    traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned(),
                };
                body.extend(frame(&v1::DraftRequest { message: Some(draft_request::Message::Advance(advance)) }));
            }
            seeds.push(body);
            let propose = v1::ProposeRequest {
                pin: pin.clone(),
                settings: Some(settings),
                committed,
                prompt_length: 5,
                draft_length: 4,
            };
            seeds.push([vec![index + 2], frame(&propose)].concat());
        }
        let identity = v1::DraftServiceGetIdentityRequest { include_token_digests: true };
        seeds.push([vec![index + 4], frame(&identity)].concat());
    }
    seeds
}

fn settings(rule: v1::AcceptanceRule, form: v1::DistributionForm) -> v1::DraftSettings {
    let sampling = v1::SamplingParams {
        temperature: Some(0.9),
        top_p: Some(0.95),
        top_k: Some(12),
        min_p: Some(0.01),
        repetition_penalty: Some(1.1),
        presence_penalty: Some(0.5),
        frequency_penalty: Some(-0.5),
        logit_bias: vec![v1::LogitBias { token_id: 3, bias: 1.5 }],
        min_tokens: 2,
        end_token_ids: vec![15],
    };
    v1::DraftSettings {
        sampling: Some(sampling),
        draft_seed: vec![7; 32],
        rule: rule.into(),
        form: form.into(),
        vocabulary_size: 16,
        // Compiling takes memory of its own; see the target for grammars.
        grammar: None,
    }
}
