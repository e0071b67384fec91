//! `specctl audit` against a verifier that is honest, and against one that is not.

use serde_json::Value;

use crate::fake::{Conduct, Fake};
use crate::specctl::run;

/// Enough for the largest of differences.
const QUICK: &[&str] = &["--samples", "40", "--compare", "4"];

const PASSED: i32 = 0;
const FAILED: i32 = 3;
const NOT_JUDGED: i32 = 4;

/// The exit code and the report.
async fn audit(conduct: Conduct, arguments: &[&str]) -> (i32, Value) {
    let fake = Fake::start_writing(conduct).await;
    let ran = run(&fake, &[&["audit", "--json", "--seed", "5"], arguments].concat()).await;
    let [report] = &ran.json_lines()[..] else { panic!("{} {}", ran.stdout, ran.stderr) };
    (ran.code, report.clone())
}

/// The names of the checks that have this verdict.
fn named(report: &Value, verdict: &str) -> Vec<String> {
    let checks = report["checks"].as_array().unwrap().iter();
    checks.filter(|check| check["verdict"] == verdict).map(|check| check["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_honest_fleet_passes_every_check() {
    let (code, report) = audit(Conduct::Honest, &["--samples", "100"]).await;
    assert_eq!((code, &report["verdict"]), (PASSED, &"passed".into()), "{report:#}");
    assert_eq!(named(&report, "passed"), ["greedy", "seeded", "law", "noise", "honesty"]);
    assert_eq!(named(&report, "noted"), ["honesty"], "a version that claims nothing is in nobody's way");
    let numbers = |index: usize| &report["checks"][index]["numbers"];
    assert_eq!((&numbers(0)["answers"], &numbers(0)["tokens"]), (&12.0.into(), &576.0.into()));
    assert_eq!(numbers(1)["answers"], 24.0);
    assert_eq!((&numbers(2)["cases"], &numbers(2)["first_answers"]), (&6.0.into(), &600.0.into()));
    assert!(numbers(2)["degrees_of_freedom"].as_f64().unwrap() > 30.0, "{report:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_way_to_cheat_fails_its_own_check() {
    for (conduct, check) in [
        (Conduct::OtherGreedyToken, "greedy"),
        (Conduct::OtherSeededToken, "seeded"),
        (Conduct::OtherLaw, "law"),
        (Conduct::OtherNoise, "noise"),
        (Conduct::Quarantine, "honesty"),
    ] {
        let (code, report) = audit(conduct, QUICK).await;
        assert_eq!(named(&report, "failed"), [check], "{conduct:?}: {report:#}");
        assert_eq!((code, &report["verdict"]), (FAILED, &"failed".into()), "{conduct:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_speculation_there_is_no_verdict() {
    let (code, report) = audit(Conduct::NoSpeculation, QUICK).await;
    assert_eq!((code, &report["verdict"]), (NOT_JUDGED, &"not_judged".into()), "{report:#}");
    assert_eq!(named(&report, "not_judged"), ["greedy", "seeded", "law"]);
    assert!(report["checks"][0]["why"].as_str().unwrap().contains("load 188"), "{report:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_draft_there_is_no_verdict_either() {
    let fake = Fake::start_without_draft().await;
    let ran = run(&fake, &["audit"]).await;
    assert_eq!(ran.code, NOT_JUDGED, "{}", ran.stderr);
    assert!(ran.stdout.contains("no draft is ready: http://draft-b:50052 is unreachable"), "{}", ran.stdout);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_few_answers_there_is_no_verdict_on_the_law() {
    let (code, report) = audit(Conduct::Honest, &["--samples", "20", "--compare", "4"]).await;
    assert_eq!((code, named(&report, "not_judged")), (NOT_JUDGED, vec!["law".to_owned(), "noise".to_owned()]));
}

#[tokio::test(flavor = "multi_thread")]
async fn with_no_time_there_is_no_verdict_at_all() {
    let (code, report) = audit(Conduct::Honest, &["--time-limit", "0s"]).await;
    assert_eq!(code, NOT_JUDGED);
    assert_eq!(named(&report, "not_judged"), ["greedy", "seeded", "law", "noise"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_near_tie_is_noted_where_equal_bits_are_not_promised() {
    let (code, report) = audit(Conduct::NearTie, QUICK).await;
    assert_eq!((code, &named(&report, "noted")[0]), (PASSED, &"greedy".to_owned()), "{report:#}");
    assert!(report["checks"][0]["why"].as_str().unwrap().contains("does not promise equal bits"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_verdict_and_its_reasons_can_be_read() {
    let fake = Fake::start_writing(Conduct::OtherGreedyToken).await;
    let ran = run(&fake, &["audit", "--seed", "5", "--samples", "40", "--compare", "4"]).await;
    assert_eq!(ran.code, FAILED);
    for part in ["| greedy ", "FAILED: greedy;", "token 8 is id 99 with speculation and id ", "target  big-target"] {
        assert!(ran.stdout.contains(part), "{part:?} is missing in\n{}", ran.stdout);
    }
    assert!(ran.stderr.contains("laws: 40 answers a case"), "{}", ran.stderr);
}
