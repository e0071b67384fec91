use serde_json::json;

use super::*;
use crate::acceptance::Acceptance;
use crate::bench::cell;
use crate::bench::predict::Prediction;
use crate::bench::report::Settings;
use crate::fleet::Fleet;

fn comparison(plain: f64, ratio: f64) -> cell::Comparison {
    cell::Comparison {
        plain_tokens_per_second: plain,
        speculative_tokens_per_second: plain * ratio,
        ratio,
        ratio_quartiles: Some(Quartiles { lower: ratio - 0.1, median: ratio, upper: ratio + 0.1 }),
    }
}

fn times(total_ms: f64, draft_ms: f64, network_ms: f64) -> RoundTimes {
    RoundTimes { total_ms, verify_ms: 9.0, draft_ms, network_ms, other_ms: 0.75, other_percent: 75.0 / total_ms }
}

fn cell(streams: u32) -> Cell {
    let acceptance = Acceptance {
        speculative_rounds: 1000,
        plain_steps: 30,
        plain_reasons: [("budget".to_owned(), 24), ("late".to_owned(), 6)].into(),
        proposed: 3000,
        accepted: 768,
        tested_per_position: vec![1000, 460, 212],
        accepted_per_position: vec![460, 212, 96],
        ..Acceptance::default()
    };
    let (plain_step, round) = (times(10.0, 0.0, 0.0), times(12.5, 2.5, 0.25));
    Cell {
        streams,
        temperature: 0.8,
        pairs: 28,
        plain_tokens: 2600,
        speculative_tokens: 2610,
        stream: comparison(100.0, 1.36),
        all_streams: comparison(95.0 * f64::from(streams), 1.25),
        plain_step: Some(plain_step),
        round: Some(round),
        tokens_per_round: 1.76,
        accepted_per_round: acceptance.accepted_per_round(),
        mean_draft_length: acceptance.mean_draft_length(),
        acceptance_by_position: acceptance.by_position(),
        prediction: Prediction::of(&acceptance, Some(&round), Some(&plain_step), 1.36),
        acceptance,
    }
}

#[test]
fn the_report_as_a_person_sees_it() {
    let identity = |label: &str| {
        json!({
            "label": label, "version_id": "0123456789abcdef", "dtype": "bf16", "device": "cpu", "compute_threads": 2,
        })
    };
    let nothing = Cell { prediction: None, round: None, plain_step: None, ..cell(16) };
    let report = Report {
        fleet: Fleet {
            specctl: "0.1.0",
            endpoint: "http://127.0.0.1:50051".to_owned(),
            target: identity("big-target"),
            drafts: vec![identity("small-draft")],
        },
        settings: Settings {
            prompts: 28,
            passes: 1,
            max_tokens: 96,
            streams: vec![1, 16],
            temperatures: vec![0.8],
            draft_length: None,
            rule: "standard",
        },
        cells: vec![cell(1), nothing],
        weights: Some(Weights::Compared(Comparison {
            threads: 2,
            read_loop_gb_per_second: 50.0,
            step_weight_bytes: 270_000_000,
            step_ms: 10.0,
            forward_ms: 9.0,
            step_gb_per_second: 27.0,
            forward_gb_per_second: 30.0,
            step_percent: 54.0,
            forward_percent: 60.0,
        })),
    };
    insta::assert_snapshot!(render(&report));
}

#[test]
fn a_comparison_that_says_nothing_says_why() {
    let skipped = Weights::Skipped { why: "the verifier runs on another machine".to_owned() };
    assert_eq!(
        weights_text(&skipped),
        "Weights: not compared with a read loop, because the verifier runs on another machine.\n"
    );
}
