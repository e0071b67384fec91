//! The real models, as `tests/run` names them, loaded into this process, and prompts for them.

use std::num::NonZeroUsize;

use specfleet_model::{
    chat_template::ChatMessage,
    device::Device,
    load::{Dtype, Error, LoadOptions, Loaded, Operators, load},
};
use specfleet_speculation::TokenId;
use tokio::sync::{Mutex, MutexGuard};

use crate::binaries::from_environment;

/// A fixed set of chat messages of several kinds.
const PROMPTS: &str = include_str!("../../shared/client/prompts/bench.jsonl");

/// What follows a prompt of the set where more prompts are needed than it has.
const VARIATIONS: [&str; 3] = ["", " Answer in one short paragraph.", " Answer as if you wrote a letter to a friend."];

static TURN: Mutex<()> = Mutex::const_new(());

/// To be held while real models compute: each uses all cores, so that two at a time would wait for each other.
pub async fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().await
}

/// Whether the long forms of tests are wanted.
pub fn long_form() -> bool {
    std::env::var_os("SPECFLEET_TEST_LONG").is_some()
}

/// The target on the CPU, or `None` with a note where this machine cannot run the operators that are asked for.
pub fn target(dtype: Dtype, operators: Operators, kv_tokens: usize) -> Option<Loaded> {
    // libtorch's threads wait for each other at every operator, which takes long beside other tests.
    let threads = (operators == Operators::Libtorch).then_some(NonZeroUsize::MIN);
    let options = LoadOptions { device: Device::Cpu, dtype, threads, kv_tokens, operators };
    match load(&from_environment("SPECFLEET_TEST_TARGET"), &options) {
        Ok(loaded) => Some(loaded),
        Err(Error::FusedUnavailable { reason }) => {
            let required = std::env::var_os("SPECFLEET_TEST_REQUIRE_FUSED").is_some();
            assert!(!required, "the fused operators cannot run here, and their tests are required: {reason}");
            println!("skipped: the fused operators cannot run here: {reason}");
            None
        }
        Err(error) => panic!("cannot load the target: {error}"),
    }
}

/// The draft with the dtype that it has on this machine. To be loaded before the target: loading a model sets the
/// number of libtorch's threads for the whole process.
pub fn draft() -> Loaded {
    let dtype = from_environment("SPECFLEET_TEST_DRAFT_DTYPE");
    let dtype = dtype.to_str().and_then(|name| name.parse().ok()).expect("the draft's dtype is one");
    draft_of(dtype)
}

/// The draft with another dtype, which is another version.
pub fn draft_of(dtype: Dtype) -> Loaded {
    let options = LoadOptions { dtype, ..LoadOptions::default() };
    load(&from_environment("SPECFLEET_TEST_DRAFT"), &options).unwrap_or_else(|error| panic!("the draft: {error}"))
}

/// `n` different chats of one message, from all over the set, as token ids of the target.
pub fn prompts(target: &Loaded, n: usize) -> Vec<Vec<TokenId>> {
    let messages: Vec<String> = PROMPTS.lines().map(message).collect();
    let all = messages.len() * VARIATIONS.len();
    assert!(n <= all, "{n} prompts of {all}");
    let stride = (messages.len() / n).max(1);
    let order = (0..stride).flat_map(|start| (start..messages.len()).step_by(stride));
    let messages = &messages;
    let varied =
        VARIATIONS.iter().flat_map(|more| order.clone().map(move |index| format!("{}{more}", messages[index])));
    varied.take(n).map(|message| chat(target, &message)).collect()
}

/// A chat of one message, rendered and tokenised.
pub fn chat(target: &Loaded, message: &str) -> Vec<TokenId> {
    let template = target.chat_template.as_ref().expect("the target has a chat template");
    let message = ChatMessage::new("user", message);
    let text = template.render(&[message], true).expect("the chat can be rendered");
    target.tokenizer.encode(&text, false).expect("the text can be tokenised")
}

fn message(line: &str) -> String {
    let prompt: serde_json::Value = serde_json::from_str(line).expect("a line is JSON");
    prompt["prompt"].as_str().expect("a prompt has a text").to_owned()
}
