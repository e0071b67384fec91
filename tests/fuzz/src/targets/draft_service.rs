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

use super::{forms, grammar, scripted};
use crate::{
    Allowance, Answer, Decode, Target,
    call::{call, frame},
};

/// A call has spans, channels and a session. A frame's length is believed up to the message limit, which is 80 KB here. A list
/// of numbers takes eight times its bytes while it grows, and it is kept in more than one form.
pub(super) const TARGET: Target = Target { name: "draft-service", allowance: ALLOWANCE, seeds, start };

/// Sessions whose output has a form.
pub(super) const WITH_GRAMMAR: Target = Target {
    name: "draft-service-grammar",
    allowance: forms::allowance(ALLOWANCE, 1),
    seeds: || forms::inputs(4),
    start: start_with_grammar,
};

const ALLOWANCE: Allowance = Allowance { fixed: 256 << 10, per_byte: 256 };

const METHODS: [&str; 3] = ["Draft", "Propose", "GetIdentity"];

const N_SERVICES: usize = 2;
const WITH_MODEL: u8 = 0;

const RULES: [v1::AcceptanceRule; 2] = [v1::AcceptanceRule::Standard, v1::AcceptanceRule::DraftInvariant];

fn method(choice: u8) -> &'static str {
    METHODS[usize::from(choice) / N_SERVICES % METHODS.len()]
}

/// With a model, and without. Prompt lookup knows no spelling, and no grammar.
fn services() -> [Service; N_SERVICES] {
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
        let service = &services[usize::from(choice) % N_SERVICES];
        let method = method(choice);
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

/// Sessions and single questions, by either rule, about a form. One that cannot be used is ignored by a draft, so here that is
/// looked at apart.
fn start_with_grammar() -> Decode {
    let (mut call, grammars) = (start(), scripted::grammars());
    let pin = services()[WITH_MODEL as usize].identity().version_id.clone();
    Box::new(move |bytes| {
        let Some((&way, form)) = bytes.split_first() else { return Answer::Refused };
        let Some(form) = grammar::form(form) else { return Answer::Refused };
        let settings = settings(RULES[usize::from(way) % RULES.len()], Some((&form).into()));
        let answer = call(&match usize::from(way) / RULES.len() % 2 {
            0 => draft(WITH_MODEL, &pin, settings, forms::beginning(&form)),
            _ => propose(WITH_MODEL, &pin, settings),
        });
        if grammars.compile(&form, 1).is_ok() { answer } else { Answer::Refused }
    })
}

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (index, service) in (0_u8..).zip(&services()) {
        let pin = &service.identity().version_id;
        for rule in RULES {
            seeds.push(draft(index, pin, settings(rule, None), [1, 2, 3, 4].map(|round| [3, round])));
            seeds.push(propose(index, pin, settings(rule, None)));
        }
        let identity = v1::DraftServiceGetIdentityRequest { include_token_digests: true };
        seeds.push([vec![index + 4], frame(&identity)].concat());
    }
    seeds
}

const PROMPT: [u32; 5] = [1, 2, 3, 1, 2];

/// A session: what opens it, and a round for each pair of committed tokens.
fn draft(service: u8, pin: &str, settings: v1::DraftSettings, committed: [[u32; 2]; 4]) -> Vec<u8> {
    let open = v1::Open {
        request_id: "a request".to_owned(),
        pin: pin.to_owned(),
        settings: Some(settings),
        committed: PROMPT.to_vec(),
        prompt_length: PROMPT.len() as u32,
    };
    let mut body = vec![service];
    body.extend(frame(&v1::DraftRequest { message: Some(draft_request::Message::Open(open)) }));
    let mut prefix = PROMPT.to_vec();
    for (round, committed) in (1..).zip(committed) {
        prefix.extend(committed);
        let advance = v1::Advance {
            round,
            committed: committed.to_vec(),
            base_length: prefix.len() as u32,
            base_digest: PrefixDigest::of(&prefix).value(),
            draft_length: 3,
            time_budget_micros: 1_000_000,
            traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned(),
        };
        body.extend(frame(&v1::DraftRequest { message: Some(draft_request::Message::Advance(advance)) }));
    }
    body
}

fn propose(service: u8, pin: &str, settings: v1::DraftSettings) -> Vec<u8> {
    let propose = v1::ProposeRequest {
        pin: pin.to_owned(),
        settings: Some(settings),
        committed: PROMPT.to_vec(),
        prompt_length: PROMPT.len() as u32,
        draft_length: 4,
    };
    [vec![service + 2], frame(&propose)].concat()
}

/// Either rule in a form of its own.
fn settings(rule: v1::AcceptanceRule, grammar: Option<v1::OutputGrammar>) -> v1::DraftSettings {
    let form = match rule {
        v1::AcceptanceRule::DraftInvariant => v1::DistributionForm::Dense,
        _ => v1::DistributionForm::Sparse,
    };
    v1::DraftSettings {
        sampling: Some(scripted::sampling(grammar.is_some())),
        draft_seed: vec![7; 32],
        rule: rule.into(),
        form: form.into(),
        vocabulary_size: 16,
        grammar,
    }
}
