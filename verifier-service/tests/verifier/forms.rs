//! Output of a given form needs memory, of which there is so much.

use std::time::Duration;

use specfleet_protocol::{
    status::Reason,
    v1::{GenerateRequest, OutputGrammar, output_grammar::Form},
};
use specfleet_verifier_service::Options;

use crate::support::{FakeDraft, Verifier, drafted, greedy_target, options, request, winding};

fn any_letters() -> Option<OutputGrammar> {
    Some(OutputGrammar { form: Some(Form::Regex("[a-n]*".to_owned())) })
}

fn letters(n: u32, max_tokens: u32) -> GenerateRequest {
    GenerateRequest { n, grammar: any_letters(), ..request(&[1], max_tokens) }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_room_for_forms_is_shown_and_so_is_who_found_none() {
    let target = greedy_target(winding).with_delay(Duration::from_millis(5));
    let verifier = Verifier::start(target, Vec::new(), Options { max_grammars: 2, ..options() });
    let taken = || verifier.metric("specfleet_verifier_grammars", "");
    assert_eq!(taken(), 0.0);
    let running = verifier.stream(letters(2, 4000)).await.unwrap();
    verifier.until("two outputs", async || taken() == 2.0).await;
    let refused = verifier.generate(letters(1, 1)).await.status.unwrap();
    assert_eq!(Reason::of(&refused), Some(Reason::Overloaded), "{refused}");
    assert!(verifier.generate(request(&[1], 1)).await.status.is_none(), "who wants no form needs no room for it");
    assert_eq!(verifier.metric("specfleet_verifier_grammars_refused_total", ""), 1.0);
    drop(running);
    verifier.until("none", async || taken() == 0.0).await;
    assert!(verifier.choices(letters(2, 1)).await.is_ok());
    verifier.assert_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_drafted_before_a_form_is_known_and_the_report_says_why() {
    let draft = FakeDraft::following(winding);
    let verifier = Verifier::with_draft(greedy_target(winding), &draft, options()).await;
    let outcome = verifier.generate(GenerateRequest { grammar: any_letters(), ..drafted(&[1], 40, 3) }).await;
    let report = outcome.speculation();
    assert!(report.plain_reasons["masks"] > 0 && !report.plain_reasons.contains_key("load"), "{report:?}");
    assert!(report.accepted > 0, "then it is: {report:?}");
    verifier.assert_idle().await;
}
