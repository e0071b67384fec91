//! What do two processes cost against one?
//!
//! The same requests go to a pair of processes over loopback and to the same pair in one process over pipes, in turns.
//! The verifier's own clock says how long each took to decode, so that the client's end does not count.

use futures::StreamExt;
use specfleet_client::{
    Client, Event, request,
    v1::{Finished, SamplingParams},
};
use specfleet_tests::{binaries, in_process};

/// The most that a second process may cost.
const LIMIT: f64 = 0.05;

/// The most that a short run may show: it cannot tell cost from noise.
const SHORT_LIMIT: f64 = 0.25;

const PROMPTS: [&str; 4] = [
    "Explain how a bicycle stays upright.",
    "Write a short story about a clock that runs backwards.",
    "List five uses for an old newspaper.",
    "Write a function in Python that counts vowels.",
];

async fn decode(client: &Client, prompt: &str) -> Finished {
    let mut request = request::chat(prompt);
    request.max_tokens = Some(96);
    request.ignore_eos = true;
    request.sampling = Some(SamplingParams { temperature: Some(0.0), ..SamplingParams::default() });
    let mut generation = client.generate(request).await.unwrap();
    while let Some(event) = generation.next().await {
        if let Event::Finished(finished) = event.unwrap() {
            return finished;
        }
    }
    panic!("the request did not finish");
}

fn milliseconds_per_round(finished: &Finished) -> f64 {
    let timings = finished.timings.unwrap();
    timings.decode_micros as f64 / 1e3 / f64::from(timings.decode_steps)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_process_costs_little() {
    let long = std::env::var_os("SPECFLEET_TEST_LONG").is_some();
    let processes = binaries::Pair::start();
    let over_loopback = Client::connect(&format!("http://{}", processes.verifier.address)).await.unwrap();
    let in_memory = in_process::Pair::from_environment(in_process::Settings::default()).await;

    // Ratios of neighbours in time: the machine's speed drifts.
    let mut ratios = Vec::new();
    for pass in 0..if long { 10 } else { 2 } {
        for prompt in PROMPTS {
            let (first, second) = match pass % 2 {
                0 => (decode(&over_loopback, prompt).await, decode(&in_memory.client, prompt).await),
                _ => {
                    let second = decode(&in_memory.client, prompt).await;
                    (decode(&over_loopback, prompt).await, second)
                }
            };
            let (first, second) = (milliseconds_per_round(&first), milliseconds_per_round(&second));
            println!("pass {pass}: {first:.2} ms a round over loopback, {second:.2} in one process");
            ratios.push(first / second);
        }
    }
    let cost = median(ratios) - 1.0;
    println!("two processes cost {:.1}% of a round", cost * 100.0);
    let limit = if long { LIMIT } else { SHORT_LIMIT };
    assert!(cost < limit, "two processes cost {:.1}%, allowed are {:.0}%", cost * 100.0, limit * 100.0);
}
