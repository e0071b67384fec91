//! One step: a forward pass of the target over everybody's rows, and what follows from its logits.
//!
//! A sequence brings one of three kinds of rows, all in the same pass:
//!
//! ```text
//!   prompt chunk   [ c c c c ... c ]      logits of the last row, if it ends the prefix
//!   plain round    [ c ]                  logits of the row
//!   verify round   [ c d d d ]            logits of all rows: row i judges draft token i, the last one gives the bonus
//! ```
//!
//! c are committed tokens, the newest included, d are draft tokens. Afterwards the KV memory is rolled back to the
//! committed prefix without its newest token.
//!
//! What drafts wait for comes first: decide, commit, ask for the next proposals; then the clients' text, while the drafts
//! compute.

use std::time::{Duration, Instant};

use specfleet_model::batch::{ForwardError, Logits, Segment, WantedLogits};
use specfleet_protocol::v1::FinishReason;
use specfleet_speculation::{
    TokenId,
    round::RoundOutcome,
    transform::{self, Vocabulary},
};
use tracing::error;

use super::{
    Engine, Sequence,
    scheduler::{self, Grant, Work},
    scoring::RawRows,
    sequence::Committed,
    speculation::Held,
};
use crate::{
    drafting::PlainReason,
    error::{Error, Violation},
    output::RoundEnd,
    report::TestedProposal,
    telemetry::Metrics,
};

/// What a sequence brings to a pass.
struct Rows {
    work: Work,
    held: Result<Held, PlainReason>,
    tokens: Vec<TokenId>,
    logits: WantedLogits,
    /// Position of the first of the tokens.
    first_position: usize,
    /// Whether a token follows: all that is committed is fed.
    ends_prefix: bool,
}

/// What a pass decided for a sequence.
struct Decided {
    sequence: u64,
    round: Result<DecidedRound, Error>,
}

struct DecidedRound {
    committed: Committed,
    n_proposed: usize,
}

impl Engine {
    /// Runs a pass with those who can run now.
    pub(super) fn step(&mut self) {
        let started = Instant::now();
        self.schedule();
        self.reserve();
        self.record_load();
        let rows: Vec<Option<Rows>> = self.running.iter_mut().map(gather).collect();
        let forward_started = Instant::now();
        let mut logits = match self.forward(&rows) {
            Ok(logits) => logits,
            Err(failure) => return self.fail_pass(&failure),
        };
        let forward = forward_started.elapsed();
        self.pass_cost.observe(rows.iter().flatten().map(|rows| rows.tokens.len()).sum(), forward);

        let decided = self.decide(rows, &mut logits, forward);
        for Decided { sequence, round } in decided {
            self.deliver(sequence, round);
        }
        self.metrics.step(forward, started.elapsed());
    }

    fn schedule(&mut self) {
        let candidates: Vec<_> = self.running.iter().map(Sequence::candidate).collect();
        for Grant { index, work } in scheduler::plan(&candidates, self.options.step_tokens) {
            self.last_turn += 1;
            self.running[index].last_turn = self.last_turn;
            self.running[index].work = Some(work);
        }
    }

    fn forward(&mut self, rows: &[Option<Rows>]) -> Result<Logits, ForwardError> {
        let mut segments: Vec<Segment<'_>> = (self.running.iter_mut().zip(rows))
            .filter_map(|(sequence, rows)| {
                let Rows { tokens, logits, .. } = rows.as_ref()?;
                Some(Segment { kv: &mut sequence.kv, tokens, logits: *logits })
            })
            .collect();
        self.model.forward(&mut segments)
    }

    /// Decides, commits, rolls back, and asks for the next proposals.
    fn decide(&mut self, rows: Vec<Option<Rows>>, logits: &mut Logits, forward: Duration) -> Vec<Decided> {
        let draft_vocab = self.model.description().draft_vocab.clone();
        let vocabulary = draft_vocab.as_deref().map_or(Vocabulary::Full, Vocabulary::Reduced);
        let allowance = self.crowd.of_running(self.running.len(), Instant::now());
        let mut first_row = 0;
        let (mut decided, mut followers) = (Vec::new(), Vec::new());
        for (sequence, rows) in self.running.iter_mut().zip(rows) {
            let Some(mut rows) = rows else {
                sequence.speculation.sat_out(forward);
                continue;
            };
            sequence.work = None;
            sequence.report.forward(forward);
            let n_logits = rows.logits.n_rows(rows.tokens.len());
            let first_of_sequence = first_row;
            first_row += n_logits;
            let scored = sequence.score_prompt(logits, first_of_sequence, n_logits, rows.first_position, vocabulary);
            if let Err(error) = scored {
                let round = Err(Error::ModelFailed(error.to_string()));
                decided.push(Decided { sequence: sequence.id, round });
                continue;
            }
            if !rows.ends_prefix {
                continue;
            }
            // Before anybody looks at a token.
            let is_trusted = rows.held.as_mut().is_ok_and(Held::settle_trust);
            let mut observations = Vec::new();
            let audit = (is_trusted && sequence.request.is_unrepeatable).then_some(&mut observations);
            let proposal = rows.held.as_ref().ok().map(|held| &held.proposal);
            let n_proposed = proposal.map_or(0, |proposal| proposal.len());
            let n_rows = n_proposed + 1;
            let first_of_round = first_row - n_rows;
            let raw = sequence.request.n_top_logprobs.map(|_| RawRows::copy(logits, first_of_round, n_rows));
            let outcome = sequence.decide(proposal, audit, logits, first_of_round, vocabulary, &self.decider);
            if let (Ok(held), false) = (&rows.held, observations.is_empty()) {
                self.metrics.audited(&held.version.metrics_label, held.version.audit(&observations));
            }
            let round = outcome.and_then(|mut outcome| {
                let mut committed = sequence.commit(&self.tokenizer, &mut outcome);
                if let Some(raw) = raw {
                    raw.score(&mut committed.tokens, vocabulary, &sequence.request)?;
                }
                self.model.kv().truncate(&mut sequence.kv, sequence.committed.len() - 1);
                account(sequence, rows.held, &outcome, &self.metrics);
                if committed.end == RoundEnd::Open {
                    sequence.begin_round(&self.pool, &self.listener, allowance, Instant::now());
                }
                Ok(DecidedRound { committed, n_proposed })
            });
            let round = round.map_err(row_failure);
            if (rows.work.n_fed > 1 || !sequence.followers.is_empty()) && round.is_ok() {
                self.model.kv().publish(&sequence.kv, &sequence.committed);
            }
            if round.is_ok() {
                // The prompt is computed: who has waited for it will find it.
                followers.append(&mut sequence.followers);
            }
            decided.push(Decided { sequence: sequence.id, round });
        }
        self.queue_followers(followers);
        decided
    }

    /// Hands the tokens of a round to the client, and ends the request if they are its last.
    fn deliver(&mut self, id: u64, round: Result<DecidedRound, Error>) {
        let Ok(index) = self.running.binary_search_by_key(&id, |sequence| sequence.id) else { return };
        let DecidedRound { committed: Committed { prompt, tokens, end }, n_proposed } = match round {
            Ok(round) => round,
            Err(error) => return self.fail(index, error),
        };
        if let Err(undelivered) = self.running[index].output.committed(prompt, tokens, n_proposed) {
            let sequence = self.running.remove(index);
            return self.lose_client(sequence, undelivered);
        }
        match end {
            RoundEnd::Open => {}
            RoundEnd::EndToken | RoundEnd::StopString => self.finish(index, FinishReason::Stop),
            RoundEnd::Length => self.finish(index, FinishReason::Length),
        }
    }

    /// The pass itself failed: everybody in it loses the request, everybody else goes on.
    fn fail_pass(&mut self, failure: &ForwardError) {
        error!(%failure, "a forward pass failed");
        for index in (0..self.running.len()).rev() {
            if self.running[index].work.is_some() {
                self.fail(index, Error::ModelFailed(failure.to_string()));
            }
        }
    }
}

/// A grammar that cannot be followed is its author's fault, everything else the model's.
fn row_failure(error: transform::Error) -> Error {
    match error {
        transform::Error::NoMask(reason) => Error::Invalid(vec![Violation::new("grammar", reason)]),
        error => Error::ModelFailed(error.to_string()),
    }
}

/// The tokens that a sequence with work feeds.
fn gather(sequence: &mut Sequence) -> Option<Rows> {
    let work = sequence.work?;
    let n_cached = sequence.kv.len();
    let mut tokens = sequence.committed[n_cached..n_cached + work.n_fed].to_vec();
    let ends_prefix = work.n_fed == sequence.n_pending();
    let held = sequence.speculation.take(work.n_draft);
    if let Ok(held) = &held {
        tokens.extend(held.proposal.tokens());
    }
    let logits = match (ends_prefix, &held) {
        _ if sequence.wants_prompt_scores().is_some() => WantedLogits::All,
        (false, _) => WantedLogits::None,
        (true, Err(_)) => WantedLogits::Last,
        (true, Ok(_)) => WantedLogits::All,
    };
    Some(Rows { work, held, tokens, logits, first_position: n_cached, ends_prefix })
}

/// Writes a decided round down: in the request's report, in the metrics and on its span.
fn account(sequence: &mut Sequence, held: Result<Held, PlainReason>, outcome: &RoundOutcome, metrics: &Metrics) {
    let now = Instant::now();
    if sequence.n_generated() == outcome.committed.len() {
        // The prompt's own pass; see `report`.
        sequence.report.first_token(now);
        metrics.first_token(sequence.report.time_to_first_token().unwrap_or_default());
        return;
    }
    let span = &sequence.round_span;
    let tested = held.map(|held| held.tested(outcome, &mut sequence.speculation.quota));
    match &tested {
        Ok(TestedProposal { version, version_label, n_tokens, waited, .. }) => {
            metrics.tested_round(version_label, *n_tokens, *waited, outcome);
            span.record("k", n_tokens);
            span.record("accepted", outcome.n_accepted);
            span.record("version", &**version);
        }
        Err(reason) => {
            metrics.plain_round(*reason, outcome);
            span.record("plain_reason", reason.as_str());
        }
    }
    span.record("committed", outcome.committed.len());
    sequence.report.round(tested.as_ref().map_err(|reason| *reason), outcome, now);
    sequence.close_round();
}
