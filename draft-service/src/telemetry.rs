//! Every name, unit and label value that the draft-service reports under. Dashboards and alert rules depend on them, so
//! they change here and nowhere else.
//!
//! All are counters, histograms of seconds and current values; rates and ratios are for whoever reads them. No label holds
//! anything that a peer wrote.

use std::time::Duration;

use opentelemetry::{
    KeyValue,
    metrics::{Counter, Gauge, Histogram, Meter, UpDownCounter},
};
use specfleet_protocol::status::Reason;

use crate::engine::draft::Answered;

/// The service's name in traces, metrics and logs.
pub const SERVICE_NAME: &str = "specfleet-draft-service";

/// Proposals sent, empty ones included.
pub const PROPOSALS: &str = "specfleet_draft_proposals";
/// Tokens in them.
pub const TOKENS_PROPOSED: &str = "specfleet_draft_tokens_proposed";
/// Proposals that had no token: nothing to propose, the context's end, or no time.
pub const EMPTY_PROPOSALS: &str = "specfleet_draft_empty_proposals";
/// From the arrival of an advance to its first forward pass.
pub const QUEUE: &str = "specfleet_draft_queue";
/// In forward passes and draws, for each proposal.
pub const COMPUTE: &str = "specfleet_draft_compute";
/// One step of the engine, all its sessions together.
pub const STEP: &str = "specfleet_draft_step";
/// Sessions that had rows in a step, summed over steps: divided by the number of steps it is the mean batch.
pub const STEP_SESSIONS: &str = "specfleet_draft_step_sessions";
/// Sessions open now.
pub const SESSIONS_OPEN: &str = "specfleet_draft_sessions_open";
/// Tokens that sessions have room for in memory now. What is only kept for reuse does not count.
pub const MEMORY: &str = "specfleet_draft_memory_tokens";
/// Sessions opened since the start.
pub const SESSIONS_OPENED: &str = "specfleet_draft_sessions_opened";
/// Sessions closed to make room for others.
pub const EVICTIONS: &str = "specfleet_draft_evictions";
/// Sessions with a grammar that are drafted for as if they had none: there are too many, or it cannot be used.
pub const WITHOUT_GRAMMAR: &str = "specfleet_draft_sessions_without_grammar";
/// Drafts dropped because nobody waited for them any more.
pub const ABANDONED: &str = "specfleet_draft_abandoned";
/// Drafts ended before their length because their time budget was used up.
pub const OUT_OF_TIME: &str = "specfleet_draft_out_of_time";
/// Calls and streams that ended with an error, by [`REASON`].
pub const REFUSALS: &str = "specfleet_draft_refusals";

/// Label of [`REFUSALS`]: an `ErrorInfo` reason, or [`REASON_TRANSPORT`].
pub const REASON: &str = "reason";
/// The stream broke, or the client reset it.
pub const REASON_TRANSPORT: &str = "TRANSPORT";

const SECONDS: &str = "s";

/// Bounds in seconds: a draft token takes from a fraction of a millisecond, a long prefix up to seconds.
const SECONDS_BUCKETS: [f64; 14] =
    [0.0002, 0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0, 5.0];

/// The instruments.
#[derive(Debug)]
pub(crate) struct Metrics {
    proposals: Counter<u64>,
    tokens_proposed: Counter<u64>,
    empty_proposals: Counter<u64>,
    queue: Histogram<f64>,
    compute: Histogram<f64>,
    step: Histogram<f64>,
    step_sessions: Counter<u64>,
    sessions_open: UpDownCounter<i64>,
    sessions_opened: Counter<u64>,
    memory: Gauge<u64>,
    evictions: Counter<u64>,
    without_grammar: Counter<u64>,
    abandoned: Counter<u64>,
    out_of_time: Counter<u64>,
    refusals: Counter<u64>,
}

impl Metrics {
    pub(crate) fn new(meter: &Meter) -> Self {
        let counter = |name: &'static str| meter.u64_counter(name).build();
        Self {
            proposals: counter(PROPOSALS),
            tokens_proposed: counter(TOKENS_PROPOSED),
            empty_proposals: counter(EMPTY_PROPOSALS),
            queue: seconds(meter, QUEUE),
            compute: seconds(meter, COMPUTE),
            step: seconds(meter, STEP),
            step_sessions: counter(STEP_SESSIONS),
            sessions_open: meter.i64_up_down_counter(SESSIONS_OPEN).build(),
            sessions_opened: counter(SESSIONS_OPENED),
            memory: meter.u64_gauge(MEMORY).build(),
            evictions: counter(EVICTIONS),
            without_grammar: counter(WITHOUT_GRAMMAR),
            abandoned: counter(ABANDONED),
            out_of_time: counter(OUT_OF_TIME),
            refusals: counter(REFUSALS),
        }
    }

    pub(crate) fn proposed(&self, answered: Answered) {
        self.proposals.add(1, &[]);
        self.tokens_proposed.add(answered.n_tokens as u64, &[]);
        if answered.n_tokens == 0 {
            self.empty_proposals.add(1, &[]);
        }
        self.queue.record(answered.queue.as_secs_f64(), &[]);
        self.compute.record(answered.compute.as_secs_f64(), &[]);
    }

    pub(crate) fn step(&self, n_sessions: usize, duration: Duration) {
        self.step.record(duration.as_secs_f64(), &[]);
        self.step_sessions.add(n_sessions as u64, &[]);
    }

    pub(crate) fn session_opened(&self) {
        self.sessions_opened.add(1, &[]);
        self.sessions_open.add(1, &[]);
    }

    pub(crate) fn session_closed(&self) {
        self.sessions_open.add(-1, &[]);
    }

    pub(crate) fn memory(&self, n_tokens: usize) {
        self.memory.record(n_tokens as u64, &[]);
    }

    pub(crate) fn session_evicted(&self) {
        self.evictions.add(1, &[]);
    }

    pub(crate) fn session_without_grammar(&self) {
        self.without_grammar.add(1, &[]);
    }

    pub(crate) fn draft_abandoned(&self) {
        self.abandoned.add(1, &[]);
    }

    pub(crate) fn draft_out_of_time(&self) {
        self.out_of_time.add(1, &[]);
    }

    pub(crate) fn refused(&self, reason: Option<Reason>) {
        let reason = reason.map_or(REASON_TRANSPORT, Reason::as_str);
        self.refusals.add(1, &[KeyValue::new(REASON, reason)]);
    }
}

fn seconds(meter: &Meter, name: &'static str) -> Histogram<f64> {
    meter.f64_histogram(name).with_unit(SECONDS).with_boundaries(SECONDS_BUCKETS.to_vec()).build()
}
