//! A model that writes what it is told to, over a vocabulary in which every text can be written: one token for each byte,
//! and some longer ones.

use serde_json::{Value, json};
use specfleet_model::{identity::VocabularyFingerprint, scripted::ScriptedModel, tokenizer::Tokenizer};
use specfleet_service::identity;
use specfleet_speculation::TokenId;
use specfleet_verifier_service::Options;

use super::{CHAT, chunks, ok, with};
use crate::support::{Advance, Answer, FakeDraft, HttpClient, Verifier, options, plain};

const END: TokenId = 256;
/// Ends every prompt, so that a model knows where its answer begins.
const ASKED: &str = "\u{1}";

/// A vocabulary.
#[derive(Clone, Copy)]
pub(super) struct Words {
    /// The longer tokens.
    words: &'static [&'static str],
    are_special: bool,
}

/// The tags of calls.
pub(super) const CALLS: Words = Words { words: &["<tool_call>", "</tool_call>"], are_special: false };
/// The tags of thoughts.
pub(super) const THOUGHTS: Words =
    Words { words: &["<think>", "</think>", "<tool_call>", "</tool_call>"], are_special: false };

impl Words {
    pub(super) fn special(self) -> Self {
        Self { are_special: true, ..self }
    }

    fn n_vocab(self) -> usize {
        END as usize + 1 + self.words.len()
    }

    fn tokenizer(self) -> Tokenizer {
        let mut tokens: Vec<Vec<u8>> = (0..=u8::MAX).map(|byte| vec![byte]).collect();
        tokens.push(b"<end>".to_vec());
        tokens.extend(self.words.iter().map(|word| word.as_bytes().to_vec()));
        let specials: Vec<TokenId> =
            if self.are_special { (END..self.n_vocab() as TokenId).collect() } else { vec![END] };
        Tokenizer::from_bytes(tokens, &specials, &[END])
    }

    /// Text as the model writes it: with its longer tokens.
    fn tokens(self, text: &str) -> Vec<TokenId> {
        let mut tokens = Vec::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let n_bytes = match self.words.iter().position(|word| rest.starts_with(word)) {
                Some(index) => {
                    tokens.push(END + 1 + index as TokenId);
                    self.words[index].len()
                }
                None => {
                    tokens.extend(rest[..first.len_utf8()].bytes().map(TokenId::from));
                    first.len_utf8()
                }
            };
            rest = &rest[n_bytes..];
        }
        tokens
    }

    /// What writes `text` and ends.
    pub(super) fn writing(self, text: &str) -> impl Fn(&[TokenId]) -> TokenId + Clone + Send + Sync + 'static {
        let script = self.tokens(text);
        move |prefix| script.get(n_written(prefix)).copied().unwrap_or(END)
    }

    /// A verifier whose target is sure of what comes next.
    pub(super) fn verifier(self, next: impl Fn(&[TokenId]) -> TokenId + Send + 'static) -> Verifier {
        self.verifier_of(self.sure(next), options())
    }

    pub(super) fn verifier_of(self, target: ScriptedModel, options: Options) -> Verifier {
        Verifier::spelling(target, self.tokenizer(), Vec::new(), options)
    }

    pub(super) async fn drafted(self, target: ScriptedModel, draft: FakeDraft) -> Verifier {
        self.drafted_with(target, draft, options()).await
    }

    pub(super) async fn drafted_with(self, target: ScriptedModel, draft: FakeDraft, options: Options) -> Verifier {
        let tokenizer = self.tokenizer();
        let draft = draft.with_identity(|wire| {
            let mut known = identity::from_wire(wire.clone()).unwrap();
            known.vocabulary = VocabularyFingerprint::new(&tokenizer, self.n_vocab());
            *wire = identity::to_wire(&known, true);
        });
        let verifier = Verifier::spelling(target, tokenizer, vec![("draft".to_owned(), draft.serve())], options);
        verifier.await_draft(specfleet_protocol::v1::DraftState::Ready).await;
        verifier
    }

    pub(super) fn sure(self, next: impl Fn(&[TokenId]) -> TokenId + Send + 'static) -> ScriptedModel {
        let n_vocab = self.n_vocab();
        ScriptedModel::from_fn(n_vocab, move |prefix| {
            let mut logits = vec![-30.0; n_vocab];
            logits[next(prefix) as usize] = 30.0;
            logits
        })
    }

    /// A target that would rather write prose, and under constraint comes to an end soon.
    pub(super) fn reluctant(self) -> ScriptedModel {
        let mut logits = vec![-4.0; self.n_vocab()];
        for (bytes, logit) in
            [("}", 3.0), ("\"", 2.0), ("]", 2.0), (",", 1.0), ("0123", -3.0), ("abcdef", 0.0), ("Hello.", 1.0)]
        {
            bytes.bytes().for_each(|byte| logits[byte as usize] = logit);
        }
        logits[END as usize] = 6.0;
        ScriptedModel::from_fn(self.n_vocab(), move |prefix| {
            let mut logits = logits.clone();
            if n_written(prefix) < 6 {
                logits["Hello."[n_written(prefix)..].bytes().next().unwrap() as usize] = 12.0;
            }
            logits
        })
    }
}

/// A draft that knows the answer, but for every `n`th token of it.
pub(super) fn erring(next: impl Fn(&[TokenId]) -> TokenId + Send + Sync + 'static, n: usize) -> FakeDraft {
    let draft =
        move |prefix: &[TokenId]| if n_written(prefix) % n == n - 1 { TokenId::from(b'#') } else { next(prefix) };
    FakeDraft::new(move |advance: &Advance| Answer::Tokens(plain(&draft, &advance.committed, advance.draft_length)))
}

/// Tokens behind the prompt.
pub(super) fn n_written(prefix: &[TokenId]) -> usize {
    prefix.iter().rev().position(|&token| token == TokenId::from(ASKED.as_bytes()[0])).unwrap_or(0)
}

/// A greedy chat of one message.
pub(super) fn ask(more: &Value) -> Value {
    let messages = json!([{"role": "user", "content": ASKED}]);
    with(json!({"messages": messages, "temperature": 0, "max_tokens": 500}), more)
}

/// A choice of an answer, without the ids of its calls, which nobody can foretell. Streamed it must be the same.
pub(super) async fn answer(http: HttpClient, body: &Value) -> Value {
    let whole = ok(http, CHAT, body).await;
    let streamed = chunks(http.post(CHAT, &with(body.clone(), &json!({"stream": true}))).await).await;
    let mut choice = whole["choices"][0].clone();
    let calls = choice.pointer_mut("/message/tool_calls").and_then(Value::as_array_mut);
    for call in calls.into_iter().flatten() {
        let id = call.as_object_mut().unwrap().remove("id").unwrap();
        assert!(id.as_str().unwrap().starts_with("call_"), "{id}");
    }
    assert_eq!(joined(&streamed), choice, "streamed and whole");
    choice
}

/// What a client makes of chunks.
pub(super) fn joined(chunks: &[Value]) -> Value {
    let mut message = json!({"role": "assistant", "content": "", "refusal": null});
    let mut finish_reason = Value::Null;
    let mut calls: Vec<Value> = Vec::new();
    for choice in chunks.iter().map(|chunk| &chunk["choices"][0]) {
        let delta = &choice["delta"];
        append(&mut message, "content", &delta["content"]);
        append(&mut message, "reasoning_content", &delta["reasoning_content"]);
        for piece in delta["tool_calls"].as_array().into_iter().flatten() {
            let index = piece["index"].as_u64().unwrap() as usize;
            if piece["id"].is_string() {
                assert_eq!((index, &piece["type"]), (calls.len(), &json!("function")));
                calls.push(json!({"type": "function", "function": piece["function"]}));
            } else {
                assert_eq!(index + 1, calls.len(), "one call after the other");
                assert!(piece["function"].get("name").is_none(), "a name comes once");
                append(&mut calls[index]["function"], "arguments", &piece["function"]["arguments"]);
            }
        }
        finish_reason = choice["finish_reason"].clone();
    }
    if !calls.is_empty() {
        if message["content"] == "" {
            message["content"] = Value::Null;
        }
        message["tool_calls"] = json!(calls);
    }
    json!({"index": 0, "message": message, "logprobs": null, "finish_reason": finish_reason})
}

fn append(object: &mut Value, field: &str, more: &Value) {
    if let Some(more) = more.as_str() {
        let text = object[field].as_str().unwrap_or_default().to_owned() + more;
        object[field] = json!(text);
    }
}
