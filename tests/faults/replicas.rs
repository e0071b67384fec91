//! Several replicas of one draft: long connections must not pin all work to one of them, a new one gets its share, and one
//! that dies is nobody's loss.

use std::time::Duration;

use futures::{StreamExt, stream};
use specfleet_tests::{
    outcome::Outcome,
    proxy::Proxy,
    scripted_pair::{request, settings},
};

use crate::support::{Served, certain, plain, serve_draft, serve_verifier, until, winding};

/// Runs `n_requests`, eight at a time, and checks each.
async fn run(verifier: &Served, n_requests: u32) {
    let client = verifier.client();
    let outcomes = stream::iter(0..n_requests).map(async |index| {
        let prompt = [index % 15, index / 15 % 15];
        let outcome = Outcome::of(&client, request(&prompt, 12)).await.unwrap();
        assert_eq!(outcome.token_ids(), plain(winding, &prompt, 12));
    });
    outcomes.buffer_unordered(8).collect::<Vec<()>>().await;
}

/// Sessions that each replica has opened so far.
fn opened(replicas: &[Served]) -> Vec<f64> {
    replicas.iter().map(|replica| replica.metric("specfleet_draft_sessions_opened_total", "")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_share_the_work_and_a_new_one_gets_its_part() {
    let mut replicas = Vec::new();
    let mut networks = Vec::new();
    for _ in 0..4 {
        let replica = serve_draft(certain(winding)).await;
        networks.push(Proxy::start(replica.address).await);
        replicas.push(replica);
    }
    // Configured, and not there yet.
    networks[3].cut();
    let addresses: Vec<_> = networks.iter().map(|network| network.address).collect();
    let target = certain(winding).with_delay(Duration::from_millis(1));
    let verifier = serve_verifier(target, &addresses, settings().verifier, Duration::ZERO).await;
    let n_ready = || verifier.metric("specfleet_verifier_drafts", "\"ready\"");
    until("three are ready", async || n_ready() == 3.0).await;

    run(&verifier, 300).await;
    let first = opened(&replicas);
    assert!(first[..3].iter().all(|&opened| opened >= 60.0) && first[3] == 0.0, "{first:?}");

    networks[3].mend();
    until("four are ready", async || n_ready() == 4.0).await;
    run(&verifier, 100).await;
    let second = opened(&replicas);
    assert!(second[3] >= 15.0, "the new one gets its part: {second:?}");

    let dying = async {
        until("work is under way", async || opened(&replicas)[0] > second[0] + 5.0).await;
        networks[0].cut();
    };
    tokio::join!(run(&verifier, 100), dying);
    until("three are ready", async || n_ready() == 3.0).await;
    let third = opened(&replicas);
    run(&verifier, 60).await;
    let last = opened(&replicas);
    assert_eq!(last[0], third[0], "the dead one gets none");
    assert!((1..4).all(|index| last[index] >= third[index] + 10.0), "the others get its part: {third:?}, {last:?}");
    verifier.await_idle().await;
}
