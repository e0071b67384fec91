//! `specctl drafts`.

use crate::fake::Fake;
use crate::specctl::run;

#[tokio::test(flavor = "multi_thread")]
async fn drafts_their_trust_the_evidence_and_a_fall_of_acceptance_are_shown() {
    let fake = Fake::start().await;
    insta::assert_snapshot!(run(&fake, &["drafts"]).await.ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn json_holds_whole_version_ids_and_all_figures() {
    let fake = Fake::start().await;
    let lines = run(&fake, &["drafts", "--json"]).await.json_lines();
    let [page] = &lines[..] else { panic!("{lines:?}") };
    insta::assert_snapshot!(serde_json::to_string_pretty(page).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn help_says_what_the_columns_mean() {
    let fake = Fake::start().await;
    let help = run(&fake, &["drafts", "--help"]).await.ok();
    for word in ["trusted", "untrusted", "quarantined", "evidence", "--json"] {
        assert!(help.contains(word), "{help}");
    }
}
