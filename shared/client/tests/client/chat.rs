//! `specctl chat` with piped input.

use crate::fake::Fake;
use crate::specctl::run_with_input;

#[tokio::test(flavor = "multi_thread")]
async fn each_line_is_a_turn_and_the_conversation_grows() {
    let fake = Fake::start().await;
    let ran = run_with_input(&fake, &["chat", "--system", "Be brief."], "Hi\n\nagain echo\n").await;
    assert_eq!(
        ran.ok(),
        "The capital is Paris.\n\
         system: Be brief. | user: Hi | assistant: The capital is Paris. | user: again echo\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn reset_forgets_all_but_the_system_message() {
    let fake = Fake::start().await;
    let ran = run_with_input(&fake, &["chat", "--system", "Be brief."], "Hi\n/reset\necho\n/quit\nnever said\n").await;
    assert_eq!(ran.ok(), "The capital is Paris.\nsystem: Be brief. | user: echo\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_are_answered_on_standard_error() {
    let fake = Fake::start().await;
    let ran = run_with_input(&fake, &["chat"], "/stats\n/nothing\nHi\n/stats\n/help\n").await;
    assert_eq!(ran.stdout, "The capital is Paris.\n");
    for expected in ["no answer yet", "no command /nothing; /help lists them", "accepted    3 of 5", "/reset"] {
        assert!(ran.stderr.contains(expected), "{expected:?} is missing in {}", ran.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_turn_ends_a_script() {
    let fake = Fake::start().await;
    let ran = run_with_input(&fake, &["chat", "--json"], "bad\nHi\n").await;
    assert_eq!(ran.code, 1);
    let lines = ran.json_lines();
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["error"]["violations"][0]["field"], "sampling.top_p");
}
