//! `specctl generate`.

use std::io::Read;
use std::process::Stdio;

use crate::fake::Fake;
use crate::specctl::{command, run, run_with_input};

#[tokio::test(flavor = "multi_thread")]
async fn the_text_goes_to_standard_output_and_nothing_else() {
    let fake = Fake::start().await;
    let ran = run(&fake, &["generate", "Hi"]).await;
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("The capital is Paris.\n", ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_prompt_comes_from_argument_file_or_input() {
    let fake = Fake::start().await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "from a file echo\n").unwrap();
    let path = file.path().to_str().unwrap();
    for (arguments, input, expected) in [
        (vec!["generate", "an argument echo"], "", "user: an argument echo\n"),
        (vec!["generate", "--file", path], "", "user: from a file echo\n"),
        (vec!["generate"], "from input echo\n", "user: from input echo\n"),
        (vec!["generate", "--raw", "as it is echo"], "", "text: as it is echo\n"),
        (vec!["generate", "--system", "Be kind.", "echo"], "", "system: Be kind. | user: echo\n"),
    ] {
        assert_eq!(run_with_input(&fake, &arguments, input).await.ok(), expected, "{arguments:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rounds_are_visible_without_colour_and_with() {
    let fake = Fake::start().await;
    let plain = run(&fake, &["generate", "--show-rounds", "Hi"]).await.ok();
    insta::assert_snapshot!(plain);
    let colored = run(&fake, &["generate", "--show-rounds", "--color", "always", "Hi"]).await.ok();
    assert!(colored.contains("\u{1b}[32m capital\u{1b}"), "{colored}");
}

#[tokio::test(flavor = "multi_thread")]
async fn several_answers_are_shown_one_after_the_other() {
    let fake = Fake::start().await;
    let shown = "--- 1 of 2 ---\nThe capital is Paris.\n\n--- 2 of 2 ---\nThe capital is Paris.\n";
    let ran = run(&fake, &["generate", "--n", "2", "--stats", "Hi"]).await;
    assert_eq!(ran.stdout, shown);
    assert!(ran.stderr.contains("answer 1 of 2\ntokens      7 at "), "{}", ran.stderr);
    let lines = run(&fake, &["generate", "--n", "2", "--json", "Hi"]).await.json_lines();
    let indices: Vec<_> = lines.iter().map(|line| line["choice_index"].as_u64()).collect();
    assert_eq!(indices[..5], [None, Some(1), Some(0), Some(1), Some(0)]);
    assert_eq!(lines.iter().filter(|line| line["event"] == "finished").count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn statistics_go_to_standard_error() {
    let fake = Fake::start().await;
    let ran = run(&fake, &["generate", "--stats", "Hi"]).await;
    assert_eq!(ran.stdout, "The capital is Paris.\n");
    // The first line depends on this machine's clock.
    let (first, rest) = ran.stderr.trim_start().split_once('\n').unwrap();
    assert!(first.starts_with("tokens      7 at "), "{first}");
    insta::assert_snapshot!(rest);
}

#[tokio::test(flavor = "multi_thread")]
async fn json_is_one_event_a_line() {
    let fake = Fake::start().await;
    let ran = run(&fake, &["generate", "--json", "Hi"]).await;
    let mut lines = ran.json_lines();
    for measured in ["tokens_per_second", "time_to_first_token_ms"] {
        let stats = &mut lines.last_mut().unwrap()["stats"];
        assert!(stats[measured].as_f64().unwrap() > 0.0);
        stats[measured] = "measured".into();
    }
    let text: Vec<String> = lines.iter().map(|line| serde_json::to_string_pretty(line).unwrap()).collect();
    insta::assert_snapshot!(text.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_are_told_in_words_and_in_json() {
    let fake = Fake::start().await;
    let ran = run(&fake, &["generate", "bad"]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    insta::assert_snapshot!(ran.stderr, @r"
    error: the verifier-service refused: the request has 2 bad fields (INVALID_ARGUMENT)
      sampling.top_p: is 0, must be in (0, 1]
      max_tokens: is 0, must be at least 1
    ");
    let lines = run(&fake, &["generate", "--json", "breaks"]).await.json_lines();
    let [_, committed, error] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!(committed["event"], "committed");
    assert_eq!((&error["event"], &error["error"]["reason"]), (&"error".into(), &"MODEL_FAILED".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_in_the_middle_keeps_what_came() {
    let fake = Fake::start().await;
    let ran = run(&fake, &["generate", "breaks"]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (1, "The\n"));
    assert!(ran.stderr.contains("logit 7 is NaN"), "{}", ran.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_prompt_is_refused_before_it_is_sent() {
    let fake = Fake::start().await;
    let ran = run_with_input(&fake, &["generate"], "\n").await;
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("the prompt is empty; give it as an argument"), "{}", ran.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_cancels_and_keeps_what_came() {
    let fake = Fake::start().await;
    let mut child = command(&fake, &["generate", "--stats", "endless"]).spawn().unwrap();
    let mut beginning = [0; 14];
    child.stdout.as_mut().unwrap().read_exact(&mut beginning).unwrap();
    assert_eq!(&beginning, b"and on and on ");
    let killed = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    fake.cancelled().await;
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(output.stdout.ends_with(b"and on \n"));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.starts_with("stopped after ") && stderr.contains("tokens/s"), "{stderr}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_has_seen_enough_is_no_error() {
    let fake = Fake::start().await;
    let mut child = command(&fake, &["generate", "endless"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 3]).unwrap();
    drop(stdout);
    fake.cancelled().await;
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_on_the_command_line_are_explained() {
    let fake = Fake::start().await;
    for (arguments, expected) in [
        (vec!["generate", "--temperature", "warm", "Hi"], "invalid value 'warm' for '--temperature <T>'"),
        (vec!["generate", "--require-pin", "Hi"], "--pin <VERSION>"),
        (vec!["generate", "--no-speculation", "--draft-length", "3", "Hi"], "cannot be used with"),
        (vec!["generate", "--rule", "lenient", "Hi"], "possible values: standard, draft-invariant"),
        (vec!["generate", "--max-wait", "20", "Hi"], "invalid value '20' for '--max-wait <DURATION>'"),
        (vec!["generate", "--file", "x", "Hi"], "cannot be used with"),
        (vec!["bench", "--streams", "0"], "0 is not in 1..=1024"),
    ] {
        let ran = run(&fake, &arguments).await;
        assert_eq!(ran.code, 2, "{arguments:?}");
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    }
}
