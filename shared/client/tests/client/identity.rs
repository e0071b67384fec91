//! `specctl identity`.

use crate::fake::Fake;
use crate::specctl::run;

#[tokio::test(flavor = "multi_thread")]
async fn target_and_drafts_are_described() {
    let fake = Fake::start().await;
    insta::assert_snapshot!(run(&fake, &["identity"]).await.ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draft_can_be_asked_directly() {
    let fake = Fake::start().await;
    let ran = run(&fake, &["identity", "--draft-endpoint", &fake.endpoint.clone()]).await;
    let text = ran.ok();
    assert!(text.starts_with("draft at http://VERIFIER\n"), "{text}");
    assert!(text.contains("small-draft"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn json_holds_whole_version_ids() {
    let fake = Fake::start().await;
    let lines = run(&fake, &["identity", "--json"]).await.json_lines();
    let [page] = &lines[..] else { panic!("{lines:?}") };
    insta::assert_snapshot!(serde_json::to_string_pretty(page).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_absent_service_is_named_with_what_to_do() {
    let fake = Fake::start().await;
    let ran = run(&fake, &["identity", "--endpoint", "http://127.0.0.1:1"]).await;
    assert_eq!(ran.code, 1);
    for expected in ["no verifier-service answers at http://127.0.0.1:1", "deploy/local/up", "--endpoint"] {
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    }
}
