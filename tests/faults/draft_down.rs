//! A draft that dies, before the start, between rounds, in the middle of a message, or that accepts and never answers:
//! every request finishes with the same text, and drafts are used again when the network is.

use std::time::Duration;

use specfleet_client::v1::DraftState;
use specfleet_tests::{
    outcome::Outcome,
    proxy::Proxy,
    scripted_pair::{request, settings},
};

use crate::support::{Served, certain, plain, serve_draft, serve_verifier, until, winding};

/// A verifier and its draft, with a network between them.
struct Apart {
    verifier: Served,
    network: Proxy,
    _draft: Served,
}

impl Apart {
    async fn start(wait: Duration, prepare: impl FnOnce(&Proxy)) -> Self {
        let draft = serve_draft(certain(winding)).await;
        let network = Proxy::start(draft.address).await;
        prepare(&network);
        let target = certain(winding).with_delay(Duration::from_millis(2));
        let mut options = settings().verifier;
        options.draft_wait = wait;
        let verifier = serve_verifier(target, &[network.address], options, Duration::ZERO).await;
        Self { verifier, network, _draft: draft }
    }

    /// Runs a request and checks its text.
    async fn run(&self, n_tokens: u32) -> Outcome {
        let outcome = Outcome::of(&self.verifier.client(), request(&[3], n_tokens)).await.unwrap();
        assert_eq!(outcome.token_ids(), plain(winding, &[3], n_tokens as usize));
        outcome
    }

    /// Waits until requests are drafted for again.
    async fn assert_recovers(&self) {
        self.network.mend();
        until("speculation resumes", async || self.run(20).await.speculation().accepted > 0).await;
        self.verifier.await_idle().await;
    }

    fn n_plain(&self, reason: &str) -> f64 {
        self.verifier.metric("specfleet_verifier_plain_steps_total", &format!("reason=\"{reason}\""))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draft_that_is_dead_before_the_start_is_not_missed() {
    let apart = Apart::start(Duration::from_secs(20), Proxy::cut).await;
    let outcome = apart.run(50).await;
    assert_eq!(outcome.speculation().plain_reasons["no_draft"], 49);
    assert_eq!(apart.n_plain("no_draft"), 49.0);
    apart.verifier.await_draft(DraftState::Unreachable).await;
    apart.assert_recovers().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draft_that_dies_between_rounds_is_left_at_once() {
    let apart = Apart::start(Duration::from_secs(20), |_| {}).await;
    apart.verifier.await_draft(DraftState::Ready).await;
    let fate = async {
        until("rounds run", async || apart.verifier.metric("specfleet_verifier_rounds_total", "") > 20.0).await;
        apart.network.cut();
    };
    let (outcome, ()) = tokio::join!(apart.run(1500), fate);
    let report = outcome.speculation();
    assert!(report.accepted > 0 && report.plain_reasons["no_draft"] > 0, "{report:?}");
    apart.assert_recovers().await;
}

/// The connection breaks after so many bytes, wherever in a message that is.
#[tokio::test(flavor = "multi_thread")]
async fn a_draft_that_dies_in_the_middle_of_a_message_costs_that_message() {
    for n_bytes in [1, 100, 501, 902, 1503] {
        let apart = Apart::start(Duration::from_secs(20), |_| {}).await;
        apart.verifier.await_draft(DraftState::Ready).await;
        apart.network.cut_after(n_bytes);
        let outcome = apart.run(300).await;
        let report = outcome.speculation();
        assert!(apart.network.is_cut(), "{n_bytes} bytes were sent: {report:?}");
        assert!(report.plain_reasons.values().sum::<u32>() > 100, "{n_bytes} bytes: {report:?}");
        assert_eq!(report.corrected, 0, "half a proposal is none");
        apart.assert_recovers().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draft_that_accepts_connections_and_never_answers_is_not_waited_for() {
    let apart = Apart::start(Duration::from_secs(20), Proxy::freeze).await;
    let outcome = apart.run(50).await;
    assert_eq!(outcome.speculation().plain_reasons["no_draft"], 49, "it never was ready");
    until("somebody asked it", async || apart.network.n_connections() > 0).await;
    apart.assert_recovers().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draft_that_freezes_in_the_middle_of_a_request_costs_one_wait() {
    let wait = Duration::from_millis(300);
    let apart = Apart::start(wait, |_| {}).await;
    apart.verifier.await_draft(DraftState::Ready).await;
    let fate = async {
        until("rounds run", async || apart.verifier.metric("specfleet_verifier_rounds_total", "") > 20.0).await;
        apart.network.freeze();
    };
    let started = std::time::Instant::now();
    let (outcome, ()) = tokio::join!(apart.run(600), fate);
    let took = started.elapsed();
    let report = outcome.speculation();
    assert!(report.plain_reasons["late"] > 100, "{report:?}");
    // 600 steps of 2 ms and a wait of 300: waiting in every round would take minutes.
    assert!(took < Duration::from_secs(10), "{took:?}");
    apart.assert_recovers().await;
}
