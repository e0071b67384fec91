//! An operator asks the running pair whether speculation shows.

use std::time::Duration;

use serde_json::Value;
use specfleet_client::{Client, v1::DraftState};
use specfleet_model::load::{Dtype, Operators};
use specfleet_service::{GrpcServer, Metrics, Readiness, Shutdown};
use specfleet_speculation::{
    TokenId,
    accept::{Judge, Standard, Verdict},
    distribution::DraftDistribution,
    law::Law,
    propose::Rule,
    random::VerifyRandom,
    round::{self, Round, RoundOutcome},
    transform::{Error, Shaped},
};
use specfleet_tests::{
    binaries::{Pair, finish, json_lines, program},
    in_process::Draft,
    real_models, scripted_pair,
};
use specfleet_verifier_service::{
    Service,
    controls::{Control, Undecided},
};
use tokio::net::TcpListener;

/// Short answers of each case, each way, and the prompts that are compared token for token.
const SHORT: [&str; 6] = ["--samples", "40", "--compare", "4", "--max-tokens", "32"];

fn verdict(report: &Value, name: &str) -> String {
    let checks = report["checks"].as_array().expect("a list of checks");
    let check = checks.iter().find(|check| check["name"] == name);
    check.unwrap_or_else(|| panic!("no check {name} in {report:#}"))["verdict"].as_str().expect("a word").to_owned()
}

#[test]
fn the_real_pair_passes_its_audit() {
    let pair = Pair::start();
    let form = if real_models::long_form() { &[][..] } else { &SHORT };
    let (succeeded, output, error) = finish(pair.specctl(&["audit", "--json"]).args(form));
    let [report] = &json_lines(&output)[..] else { panic!("{output}{error}") };
    eprintln!("{report:#}");
    assert!(succeeded, "{report:#}");
    for name in ["law", "noise", "honesty"] {
        assert_eq!(verdict(report, name), "passed", "{report:#}");
    }
    let equal = if pair.promises_equal_bits() { &["passed"][..] } else { &["passed", "noted"] };
    for name in ["greedy", "seeded"] {
        assert!(equal.contains(&verdict(report, name).as_str()), "{report:#}");
    }
    assert!(report["seconds"].as_f64().expect("a number") < 120.0, "{report:#}");
}

#[test]
fn a_pair_without_its_draft_cannot_be_judged() {
    let mut pair = Pair::start();
    pair.draft.kill();
    pair.wait_for_draft("unreachable");
    let output = pair.specctl(&["audit"]).output().unwrap();
    assert_eq!(output.status.code(), Some(4), "could not judge: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("NOT JUDGED") && text.contains("no draft is ready"), "{text}");
}

/// Takes every draft token that the target finds likely enough: the text reads well, and is not the target's.
struct TakesTheLikely<'a>(&'a VerifyRandom);

impl Judge<Shaped, DraftDistribution> for TakesTheLikely<'_> {
    fn judge(&mut self, position: u64, token: TokenId, _: &DraftDistribution, target: &Shaped) -> Verdict {
        match target.weight(token) >= 0.05 * target.total() {
            true => Verdict::Accepted,
            false => Verdict::Corrected(self.choose(position, target)),
        }
    }

    fn choose(&mut self, position: u64, target: &Shaped) -> TokenId {
        Judge::<Shaped, DraftDistribution>::choose(&mut Standard(self.0), position, target)
    }
}

/// Requests with a seed are served as they should be.
fn take_the_likely(round: Undecided<'_>) -> Result<RoundOutcome, Error> {
    let shape = |index: usize, before: &[TokenId]| round.shape(index, round.transforms, before);
    match round.input.rule {
        Rule::Standard => Round::of(&round.input).decide(&mut TakesTheLikely(&round.input.randomness.numbers), shape),
        Rule::DraftInvariant => round::decide(round.input, shape),
    }
}

/// The same models, in a verifier that is wrong.
#[tokio::test(flavor = "multi_thread")]
async fn a_verifier_with_a_wrong_rule_fails_its_audit() {
    let _turn = real_models::turn().await;
    let settings = scripted_pair::settings();
    let draft = Draft::start(real_models::draft(), settings.draft);
    let Some(target) = real_models::target(Dtype::default(), Operators::default(), 16_384) else { return };
    let metrics = Metrics::local().unwrap();
    let drafts = vec![("draft".to_owned(), draft.channel())];
    let control = Control::Decides(Box::new(take_the_likely));
    let service = Service::start_with_control(target, drafts, settings.verifier, &metrics.meter(), control).unwrap();

    let (readiness, shutdown) = (Readiness::new(), Shutdown::new(Duration::ZERO));
    readiness.set_ready();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let server = GrpcServer::new(readiness, shutdown.clone(), &metrics).add_service(service.grpc());
    let server = tokio::spawn(server.serve(listener));
    let client = Client::connect(&endpoint).await.unwrap();
    while client.identity().await.unwrap().drafts[0].state() != DraftState::Ready {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    let mut specctl = program("specctl");
    // With these settings drafts never rest, so that more answers can run at a time.
    let form = ["--samples", "50", "--compare", "4", "--max-tokens", "16", "--streams", "8"];
    specctl.args(["--endpoint", &endpoint, "audit", "--json"]).args(form);
    let output = tokio::task::spawn_blocking(move || specctl.output().unwrap()).await.unwrap();
    let [report] = &json_lines(std::str::from_utf8(&output.stdout).unwrap())[..] else { panic!("{output:?}") };
    assert_eq!((output.status.code(), verdict(report, "law").as_str()), (Some(3), "failed"), "{report:#}");
    eprintln!("{report:#}");
    for name in ["seeded", "noise"] {
        assert_ne!(verdict(report, name), "failed", "only text without a seed is wrong: {report:#}");
    }
    shutdown.begin();
    server.await.unwrap().unwrap();
}
