//! Under load drafts rest, and a resting draft costs nothing: it is not even told of the requests.

use std::time::Duration;

use futures::future::join_all;
use specfleet_verifier_service::Options;

use crate::support::{FakeDraft, Verifier, drafted, greedy_target, options, plain, winding};

/// Four requests may draft one token each, five none.
const VERIFY_ROWS: usize = 8;

async fn verifier(draft: &FakeDraft, pass: Duration) -> Verifier {
    let target = greedy_target(winding).with_delay(pass);
    Verifier::with_draft(target, draft, Options { verify_rows: VERIFY_ROWS, ..options() }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_into_a_crowd_opens_no_session() {
    let draft = FakeDraft::following(winding);
    let verifier = verifier(&draft, Duration::from_millis(2)).await;
    let crowd = join_all((0..16).map(|first| verifier.generate(drafted(&[first % 14], 30, 3)))).await;
    assert!(draft.opens().len() <= 4, "{} sessions", draft.opens().len());
    let resting: Vec<_> = crowd.iter().filter(|outcome| outcome.speculation().accepted == 0).collect();
    assert!(resting.len() >= 12, "{} have asked for nothing", resting.len());
    for report in resting.iter().map(|outcome| outcome.speculation()) {
        // The last round of one with a session has no room for a draft token anyway.
        assert!(report.plain_reasons["load"] >= 28, "{report:?}");
    }
    verifier.assert_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_come_into_a_crowd_gets_its_draft_when_it_has_gone() {
    let draft = FakeDraft::following(winding);
    let verifier = verifier(&draft, Duration::from_millis(4)).await;
    let crowd = join_all((0..8).map(|first| verifier.generate(drafted(&[first], 150, 3))));
    // More than two seconds, of which the crowd is there for less than one.
    let (_, straggler) = tokio::join!(crowd, async {
        verifier.until("a crowd", async || verifier.metric("specfleet_verifier_running_requests", "") >= 5.0).await;
        verifier.generate(drafted(&[9], 600, 3)).await
    });
    straggler.assert_tokens(&plain(winding, &[9], 600));
    let report = straggler.speculation();
    assert!(report.plain_reasons["load"] > 30 && report.accepted > 30, "{report:?}");
    verifier.assert_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_when_a_crowd_has_just_gone_is_drafted_for_at_once() {
    let draft = FakeDraft::following(winding);
    let verifier = verifier(&draft, Duration::from_millis(1)).await;
    join_all((0..8).map(|first| verifier.generate(drafted(&[first], 30, 3)))).await;
    let late = verifier.generate(drafted(&[9], 30, 3)).await;
    assert!(late.speculation().accepted > 15 && !late.speculation().plain_reasons.contains_key("load"), "{late:?}");
}
