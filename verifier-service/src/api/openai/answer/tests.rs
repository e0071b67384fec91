#![allow(clippy::unwrap_used)]
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use axum::body::Body;
use futures::{Stream, StreamExt, stream};
use serde_json::{Value, json};
use specfleet_model::tokenizer::Tokenizer;
use specfleet_protocol::v1;
use specfleet_speculation::round::Origin;

use super::{
    super::{content::Form, events::CallEvent, logprobs::CompletionLogprobs, sse},
    *,
};
use crate::output::{OutputToken, PromptToken, TokenScore};

const N_CHOICES: usize = 128;
const N_PROMPT: usize = 50;

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

/// Reads a body piece by piece. Never are prompts written for later.
async fn read(body: Body, n_spelled: &AtomicUsize) -> String {
    let mut pieces = body.into_data_stream();
    let (mut text, mut n_taken) = (String::new(), 0);
    while let Some(piece) = pieces.next().await {
        text += str::from_utf8(&piece.unwrap()).unwrap();
        n_taken += 1;
        assert!(n_spelled.load(Relaxed) <= n_taken, "after {n_taken} pieces");
    }
    assert_eq!(n_spelled.load(Relaxed), N_CHOICES);
    text
}

/// A hundred continuations of a prompt of some thousand tokens, each with twenty alternatives, are gigabytes.
#[tokio::test]
async fn a_scored_prompt_is_written_for_one_continuation_after_the_other() {
    let (spelling, n_spelled) = Counting::new();
    let whole = collect(events(), head(), form(), spelling).await.unwrap();
    assert_eq!(n_spelled.load(Relaxed), 0, "before anything is sent");
    let whole: Value = serde_json::from_str(&read(whole.into_body(), &n_spelled).await).unwrap();
    let choices = whole["choices"].as_array().unwrap();
    assert_eq!((choices.len(), &whole["usage"]["completion_tokens"]), (N_CHOICES, &json!(N_CHOICES)));

    let (spelling, n_spelled) = Counting::new();
    let chunks = Chunks::new(head(), form(), spelling, true);
    let text = read(sse::respond(events(), chunks).into_body(), &n_spelled).await;
    let lines: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    assert_eq!((lines.len(), lines.last()), (3 * N_CHOICES + 2, Some(&"[DONE]")));
    let account: Value = serde_json::from_str(lines[lines.len() - 2]).unwrap();
    assert_eq!((&account["choices"], &account["usage"]), (&json!([]), &whole["usage"]));
}
