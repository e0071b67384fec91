//! GenerateRequest, as the verifier takes it from anybody.

use std::time::Duration;

use prost::Message;
use specfleet_model::{
    chat_template::{ChatTemplate, SpecialTokens},
    checkpoint::GenerationDefaults,
    load::Loaded,
};
use specfleet_protocol::v1::{
    self, generate_request::Prompt, generate_response::Event, verifier_service_server::SERVICE_NAME,
};
use specfleet_service::Metrics;
use specfleet_verifier_service::{Options, Service};
use tokio::runtime::Runtime;
use tonic::{Code, transport::Channel};

use super::{forms, grammar, scripted};
use crate::{
    Allowance, Answer, Decode, Target,
    call::{Reply, call, frame},
};

/// A frame's length is believed up to the message limit, which is 4 MiB at the least. A conversation is rendered, and an empty
/// message of one takes two bytes on the wire and fifty here.
pub(super) const TARGET: Target = Target { name: "verifier-service", allowance: ALLOWANCE, seeds, start };

/// Requests whose output has a form.
pub(super) const WITH_GRAMMAR: Target = Target {
    name: "verifier-service-grammar",
    allowance: forms::allowance(ALLOWANCE, MOST_CONTINUATIONS as usize),
    seeds: || forms::inputs(MOST_CONTINUATIONS),
    start: start_with_grammar,
};

const ALLOWANCE: Allowance = Allowance { fixed: 8 << 20, per_byte: 1024 };

pub(super) const MAX_SEQUENCES: usize = 8;
/// Of a request for a form.
const MOST_CONTINUATIONS: u8 = 3;

pub(super) const OPTIONS: Options = Options {
    max_sequences: MAX_SEQUENCES,
    max_queue: 8,
    max_queue_wait: Duration::from_secs(60),
    step_tokens: 64,
    verify_rows: 8,
    max_grammars: 16,
    draft_length: 3,
    max_draft_length: 8,
    draft_wait: Duration::from_millis(1),
    untrusted_drafts: Vec::new(),
    tool_calls: specfleet_verifier_service::ToolCalls::Auto,
    reasoning: specfleet_verifier_service::Reasoning::Auto,
};

/// A verifier without drafts; `runtime` must outlive it.
pub(super) fn service(runtime: &Runtime, metrics: &Metrics) -> Service {
    let _inside = runtime.enter();
    service_with(Vec::new(), OPTIONS, metrics)
}

/// A verifier with these drafts. Must be called inside a runtime that outlives it.
pub(super) fn service_with(drafts: Vec<(String, Channel)>, options: Options, metrics: &Metrics) -> Service {
    // It reads tools and calls: their usual description is of characters that this vocabulary does not have.
    let template = "{% for message in messages %}{{ message.content }}{% for call in message.tool_calls or [] %}\
        {{ call.function.name }}{% endfor %}{% endfor %}{% if tools %}a{% endif %}a";
    let loaded = Loaded {
        model: Box::new(scripted::model()),
        tokenizer: scripted::tokenizer(),
        chat_template: Some(ChatTemplate::new(template, SpecialTokens::default()).expect("a good template")),
        generation: GenerationDefaults::default(),
        label: "scripted".to_owned(),
    };
    Service::start(loaded, drafts, options, &metrics.meter()).expect("it starts")
}

fn start() -> Decode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let service = service(&runtime, &Metrics::local().expect("metrics"));
    let path = format!("/{SERVICE_NAME}/Generate");
    Box::new(move |bytes| {
        let reply = runtime.block_on(call(service.grpc(), &path, bytes.to_vec()));
        reply.assert_no_fault();
        if reply.status.code() != Code::Ok {
            return Answer::Refused;
        }
        check(&reply);
        Answer::Accepted
    })
}

/// Requests for a form, for one or several continuations.
fn start_with_grammar() -> Decode {
    let mut call = start();
    Box::new(move |bytes| {
        let Some((&way, form)) = bytes.split_first() else { return Answer::Refused };
        let Some(form) = grammar::form(form) else { return Answer::Refused };
        call(&frame(&v1::GenerateRequest {
            prompt: Some(Prompt::Text("abc".to_owned())),
            sampling: Some(scripted::sampling(true)),
            max_tokens: Some(12),
            grammar: Some((&form).into()),
            stop: vec!["cab".to_owned()],
            n: 1 + u32::from(way % MOST_CONTINUATIONS),
            ..Default::default()
        }))
    })
}

/// Started, then tokens that exist, then an end for each continuation with the right count.
fn check(reply: &Reply) {
    let events = reply.messages.iter().map(|message| {
        let response = v1::GenerateResponse::decode(message.clone()).expect("a message");
        response.event.expect("an event")
    });
    let (mut n_tokens, mut n_counted, mut n_finished) = (0, 0, 0);
    for (index, event) in events.enumerate() {
        match event {
            Event::Started(_) => assert_eq!(index, 0),
            Event::Committed(committed) => {
                n_tokens += committed.tokens.len();
                assert!(committed.tokens.iter().all(|token| (token.token_id as usize) < scripted::N_VOCAB));
            }
            Event::Finished(finished) => {
                n_finished += 1;
                n_counted += finished.usage.expect("a usage").completion_tokens as usize;
            }
        }
    }
    assert!(n_finished >= 1);
    assert_eq!(n_tokens, n_counted);
}

fn seeds() -> Vec<Vec<u8>> {
    let plain =
        v1::GenerateRequest { prompt: Some(Prompt::Text("abc".to_owned())), max_tokens: Some(5), ..Default::default() };
    let speculation = v1::SpeculationOptions {
        max_draft_length: Some(4),
        max_wait_micros: Some(100),
        rule: v1::AcceptanceRule::Standard.into(),
        ..Default::default()
    };
    let full = v1::GenerateRequest {
        request_id: "a request".to_owned(),
        prompt: Some(Prompt::TokenIds(v1::TokenIds { ids: vec![1, 2, 3] })),
        sampling: Some(scripted::sampling(false)),
        max_tokens: Some(6),
        stop_token_ids: vec![4],
        ignore_eos: true,
        seed: Some(7),
        speculation: Some(speculation),
        n: 2,
        stop: vec!["cab".to_owned(), "d".to_owned()],
        ..Default::default()
    };
    let message =
        |role: &str| v1::ChatMessage { role: role.to_owned(), content: "abc".to_owned(), ..Default::default() };
    let call = v1::ToolCall { id: "c1".to_owned(), name: "a".to_owned(), arguments: r#"{"a":1}"#.to_owned() };
    let calling = v1::ChatMessage { tool_calls: vec![call], reasoning_content: "a".to_owned(), ..message("assistant") };
    let result = v1::ChatMessage { tool_call_id: "c1".to_owned(), name: "a".to_owned(), ..message("tool") };
    let function = r#"{"type":"function","function":{"name":"a","parameters":{"type":"object"}}}"#.to_owned();
    let messages = vec![message("system"), message("user"), calling, result];
    let chat = v1::ChatPrompt { messages, tools: vec![function] };
    let chat = v1::GenerateRequest { prompt: Some(Prompt::Chat(chat)), ..plain.clone() };
    [plain, full, chat].iter().map(frame).collect()
}
