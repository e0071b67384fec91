use std::time::Instant;

use specfleet_client::{Event, v1};

use super::*;

/// A request whose first message came after 10 ms and had one token; then `messages` of `tokens` tokens, `millis` apart.
fn request(messages: u32, tokens: usize, millis: u64, report: v1::SpeculationReport) -> Observed {
    let start = Instant::now();
    let mut at = start + Duration::from_millis(10);
    let mut observed = Observed::new(start);
    let committed = |n_tokens: usize| {
        Event::Committed(v1::Committed { tokens: vec![v1::CommittedToken::default(); n_tokens], ..Default::default() })
    };
    observed.see(&committed(1), at);
    for _ in 0..messages {
        at += Duration::from_millis(millis);
        observed.see(&committed(tokens), at);
    }
    let micros = u64::from(messages) * millis * 1000;
    let timings = v1::RequestTimings {
        decode_micros: micros,
        verify_micros: micros / 2,
        draft_micros: micros / 4,
        decode_steps: messages,
        ..v1::RequestTimings::default()
    };
    let finished = v1::Finished { speculation: Some(report), timings: Some(timings), ..v1::Finished::default() };
    observed.see(&Event::Finished(finished), at);
    observed
}

fn plain(messages: u32, millis: u64) -> Batch {
    let request = request(messages, 1, millis, v1::SpeculationReport::default());
    Batch { wall: Duration::from_millis(10 + u64::from(messages) * millis), requests: vec![request] }
}

/// Every round proposes one token and accepts it.
fn speculative(messages: u32, millis: u64) -> Batch {
    let report = v1::SpeculationReport {
        proposed: messages,
        accepted: messages,
        bonus: messages,
        tested_per_position: vec![messages],
        accepted_per_position: vec![messages],
        ..v1::SpeculationReport::default()
    };
    Batch { wall: Duration::from_millis(20), requests: vec![request(messages, 2, millis, report)] }
}

#[test]
fn sums_weigh_pairs_by_their_length_and_quartiles_do_not() {
    let pairs = [
        Pair { plain: plain(10, 10), speculative: speculative(5, 10) },
        Pair { plain: plain(30, 10), speculative: speculative(15, 20) },
    ];
    let cell = Cell::of(1, 0.0, &pairs);
    // 40 tokens in 400 ms; 40 tokens in 50 + 300 ms.
    assert!((cell.stream.plain_tokens_per_second - 100.0).abs() < 1e-9);
    assert!((cell.stream.ratio - 400.0 / 350.0).abs() < 1e-9);
    // The pairs alone: 2 and 1.
    assert_eq!(cell.stream.ratio_quartiles, Some(Quartiles { lower: 1.25, median: 1.5, upper: 1.75 }));
    assert_eq!(cell.tokens_per_round, 2.0);
    assert_eq!(cell.acceptance_by_position, [1.0]);
    assert_eq!((cell.plain_tokens, cell.speculative_tokens), (42, 42));
}

#[test]
fn all_streams_count_every_token_over_the_wall_time_of_the_batch() {
    let two_streams = |mut batch: Batch| {
        batch.requests.extend(batch.requests.clone());
        batch
    };
    let pair = Pair { plain: two_streams(plain(9, 10)), speculative: two_streams(speculative(5, 1)) };
    let cell = Cell::of(2, 0.8, &[pair]);
    // Two times 10 tokens in 100 ms; two times 11 in 20 ms.
    assert!((cell.all_streams.plain_tokens_per_second - 200.0).abs() < 1e-9);
    assert!((cell.all_streams.speculative_tokens_per_second - 1100.0).abs() < 1e-9);
    assert!((cell.all_streams.ratio - 5.5).abs() < 1e-9);
}

#[test]
fn an_answer_of_one_token_says_nothing_about_speed_and_breaks_nothing() {
    let pair = Pair { plain: plain(0, 10), speculative: speculative(0, 10) };
    let cell = Cell::of(1, 0.0, &[pair]);
    assert_eq!(cell.stream.ratio, 0.0);
    assert_eq!(cell.stream.ratio_quartiles, None);
    assert_eq!(cell.prediction, None);
    assert_eq!(cell.round, None);
}
