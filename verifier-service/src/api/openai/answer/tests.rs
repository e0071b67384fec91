#![allow(clippy::unwrap_used)]
use std::{
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::{Duration, Instant},
};

use axum::{
    body::{Body, BodyDataStream},
    response::IntoResponse,
};
use futures::{Stream, StreamExt, stream};
use serde_json::{Value, json};
use specfleet_model::tokenizer::Tokenizer;
use specfleet_protocol::v1;
use specfleet_service::serve::UNTAKEN_TIMEOUT;
use specfleet_speculation::round::Origin;
use tokio::time::sleep;

use super::{
    super::{content::Form, events::CallEvent, logprobs::CompletionLogprobs, pieces::Pieces, sse},
    *,
};
use crate::{
    engine::{Permit, Places},
    output::{OutputToken, PromptToken, TokenScore},
};

const N_CHOICES: usize = 32;
/// So many that a piece with a prompt in it is more than a slice.
const N_PROMPT: usize = 4000;
/// Of such a piece, somewhat less than it has: four lists, with a score each and one alternative.
const N_PIECE_BYTES: usize = 24 * N_PROMPT;

/// Counts what it has spelled with a prompt in it.
struct Counting {
    n_spelled: Arc<AtomicUsize>,
    echo: String,
}

impl Counting {
    fn new() -> (Self, Arc<AtomicUsize>) {
        let n_spelled = Arc::<AtomicUsize>::default();
        (Self { n_spelled: n_spelled.clone(), echo: "a".repeat(N_PROMPT) }, n_spelled)
    }

    fn spelled(&self, index: usize, content: Content) -> Value {
        let logprobs = CompletionLogprobs::new(content.tokens.unwrap(), content.offset);
        let logprobs = serde_json::to_value(logprobs).unwrap();
        if logprobs["tokens"].as_array().unwrap().len() >= N_PROMPT {
            self.n_spelled.fetch_add(1, Relaxed);
        }
        json!({"index": index, "logprobs": logprobs})
    }
}

impl Spelling for Counting {
    const OBJECT: &'static str = "whole";
    const CHUNK: &'static str = "chunk";
    const ID_PREFIX: &'static str = "id-";
    type Choice = Value;
    type Piece = Value;

    fn whole(&self, index: usize, content: Content, _: Option<&'static str>) -> Value {
        self.spelled(index, content)
    }

    fn opening(&self, _: usize) -> Option<Value> {
        None
    }

    fn echo(&self, _: usize) -> Option<&str> {
        Some(&self.echo)
    }

    fn piece(&self, index: usize, content: Content) -> Value {
        self.spelled(index, content)
    }

    fn ending(&self, index: usize, reason: &'static str) -> Value {
        json!({"index": index, "reason": reason})
    }
}

fn form() -> Form {
    let tokenizer = Tokenizer::from_bytes(vec![b"a".to_vec(), b"<end>".to_vec()], &[1], &[1]);
    Form { tokenizer, with_logprobs: true, n_of_prompt: N_CHOICES, n_choices: N_CHOICES, sought: None }
}

fn head() -> Head {
    Head::new::<Counting>("7", "model", "fingerprint".to_owned())
}

/// A scored prompt, with a token behind it for each continuation.
fn events() -> impl Stream<Item = Result<CallEvent, Error>> + Unpin {
    let score = Some(TokenScore { logprob: -1.0, top: vec![(0, -1.0)] });
    let prompt = vec![PromptToken { token: 0, score: score.clone() }; N_PROMPT];
    let token = OutputToken { token: 0, text: "a".to_owned(), n_chars: 1, origin: Origin::Plain, score };
    let mut events = vec![CallEvent::Started { first_choice: 0, n_prompt: N_PROMPT, n_reused: 0 }];
    for choice in 0..N_CHOICES {
        let prompt = if choice == 0 { prompt.clone() } else { Vec::new() };
        events.push(CallEvent::Committed { choice, prompt, tokens: vec![token.clone()] });
        events.push(CallEvent::Finished { choice, finished: v1::Finished::default() });
    }
    stream::iter(events.into_iter().map(Ok))
}

/// Reads a body slice by slice. Never are prompts written for later.
async fn read(body: Body, n_spelled: &AtomicUsize) -> String {
    let mut slices = body.into_data_stream();
    let mut text = String::new();
    while let Some(slice) = slices.next().await {
        let n_spelled = n_spelled.load(Relaxed);
        assert!(n_spelled <= 1 + text.len() / N_PIECE_BYTES, "{n_spelled} after {} bytes", text.len());
        text += str::from_utf8(&slice.unwrap()).unwrap();
    }
    assert_eq!(n_spelled.load(Relaxed), N_CHOICES);
    text
}

fn streamed(spelling: Counting) -> Body {
    sse::respond(events(), Chunks::new(head(), form(), spelling, true), || true).into_body()
}

async fn whole(places: Vec<Arc<Permit>>, spelling: Counting) -> Body {
    collect(events(), places, head(), form(), spelling).await.unwrap().into_body()
}

/// A hundred continuations of a prompt of some thousand tokens, each with twenty alternatives, are gigabytes.
#[tokio::test]
async fn a_scored_prompt_is_written_for_one_continuation_after_the_other() {
    let (spelling, n_spelled) = Counting::new();
    let whole: Value = serde_json::from_str(&read(whole(Vec::new(), spelling).await, &n_spelled).await).unwrap();
    let choices = whole["choices"].as_array().unwrap();
    assert_eq!((choices.len(), &whole["usage"]["completion_tokens"]), (N_CHOICES, &json!(N_CHOICES)));

    let (spelling, n_spelled) = Counting::new();
    let text = read(streamed(spelling), &n_spelled).await;
    let lines: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    assert_eq!((lines.len(), lines.last()), (3 * N_CHOICES + 2, Some(&"[DONE]")));
    let account: Value = serde_json::from_str(lines[lines.len() - 2]).unwrap();
    assert_eq!((&account["choices"], &account["usage"]), (&json!([]), &whole["usage"]));
}

/// Most of it is one event of the engine; its client takes a slice in almost a minute.
#[tokio::test(start_paused = true)]
async fn who_takes_a_large_event_slowly_gets_all_of_it() {
    for is_stream in [true, false] {
        let spelling = Counting::new().0;
        let body = if is_stream { streamed(spelling) } else { whole(Vec::new(), spelling).await };
        let mut slices = body.into_data_stream();
        let mut n_slices = 0;
        while let Some(slice) = slices.next().await {
            slice.unwrap();
            n_slices += 1;
            sleep(UNTAKEN_TIMEOUT - Duration::from_secs(10)).await;
        }
        assert!(n_slices >= 2 * N_CHOICES, "{n_slices}");
    }
}

/// What comes after a client has taken so many slices, and then nothing for more than a minute.
async fn left(body: Body, n_slices: usize) -> Vec<Result<String, axum::Error>> {
    let slices: BodyDataStream = body.into_data_stream();
    let mut slices = slices.map(|slice| slice.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap()));
    for _ in 0..n_slices {
        slices.next().await.unwrap().unwrap();
    }
    sleep(2 * UNTAKEN_TIMEOUT).await;
    slices.collect().await
}

#[tokio::test(start_paused = true)]
async fn what_is_dropped_ends_in_an_error_where_an_event_can_stand_and_breaks_off_elsewhere() {
    // A chunk is two slices.
    let between = left(streamed(Counting::new().0), 4).await;
    assert!(matches!(&between[..], [Ok(event)] if event.starts_with("data: {\"error\":") && event.ends_with("\n\n")));
    let amid = left(streamed(Counting::new().0), 3).await;
    assert!(matches!(amid[..], [Err(_)]), "{amid:?}");
    for n_slices in [0, 2, 3] {
        let whole = left(whole(Vec::new(), Counting::new().0).await, n_slices).await;
        assert!(matches!(whole[..], [Err(_)]), "{whole:?}");
    }
}

/// It takes memory until then.
#[tokio::test(start_paused = true)]
async fn an_answer_in_one_piece_keeps_its_places_until_it_is_written_or_dropped() {
    let places = Arc::new(Places::new(1, Duration::MAX));
    let is_free = || places.take(Instant::now(), 1).is_ok();
    let place = || vec![Arc::new(Permit::new(places.take(Instant::now(), 1).unwrap()))];
    for n_events in [1 + 2 * N_CHOICES, 2] {
        // An answer that breaks off has what had come before.
        let events = events().take(n_events).chain(stream::iter([Err(Error::Draining)]));
        let answer = collect(events, place(), head(), form(), Counting::new().0).await;
        let body = answer.map_or_else(|failure| failure.into_response().into_body(), Pieces::into_body);
        let mut slices = body.into_data_stream();
        for _ in 0..3 {
            slices.next().await.unwrap().unwrap();
        }
        assert!(!is_free());
        while let Some(slice) = slices.next().await {
            slice.unwrap();
        }
        assert!(is_free(), "with the last slice");
    }
    drop(whole(place(), Counting::new().0).await);
    assert!(is_free(), "nobody wants it");
    let left_body = whole(place(), Counting::new().0).await;
    sleep(2 * UNTAKEN_TIMEOUT).await;
    assert!(is_free(), "nobody has taken it");
    drop(left_body);
}
