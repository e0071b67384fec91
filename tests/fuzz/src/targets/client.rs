//! The events of a request, as a client reads them from whatever claims to be a verifier.

use std::convert::Infallible;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use prost::Message;
use specfleet_client::{Client, Error, Event};
use specfleet_protocol::{
    channel,
    v1::{self, generate_response},
};
use tonic::{body::Body, codegen::tokio_stream::StreamExt, transport::Server};
use tower::service_fn;

use super::messages;
use crate::{Allowance, Answer, Decode, Target, call::framed};

/// Each input has a connection of its own, with buffers at both ends. An empty token takes two bytes on the wire and seventy
/// here, while its list grows by doubling.
pub(super) const TARGET: Target =
    Target { name: "client", allowance: Allowance { fixed: 1 << 20, per_byte: 256 }, seeds, start };

/// That a client asks for.
const MOST_CONTINUATIONS: u8 = 3;

/// The first byte says how many continuations were asked for, the others are what is sent: messages, or what a peer has in
/// their place.
fn start() -> Decode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    Box::new(move |bytes| {
        let Some((&n, sent)) = bytes.split_first() else { return Answer::Refused };
        let n = 1 + n % MOST_CONTINUATIONS;
        let body: Vec<u8> = messages::split(sent).into_iter().flat_map(framed).collect();
        let events = runtime.block_on(read(n.into(), body.into()));
        check(n.into(), &events);
        if events.iter().all(Result::is_ok) { Answer::Accepted } else { Answer::Refused }
    })
}

/// Reads the answer to a request for `n` continuations to its end.
async fn read(n: u32, body: Bytes) -> Vec<Result<Event, Error>> {
    let (channel, incoming) = channel::in_memory();
    let verifier = service_fn(move |_: Request<Body>| {
        let trailers = HeaderMap::from_iter([(HeaderName::from_static("grpc-status"), HeaderValue::from_static("0"))]);
        let body = Full::new(body.clone()).with_trailers(async { Some(Ok(trailers)) });
        async { Ok::<_, Infallible>(Response::new(body)) }
    });
    let serving = tokio::spawn(Server::builder().serve_with_incoming(verifier, incoming));
    let request = v1::GenerateRequest { n, ..Default::default() };
    let generation = Client::from_channel(channel, "in memory").generate(request).await;
    let events = generation.expect("an answer that begins well").collect().await;
    serving.abort();
    events
}

/// What readers rely on.
fn check(n: usize, events: &[Result<Event, Error>]) {
    let mut is_open = vec![true; n];
    for (index, event) in events.iter().enumerate() {
        let Ok(event) = event else {
            assert_eq!(index + 1, events.len(), "nothing follows an error");
            return;
        };
        assert_eq!(matches!(event, Event::Started(_)), index == 0, "Started comes first, and once");
        if let Some(choice_index) = event.choice_index() {
            let is_open = &mut is_open[choice_index as usize];
            assert!(*is_open, "nothing follows the end of a continuation");
            *is_open = !matches!(event, Event::Finished(_));
        }
    }
    assert!(!is_open.contains(&true), "every continuation has an end");
}

fn seeds() -> Vec<Vec<u8>> {
    let started = generate_response::Event::Started(v1::Started {
        request_id: "a request".to_owned(),
        prompt_tokens: 3,
        reused_prompt_tokens: 2,
        target_version_id: "0123456789abcdef".repeat(4),
    });
    let score = || Some(v1::TokenScore { logprob: -0.5, top: vec![v1::TokenLogprob { token_id: 5, logprob: -0.5 }] });
    let token = |text: &str, origin: v1::TokenOrigin, score| v1::CommittedToken {
        token_id: 5,
        text: text.to_owned(),
        origin: origin.into(),
        score,
    };
    let committed = |choice_index, tokens| {
        generate_response::Event::Committed(v1::Committed { tokens, n_proposed: 3, choice_index, prompt: Vec::new() })
    };
    let with_prompt = generate_response::Event::Committed(v1::Committed {
        tokens: vec![token("a", v1::TokenOrigin::Plain, score())],
        n_proposed: 0,
        choice_index: 0,
        prompt: [None, score()].map(|score| v1::PromptToken { token_id: 1, score }).into(),
    });
    let finished = |choice_index| {
        generate_response::Event::Finished(v1::Finished {
            reason: v1::FinishReason::Length.into(),
            usage: Some(v1::Usage { prompt_tokens: 3, completion_tokens: 2 }),
            speculation: Some(v1::SpeculationReport {
                draft_version_ids: vec!["fedcba9876543210".repeat(4)],
                tested_per_position: vec![2, 1, 1],
                plain_reasons: [("late".to_owned(), 2)].into(),
                ..Default::default()
            }),
            timings: Some(v1::RequestTimings { decode_micros: 1500, ..Default::default() }),
            choice_index,
        })
    };
    let tokens = || vec![token("é", v1::TokenOrigin::Accepted, None), token("", v1::TokenOrigin::Bonus, None)];
    let of_one = vec![started.clone(), committed(0, tokens()), committed(0, tokens()), finished(0)];
    let of_three = vec![
        started,
        with_prompt,
        finished(0),
        committed(2, tokens()),
        committed(1, vec![token("b", v1::TokenOrigin::Corrected, score())]),
        finished(1),
        committed(2, tokens()),
        committed(2, tokens()),
        finished(2),
    ];
    let bare_start = generate_response::Event::Started(v1::Started::default());
    let bare_end =
        |choice_index| generate_response::Event::Finished(v1::Finished { choice_index, ..Default::default() });
    let bare_token = |choice_index| {
        let tokens = vec![v1::CommittedToken::default()];
        generate_response::Event::Committed(v1::Committed { tokens, choice_index, ..Default::default() })
    };
    // Short, so that mistakes hit the indices.
    let bare = vec![bare_start, bare_end(0), bare_token(2), bare_token(1), bare_end(1), bare_token(2), bare_end(2)];
    let sent = |(n, events): (u8, Vec<generate_response::Event>)| {
        let message = |event| v1::GenerateResponse { event: Some(event) }.encode_to_vec();
        [vec![n], messages::join(events.into_iter().map(message))].concat()
    };
    [(0, of_one), (2, of_three), (2, bare)].map(sent).into()
}
