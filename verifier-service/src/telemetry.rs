//! Names, labels and units of everything this service measures.
//!
//! Counters, not ratios: a ratio cannot be added over processes or cut to a window. No label holds anything that a user
//! sent; version labels hold ids of drafts that the operator configured.

use std::{sync::Arc, time::Duration};

use opentelemetry::{
    KeyValue,
    metrics::{AsyncInstrument, Counter, Gauge, Histogram, Meter},
};
use specfleet_grammar::Occupancy;
use specfleet_protocol::v1::{DraftState, DraftTrust, DraftVersion};
use specfleet_service::telemetry::SECONDS_BUCKETS;
use specfleet_speculation::round::{Origin, RoundOutcome};

use crate::{
    drafting::{PlainReason, Pool, Standing},
    error::Error,
    report::count_of,
};

/// What the service calls itself in traces and logs.
pub const SERVICE_NAME: &str = "specfleet-verifier";

const REQUESTS: &str = "specfleet_verifier_requests";
const ROUNDS: &str = "specfleet_verifier_rounds";
const PLAIN_STEPS: &str = "specfleet_verifier_plain_steps";
const DROPPED_PROPOSALS: &str = "specfleet_verifier_dropped_proposals";
const DRAFT_TOKENS_PROPOSED: &str = "specfleet_verifier_draft_tokens_proposed";
const DRAFT_TOKENS_TESTED: &str = "specfleet_verifier_draft_tokens_tested";
const DRAFT_TOKENS_ACCEPTED: &str = "specfleet_verifier_draft_tokens_accepted";
const POSITIONS_TESTED: &str = "specfleet_verifier_positions_tested";
const POSITIONS_ACCEPTED: &str = "specfleet_verifier_positions_accepted";
const CORRECTED_TOKENS: &str = "specfleet_verifier_corrected_tokens";
const BONUS_TOKENS: &str = "specfleet_verifier_bonus_tokens";
const COMMITTED_TOKENS: &str = "specfleet_verifier_committed_tokens";
const PREEMPTIONS: &str = "specfleet_verifier_preemptions";
const STEP_SECONDS: &str = "specfleet_verifier_step_seconds";
const FORWARD_SECONDS: &str = "specfleet_verifier_forward_seconds";
const DRAFT_WAIT_SECONDS: &str = "specfleet_verifier_draft_wait_seconds";
const QUEUE_SECONDS: &str = "specfleet_verifier_queue_seconds";
const TIME_TO_FIRST_TOKEN_SECONDS: &str = "specfleet_verifier_time_to_first_token_seconds";
const RUNNING_REQUESTS: &str = "specfleet_verifier_running_requests";
const WAITING_REQUESTS: &str = "specfleet_verifier_waiting_requests";
const KV_BLOCKS_USED: &str = "specfleet_verifier_kv_blocks_used";
const KV_BLOCKS: &str = "specfleet_verifier_kv_blocks";
const GRAMMARS: &str = "specfleet_verifier_grammars";
const GRAMMARS_REFUSED: &str = "specfleet_verifier_grammars_refused";
const DRAFTS: &str = "specfleet_verifier_drafts";
const DRAFT_POSITIONS_AUDITED: &str = "specfleet_verifier_draft_positions_audited";
const DRAFT_POSITIONS_AUDITED_ACCEPTED: &str = "specfleet_verifier_draft_positions_audited_accepted";
const DRAFT_POSITIONS_AUDITED_EXPECTED: &str = "specfleet_verifier_draft_positions_audited_expected";
const DRAFT_HONESTY_EVIDENCE: &str = "specfleet_verifier_draft_honesty_evidence";
const DRAFT_HONESTY_THRESHOLD: &str = "specfleet_verifier_draft_honesty_threshold";
const DRAFT_QUARANTINED: &str = "specfleet_verifier_draft_quarantined";
const DRAFT_ACCEPTANCE_FELL: &str = "specfleet_verifier_draft_acceptance_fell";

const HTTP_DURATION: &str = "http.server.request.duration";

const LABEL_OUTCOME: &str = "outcome";
const LABEL_REASON: &str = "reason";
const LABEL_VERSION: &str = "version";
const LABEL_POSITION: &str = "position";
const LABEL_STATE: &str = "state";
const LABEL_TEST: &str = "test";
// By the conventions for HTTP servers.
const LABEL_HTTP_METHOD: &str = "http.request.method";
const LABEL_HTTP_ROUTE: &str = "http.route";
const LABEL_HTTP_STATUS: &str = "http.response.status_code";

/// Shows, whenever metrics are read, how many drafts are in each state, and which versions need a look. With no draft ready
/// the service is degraded: requests are served at the speed of plain decoding.
pub(crate) fn observe_drafts(meter: &Meter, pool: &Arc<Pool>) {
    const STATES: [(DraftState, &str); 3] = [
        (DraftState::Ready, "ready"),
        (DraftState::Unreachable, "unreachable"),
        (DraftState::Incompatible, "incompatible"),
    ];
    observe_versions(
        meter,
        pool,
        (DRAFT_QUARANTINED, "1 for a draft version that does not draw from the q it reports, 0 for others."),
        |version| version.trust() == DraftTrust::Quarantined,
    );
    observe_versions(
        meter,
        pool,
        (DRAFT_ACCEPTANCE_FELL, "1 for a draft version of which far fewer tokens pass than used to, 0 for others."),
        |version| version.acceptance.is_some_and(|acceptance| acceptance.has_fallen),
    );
    // The meter outlives the service.
    let pool = Arc::downgrade(pool);
    let observe = move |gauge: &dyn AsyncInstrument<u64>| {
        let Some(pool) = pool.upgrade() else { return };
        let statuses = pool.statuses();
        for (state, name) in STATES {
            let n_drafts = statuses.iter().filter(|draft| draft.state() == state).count();
            gauge.observe(n_drafts as u64, &[KeyValue::new(LABEL_STATE, name)]);
        }
    };
    meter.u64_observable_gauge(DRAFTS).with_description("Configured drafts, by state.").with_callback(observe).build();
}

/// Shows, whenever metrics are read, how much of the room for output of a given form is taken, and how often it was too
/// little. `occupancy` says nothing once the service is gone, which the meter outlives.
pub(crate) fn observe_grammars(
    meter: &Meter,
    occupancy: impl Fn() -> Option<Occupancy> + Clone + Send + Sync + 'static,
) {
    let places = occupancy.clone();
    (meter.u64_observable_gauge(GRAMMARS))
        .with_description("Outputs of a given form that hold memory for it, of --max-grammars.")
        .with_callback(move |gauge| places().iter().for_each(|places| gauge.observe(places.n_taken as u64, &[])))
        .build();
    (meter.u64_observable_counter(GRAMMARS_REFUSED))
        .with_description("Requests refused because the memory for output of a given form was taken.")
        .with_callback(move |counter| occupancy().iter().for_each(|places| counter.observe(places.n_refused, &[])))
        .build();
}

/// Shows for every draft version that has been used whether `is_so`, from its first use on: an alarm that waits for a 1 must
/// be able to see the 0.
fn observe_versions(
    meter: &Meter,
    pool: &Arc<Pool>,
    (name, what): (&'static str, &'static str),
    is_so: impl Fn(&DraftVersion) -> bool + Send + Sync + 'static,
) {
    let pool = Arc::downgrade(pool);
    let observe = move |gauge: &dyn AsyncInstrument<u64>| {
        for version in pool.upgrade().iter().flat_map(|pool| pool.versions()) {
            gauge.observe(is_so(&version).into(), &[KeyValue::new(LABEL_VERSION, version.version_id)]);
        }
    };
    meter.u64_observable_gauge(name).with_description(what).with_callback(observe).build();
}

/// The instruments. Recording is a few atomic operations, cheap enough for every round.
#[derive(Debug)]
pub(crate) struct Metrics {
    requests: Counter<u64>,
    rounds: Counter<u64>,
    plain_steps: Counter<u64>,
    dropped_proposals: Counter<u64>,
    proposed: Counter<u64>,
    tested: Counter<u64>,
    accepted: Counter<u64>,
    positions_tested: Counter<u64>,
    positions_accepted: Counter<u64>,
    corrected: Counter<u64>,
    bonus: Counter<u64>,
    committed: Counter<u64>,
    preemptions: Counter<u64>,
    audited: Counter<u64>,
    audited_accepted: Counter<u64>,
    audited_expected: Counter<f64>,
    honesty_evidence: Gauge<f64>,
    honesty_threshold: Gauge<f64>,
    step_seconds: Histogram<f64>,
    forward_seconds: Histogram<f64>,
    draft_wait_seconds: Histogram<f64>,
    queue_seconds: Histogram<f64>,
    time_to_first_token_seconds: Histogram<f64>,
    running: Gauge<u64>,
    waiting: Gauge<u64>,
    kv_blocks_used: Gauge<u64>,
    kv_blocks: Gauge<u64>,
}

/// Where the engine stands when a pass begins, or when nobody runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) n_running: usize,
    pub(crate) n_waiting: usize,
    pub(crate) n_kv_blocks_used: usize,
    pub(crate) n_kv_blocks: usize,
}

impl Metrics {
    pub(crate) fn new(meter: &Meter) -> Self {
        let counter = |name: &'static str, what: &'static str| meter.u64_counter(name).with_description(what).build();
        let gauge = |name: &'static str, what: &'static str| meter.u64_gauge(name).with_description(what).build();
        let seconds = |name: &'static str, what: &'static str| {
            let buckets = SECONDS_BUCKETS.to_vec();
            meter.f64_histogram(name).with_description(what).with_boundaries(buckets).build()
        };
        Self {
            requests: counter(REQUESTS, "Requests ended, by outcome; each continuation of a prompt counts."),
            rounds: counter(ROUNDS, "Rounds after the first token of a request, with or without a proposal."),
            plain_steps: counter(PLAIN_STEPS, "Rounds without a proposal, by reason."),
            dropped_proposals: counter(DROPPED_PROPOSALS, "Proposals thrown away untested, by reason."),
            proposed: counter(DRAFT_TOKENS_PROPOSED, "Draft tokens in tested proposals, by draft version."),
            tested: counter(DRAFT_TOKENS_TESTED, "Draft tokens put to the accept test, by draft version."),
            accepted: counter(DRAFT_TOKENS_ACCEPTED, "Draft tokens accepted, by draft version."),
            positions_tested: counter(POSITIONS_TESTED, "Accept tests, by position in the proposal."),
            positions_accepted: counter(POSITIONS_ACCEPTED, "Accept tests passed, by position in the proposal."),
            corrected: counter(CORRECTED_TOKENS, "Tokens drawn from the residual after a rejection."),
            bonus: counter(BONUS_TOKENS, "Tokens drawn after a proposal was accepted whole."),
            committed: counter(COMMITTED_TOKENS, "Tokens committed."),
            preemptions: counter(PREEMPTIONS, "Sequences that gave up their KV memory to older ones."),
            audited: counter(
                DRAFT_POSITIONS_AUDITED,
                "Accept tests that were checked against the reported q, by draft version.",
            ),
            audited_accepted: counter(DRAFT_POSITIONS_AUDITED_ACCEPTED, "How many of them passed, by draft version."),
            audited_expected: (meter.f64_counter(DRAFT_POSITIONS_AUDITED_EXPECTED))
                .with_description("How many of them should have passed if the reported q is true, by draft version.")
                .build(),
            honesty_evidence: (meter.f64_gauge(DRAFT_HONESTY_EVIDENCE))
                .with_description(
                    "The most evidence so far that a draft version does not draw from the q it reports, by test.",
                )
                .build(),
            honesty_threshold: (meter.f64_gauge(DRAFT_HONESTY_THRESHOLD))
                .with_description("The evidence at which a draft version is quarantined.")
                .build(),
            step_seconds: seconds(STEP_SECONDS, "A step: forward pass, decisions, output."),
            forward_seconds: seconds(FORWARD_SECONDS, "The forward pass of a step."),
            draft_wait_seconds: seconds(
                DRAFT_WAIT_SECONDS,
                "From asking for a proposal to having it, where it was used.",
            ),
            queue_seconds: seconds(QUEUE_SECONDS, "From a request's arrival to its admission."),
            time_to_first_token_seconds: seconds(
                TIME_TO_FIRST_TOKEN_SECONDS,
                "From a request's arrival to its first token.",
            ),
            running: gauge(RUNNING_REQUESTS, "Requests that hold KV memory."),
            waiting: gauge(WAITING_REQUESTS, "Requests that wait for admission."),
            kv_blocks_used: gauge(KV_BLOCKS_USED, "KV blocks held by running requests."),
            kv_blocks: gauge(KV_BLOCKS, "KV blocks that there are."),
        }
    }

    pub(crate) fn request_finished(&self) {
        self.requests.add(1, &[KeyValue::new(LABEL_OUTCOME, "finished")]);
    }

    pub(crate) fn request_cancelled(&self) {
        self.requests.add(1, &[KeyValue::new(LABEL_OUTCOME, "cancelled")]);
    }

    pub(crate) fn request_failed(&self, error: &Error) {
        self.requests.add(1, &[KeyValue::new(LABEL_OUTCOME, error.outcome())]);
    }

    pub(crate) fn admitted(&self, queued_for: Duration) {
        self.queue_seconds.record(queued_for.as_secs_f64(), &[]);
    }

    pub(crate) fn first_token(&self, after: Duration) {
        self.committed.add(1, &[]);
        self.time_to_first_token_seconds.record(after.as_secs_f64(), &[]);
    }

    pub(crate) fn preempted(&self) {
        self.preemptions.add(1, &[]);
    }

    pub(crate) fn proposal_dropped(&self, reason: PlainReason) {
        self.dropped_proposals.add(1, &[KeyValue::new(LABEL_REASON, reason.as_str())]);
    }

    pub(crate) fn plain_round(&self, reason: PlainReason, outcome: &RoundOutcome) {
        self.rounds.add(1, &[]);
        self.committed.add(outcome.committed.len() as u64, &[]);
        self.plain_steps.add(1, &[KeyValue::new(LABEL_REASON, reason.as_str())]);
    }

    pub(crate) fn tested_round(&self, version: &Arc<str>, n_proposed: usize, waited: Duration, outcome: &RoundOutcome) {
        self.rounds.add(1, &[]);
        self.committed.add(outcome.committed.len() as u64, &[]);
        self.draft_wait_seconds.record(waited.as_secs_f64(), &[]);
        let of_version = [KeyValue::new(LABEL_VERSION, version.clone())];
        self.proposed.add(n_proposed as u64, &of_version);
        self.tested.add(outcome.n_tested as u64, &of_version);
        self.accepted.add(outcome.n_accepted as u64, &of_version);
        self.corrected.add(count_of(outcome, Origin::Corrected).into(), &[]);
        self.bonus.add(count_of(outcome, Origin::Bonus).into(), &[]);
        for position in 0..outcome.n_tested {
            let at_position = [KeyValue::new(LABEL_POSITION, position as i64)];
            self.positions_tested.add(1, &at_position);
            self.positions_accepted.add(u64::from(position < outcome.n_accepted), &at_position);
        }
    }

    pub(crate) fn audited(&self, version: &Arc<str>, standing: Standing) {
        let of_version = [KeyValue::new(LABEL_VERSION, version.clone())];
        let Standing { before, figures } = standing;
        self.audited.add(figures.positions - before.positions, &of_version);
        self.audited_accepted.add(figures.accepted - before.accepted, &of_version);
        self.audited_expected.add(figures.expected_accepted - before.expected_accepted, &of_version);
        for (test, evidence) in [("acceptance", figures.acceptance_evidence), ("rank", figures.rank_evidence)] {
            let labels = [of_version[0].clone(), KeyValue::new(LABEL_TEST, test)];
            self.honesty_evidence.record(evidence, &labels);
        }
        self.honesty_threshold.record(figures.threshold, &[]);
    }

    pub(crate) fn step(&self, forward: Duration, whole: Duration) {
        self.forward_seconds.record(forward.as_secs_f64(), &[]);
        self.step_seconds.record(whole.as_secs_f64(), &[]);
    }

    pub(crate) fn load(&self, load: Load) {
        self.kv_blocks_used.record(load.n_kv_blocks_used as u64, &[]);
        self.kv_blocks.record(load.n_kv_blocks as u64, &[]);
        self.waiting.record(load.n_waiting as u64, &[]);
        // Last: who sees that nothing runs must not see memory in use.
        self.running.record(load.n_running as u64, &[]);
    }
}

/// What the HTTP face measures, which it does before there is an engine.
#[derive(Clone, Debug)]
pub(crate) struct HttpMetrics {
    duration: Histogram<f64>,
}

impl HttpMetrics {
    pub(crate) fn new(meter: &Meter) -> Self {
        let duration = meter
            .f64_histogram(HTTP_DURATION)
            .with_unit("s")
            .with_description("Duration of HTTP calls, streams to their end")
            .with_boundaries(SECONDS_BUCKETS.to_vec());
        Self { duration: duration.build() }
    }

    /// A call has ended. Method and route must be names of ours, not the caller's.
    pub(crate) fn call(&self, method: &'static str, route: String, status: u16, took: Duration) {
        let labels = [
            KeyValue::new(LABEL_HTTP_METHOD, method),
            KeyValue::new(LABEL_HTTP_ROUTE, route),
            KeyValue::new(LABEL_HTTP_STATUS, i64::from(status)),
        ];
        self.duration.record(took.as_secs_f64(), &labels);
    }
}
