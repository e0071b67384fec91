//! The object `speculation`: how a client drives it, and what it is told.

use serde_json::{Value, json};

use super::{CHAT, chat, ok, refusal, spelled, with};
use crate::support::{FakeDraft, Verifier, greedy_target, options, version_id};

async fn verifier() -> Verifier {
    Verifier::with_draft(greedy_target(spelled), &FakeDraft::following(spelled), options()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_account_says_what_speculation_did() {
    let verifier = verifier().await;
    let http = verifier.serve_http().await;
    let answer = ok(http, CHAT, &chat("abc", 41)).await;
    let account = &answer["usage"]["speculation"];
    let count = |name: &str| account[name].as_u64().unwrap();
    assert_eq!(count("accepted") + count("corrected") + count("bonus") + count("plain_steps"), 40);
    assert!(count("accepted") >= 25 && count("accepted") <= count("proposed"), "{account}");
    assert_eq!(account["draft_version_ids"], json!([version_id('a')]));
    assert_eq!(account["rule"], "standard");
    let fingerprint = answer["system_fingerprint"].as_str().unwrap();
    assert!(fingerprint.ends_with(&format!("_{}", "a".repeat(12))), "{fingerprint}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_can_limit_pin_or_refuse_drafts() {
    let verifier = verifier().await;
    let http = verifier.serve_http().await;
    let asked =
        async |speculation: Value| ok(http, CHAT, &with(chat("abc", 30), &json!({"speculation": speculation}))).await;
    let free = asked(json!({})).await;
    for off in [json!({"off": true}), json!({"max_draft_length": 0})] {
        let answer = asked(off).await;
        assert_eq!(answer["choices"], free["choices"], "the text is the target's");
        let account = &answer["usage"]["speculation"];
        assert_eq!((&account["plain_reasons"], &account["proposed"]), (&json!({"off": 29}), &json!(0)));
        assert!(answer["system_fingerprint"].as_str().unwrap().ends_with("_plain"));
    }
    let short = asked(json!({"max_draft_length": 1, "max_wait_micros": 10_000_000})).await;
    assert_eq!(short["usage"]["speculation"]["tested_per_position"].as_array().unwrap().len(), 1);
    let pinned = asked(json!({"pin": version_id('a'), "require_pin": true, "rule": "draft_invariant"})).await;
    assert_eq!(pinned["usage"]["speculation"]["rule"], "draft_invariant");
    assert!(pinned["usage"]["speculation"]["accepted"].as_u64().unwrap() > 0);

    let absent = json!({"speculation": {"pin": version_id('b'), "require_pin": true}});
    let (status, error) = refusal(http.post(CHAT, &with(chat("abc", 30), &absent)).await).await;
    assert_eq!((status, &error["code"]), (409, &json!("draft_unavailable")));
    let elsewhere = asked(json!({"pin": version_id('b')})).await;
    assert_eq!((&elsewhere["choices"], &elsewhere["usage"]["speculation"]["proposed"]), (&free["choices"], &json!(0)));
    assert!(elsewhere["system_fingerprint"].as_str().unwrap().ends_with("_plain"), "{elsewhere}");
    verifier.assert_idle().await;
}
