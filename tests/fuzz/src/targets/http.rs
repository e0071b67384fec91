//! The JSON bodies of the HTTP API.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use specfleet_service::{Metrics, Readiness, Shutdown};
use specfleet_verifier_service::Http;
use tower::ServiceExt;

use super::{forms, verifier_service};
use crate::{Allowance, Answer, Decode, Target};

/// JSON takes much more room as a tree than as text, and a request may have several prompts and several answers to each.
pub(super) const TARGET: Target = Target { name: "http", allowance: ALLOWANCE, seeds, start };

/// Chats whose answer has a form.
pub(super) const WITH_GRAMMAR: Target = Target {
    name: "http-grammar",
    allowance: forms::allowance(ALLOWANCE, verifier_service::MAX_SEQUENCES),
    seeds: seeds_with_grammar,
    start: start_with_grammar,
};

const ALLOWANCE: Allowance = Allowance { fixed: 4 << 20, per_byte: 1024 };

const PATHS: [&str; 4] = ["/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize"];

/// A verifier's HTTP face: takes a call, and gives the whole answer.
pub(super) fn face() -> impl FnMut(Request<Full<Bytes>>) -> Response<Bytes> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let metrics = Metrics::local().expect("metrics");
    let service = verifier_service::service(&runtime, &metrics);
    let readiness = Readiness::new();
    readiness.set_ready();
    let http = Http::new(&metrics, readiness, Shutdown::new(Duration::ZERO));
    http.open(&service);
    let router = http.router();
    move |request| {
        // The engine lives as long as this does.
        let _ = &service;
        runtime.block_on(async {
            let Ok(response) = router.clone().oneshot(request).await;
            let (head, body) = response.into_parts();
            let body = body.collect().await.expect("a body that ends");
            Response::from_parts(head, body.to_bytes())
        })
    }
}

/// The first byte is the digit of a path, the others are the body.
fn start() -> Decode {
    let mut face = face();
    Box::new(move |bytes| {
        let Some((&choice, body)) = bytes.split_first() else { return Answer::Refused };
        let path = PATHS[usize::from(choice) % PATHS.len()];
        let request = Request::post(path).body(Full::new(Bytes::copy_from_slice(body))).expect("a request");
        let status = face(request).status();
        assert!(!status.is_server_error(), "{path} answers {status}");
        if status == StatusCode::OK { Answer::Accepted } else { Answer::Refused }
    })
}

/// A form that cannot be used is refused; what has lost its form does not count.
fn start_with_grammar() -> Decode {
    let mut decode = start();
    let has_form = |body: &[u8]| FORMS.iter().any(|kind| body.windows(kind.len()).any(|part| part == kind.as_bytes()));
    Box::new(move |bytes| match decode(bytes) {
        Answer::Accepted if has_form(bytes) => Answer::Accepted,
        _ => Answer::Refused,
    })
}

fn seeds() -> Vec<Vec<u8>> {
    [
        r#"0{"model":"scripted","messages":[{"role":"system","content":"abc"},{"role":"user","content":[{"type":"text","text":"cab"}]}],
            "max_tokens":4,"temperature":0.7,"top_p":0.9,"n":2,"stop":["ab","d"],"seed":7,"logprobs":true,"top_logprobs":3,
            "frequency_penalty":0.5,"presence_penalty":-0.5,"logit_bias":{"3":1.5},"user":"somebody"}"#,
        r#"0{"messages":[{"role":"user","content":"abc"}],"max_completion_tokens":3,"stream":true,
            "stream_options":{"include_usage":true},"speculation":{"off":true}}"#,
        r#"0{"messages":[{"role":"user","content":"abc"},{"role":"assistant","content":"b","tool_calls":[{"id":"c1","type":
            "function","function":{"name":"a","arguments":"{\"a\":1}"}}]},{"role":"tool","tool_call_id":"c1","content":"d"}],
            "tools":[{"type":"function","function":{"name":"a","description":"b","parameters":{"type":"object","properties":
            {"a":{"type":"integer"}},"required":["a"]}}}],"tool_choice":"none","parallel_tool_calls":false,"max_tokens":2}"#,
        r#"1{"prompt":["abc","ca"],"max_tokens":4,"temperature":0,"logprobs":2,"echo":true,"stop":"a"}"#,
        r#"1{"prompt":[[1,2],[3]],"max_tokens":4,"min_p":0.1,"top_k":5,"repetition_penalty":1.1,"min_tokens":1,"ignore_eos":true,
            "stop_token_ids":[4],"stream":true}"#,
        r#"2{"prompt":"abcabc"}"#,
        r#"3{"tokens":[1,2,3]}"#,
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}

/// How a form is asked for.
const FORMS: [&str; 2] = [r#""response_format":{"type":"json_schema","#, r#""response_format":{"type":"json_object""#];

fn seeds_with_grammar() -> Vec<Vec<u8>> {
    let schemas = [
        r#"{"type":"object","properties":{"a":{"type":"integer"},"b":{"enum":["c",true]}},"required":["a"]}"#,
        r##"{"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{"type":"boolean"},{"type":"array","items":{"$ref":"#/$defs/a"}}]}}}"##,
        r#"{"type":"string","pattern":"^(ab|c[de])+$","maxLength":9}"#,
    ];
    let of_schema = schemas.map(|schema| {
        let format = format!(r#"{}"json_schema":{{"name":"form","strict":true,"schema":{schema}}}}}"#, FORMS[0]);
        format!(
            r#"0{{{format},"messages":[{{"role":"user","content":"abc"}}],"max_tokens":12,"n":2,"temperature":0.7}}"#
        )
    });
    let of_any_object = format!(
        r#"0{{{}}},"messages":[{{"role":"user","content":"cab"}}],"max_completion_tokens":6,"stream":true,"seed":7}}"#,
        FORMS[1]
    );
    of_schema.into_iter().chain([of_any_object]).map(String::into_bytes).collect()
}
