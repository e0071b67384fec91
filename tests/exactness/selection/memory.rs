//! Memory is reserved for what was asked for.
//!
//! The verifier has four blocks of 16 tokens. One is held by a request that waits for a draft of its own, and one must stay
//! free for it; the request that is looked at gets by with two, and there is a third for its rounds. All that time it asks
//! for 32 tokens, for which three blocks are not enough. A proposal of 32 tokens is thrown away, and its request goes back
//! to the queue for a moment. One of two tokens would find room, but must share the fate of the long one.

use std::{future::ready, num::NonZeroUsize, sync::mpsc};

use futures::StreamExt;
use specfleet_client::{Event, v1::GenerateRequest};
use specfleet_model::scripted::{ScriptedModel, table::Table};
use specfleet_speculation::TokenId;
use specfleet_tests::{
    drafts,
    in_process::{Draft, Verifier},
    outcome::Outcome,
    real_models::long_form,
    scripted_pair::{self, END, N_VOCAB, loaded, model, settings},
};
use specfleet_verifier_service::controls::Control;

use super::{DRAFT, Draws, TARGET, request};
use crate::controls::case::serve;

const KV_TOKENS: usize = 64;
/// A block.
const PROMPT: [TokenId; 16] = [3; 16];
/// A prefix of so many tokens ends, so that no text ever needs a third block for itself.
const LENGTH: usize = 31;
const DRAFT_LENGTH: usize = 32;
/// The most that fits with it into the memory.
const MAX_TOKENS: usize = KV_TOKENS - PROMPT.len();

/// Requests under one holder: a draft that is silent for ten seconds is taken for dead.
const N_REQUESTS: usize = 10;

/// Follows [`TARGET`] up to [`LENGTH`].
fn target() -> ScriptedModel {
    let [table, ending] = [TARGET, "* -> 15:1"].map(|table| Table::parse(table, N_VOCAB).unwrap());
    let script = move |prefix: &[TokenId]| if prefix.len() < LENGTH { &table } else { &ending }.logits(prefix);
    ScriptedModel::from_fn(N_VOCAB, script).with_kv_tokens(KV_TOKENS)
}

/// A draft that answers once for each message.
fn gated(gate: mpsc::Receiver<()>) -> ScriptedModel {
    ScriptedModel::from_fn(N_VOCAB, move |_| {
        // The end of the test opens the gate too.
        let _ = gate.recv();
        vec![0.0; N_VOCAB]
    })
    .with_weights_digest([1; 32])
}

struct Scarcity {
    verifier: Verifier,
    doubting: Draft,
    gated: Draft,
    gate: mpsc::Sender<()>,
}

impl Scarcity {
    async fn start(control: Option<Control>) -> Self {
        let mut settings = settings();
        settings.verifier.max_draft_length = DRAFT_LENGTH;
        settings.draft.max_draft_length = NonZeroUsize::new(DRAFT_LENGTH).unwrap();
        settings.draft.least_chance = 0.3;
        let (gate, message) = mpsc::channel();
        let doubting = Draft::start(loaded(model(DRAFT)), settings.draft);
        let gated = Draft::start(loaded(gated(message)), settings.draft);
        let verifier = serve(target(), vec![doubting.channel(), gated.channel()], settings.verifier, control);
        verifier.wait_for_drafts().await;
        Self { verifier, doubting, gated, gate }
    }

    /// Texts of requests that run one after the other, while another one holds a block.
    async fn draw(&self, first_seed: usize, draws: &mut Draws) {
        let speculation = Some(drafts::only(&self.gated, 1));
        let holder = GenerateRequest { speculation, ..scripted_pair::request(&[1, 2, 3], 3) };
        let mut holder = self.verifier.client.generate(holder).await.unwrap();
        // With its first token it has asked for the next, and waits.
        assert!(holder.by_ref().any(|event| ready(matches!(event.unwrap(), Event::Committed(_)))).await);
        for seed in first_seed..first_seed + N_REQUESTS {
            let mut request = request(&PROMPT, MAX_TOKENS, DRAFT_LENGTH, seed);
            let speculation = request.speculation.as_mut().unwrap();
            (speculation.pin, speculation.require_pin) = (self.doubting.version_id.clone(), true);
            let tokens = Outcome::of(&self.verifier.client, request).await.unwrap().token_ids();
            assert_eq!((tokens.len(), tokens.last()), (LENGTH + 1 - PROMPT.len(), Some(&END)));
            draws.read(&tokens[..tokens.len() - 1]);
        }
        self.gate.send(()).unwrap();
        assert!(holder.all(|event| ready(event.is_ok())).await, "it waited all that time, and ends well");
    }

    /// After how many draws the law is refuted.
    async fn judge(self, title: &str, n_holders: usize) -> Option<usize> {
        let mut draws = Draws::default();
        for holder in 0..n_holders {
            self.draw(holder * N_REQUESTS, &mut draws).await;
        }
        let n_preempted = self.verifier.metric("specfleet_verifier_preemptions_total", "");
        assert!(n_preempted > draws.0.len() as f64 / 4.0, "memory is short: {n_preempted} times");
        draws.judge(title)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_and_short_proposals_find_memory_or_none() {
    let n_holders = if long_form() { 100 } else { 10 };
    let scarcity = Scarcity::start(None).await;
    let caught_after = scarcity.judge("Memory for the tokens that were asked for", n_holders).await;
    assert_eq!(caught_after, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_for_what_came_is_caught() {
    let scarcity = Scarcity::start(Some(Control::ReservesWhatCame)).await;
    let caught_after = scarcity.judge("Memory for the tokens that came", 10).await;
    assert!(caught_after.is_some());
}
