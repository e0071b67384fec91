//! `specctl bench` against a fake whose reports are known: the figures that do not depend on a clock.

use crate::fake::Fake;
use crate::specctl::run;

#[tokio::test(flavor = "multi_thread")]
async fn json_holds_every_cell_and_the_file_holds_the_same() {
    let fake = Fake::start().await;
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    let arguments = ["bench", "--json", "--streams", "1,2", "--temperatures", "0,0.8", "--output", path];
    let ran = run(&fake, &arguments).await;
    let lines = ran.json_lines();
    let [report] = &lines[..] else { panic!("{}", ran.stderr) };
    assert_eq!(std::fs::read_to_string(path).unwrap().replace(&fake.endpoint, "http://VERIFIER"), ran.stdout);

    let cells = report["cells"].as_array().unwrap();
    let streams: Vec<_> = cells.iter().map(|cell| cell["streams"].as_u64().unwrap()).collect();
    assert_eq!(streams, [1, 1, 2, 2]);
    // 28 prompts one by one; each answer has 7 tokens with speculation and 7 without.
    assert_eq!((&cells[0]["pairs"], &cells[0]["plain_tokens"]), (&28.into(), &196.into()));
    assert_eq!(cells[2]["pairs"], 14);
    for cell in cells {
        // 6 tokens after the first message, in 3 steps of 15 ms: 10 verify, 3 draft, 0.5 network.
        assert_eq!(cell["tokens_per_round"], 2.0);
        assert_eq!(cell["acceptance_by_position"], serde_json::json!([1.0, 0.5]));
        assert_eq!(cell["round"]["total_ms"], 15.0);
        assert_eq!(cell["round"]["other_percent"], 10.0);
        assert_eq!(cell["plain_step"]["total_ms"], 10.0);
        // 1 + 1 + 0.5 tokens in two steps, one in the third, each of 13.5 ms, against one in 10.
        let predicted = cell["prediction"]["ratio"].as_f64().unwrap();
        assert!((predicted - 2.0 / 13.5 * 10.0).abs() < 1e-9, "{predicted}");
        assert!(cell["all_streams"]["ratio"].as_f64().unwrap() > 0.0);
    }
    if !specfleet_kernels::supported() {
        assert!(report["weights"]["skipped"]["why"].is_string());
        return;
    }
    let weights = &report["weights"]["compared"];
    assert!(weights["read_loop_gb_per_second"].as_f64().unwrap() > 0.1, "{weights}");
    // 1 MB in a plain step of 10 ms.
    assert_eq!(weights["step_gb_per_second"], 0.1);
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_goes_to_standard_error_and_the_table_to_standard_output() {
    let fake = Fake::start().await;
    let ran = run(&fake, &["bench", "--quick", "--temperatures", "0"]).await;
    assert!(ran.stderr.contains("1 stream, temperature 0"), "{}", ran.stderr);
    let text = ran.ok();
    for expected in ["target  big-target (aaaa00001111)", "100% 50% |", "late 6", "Weights"] {
        assert!(text.contains(expected), "{expected:?} is missing in\n{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_ready_draft_there_is_nothing_to_compare() {
    let fake = Fake::start_without_draft().await;
    let ran = run(&fake, &["bench", "--quick"]).await;
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("http://draft-b:50052 is unreachable: connection refused"), "{}", ran.stderr);
}
