//! Who may hold KV memory?
//!
//! Requests are admitted in order of arrival, when their prefix fits beside those of the running sequences, computed or
//! not, and each of these could still grow by a block. Outputs grow beyond that, so memory can run out later. Then the
//! youngest sequence gives up all of its memory and goes back to the queue with its committed tokens; when it is admitted
//! again they are computed anew (or found in the prefix cache), and nobody but the clock can tell. The oldest sequence
//! always gets what it needs: no request is accepted that could not run alone, so there is always progress.
//!
//! The continuations of one prompt are sequences like any others, but the prompt is computed once: the others follow the
//! first one through the queue, and take their places in it when the prompt's KV memory can be found by them.

use std::time::Instant;

use specfleet_model::kv_cache::{BLOCK_TOKENS, KvCache};
use tracing::debug;

use super::{Engine, Sequence, count_dropped};
use crate::drafting::PlainReason;

impl Engine {
    /// Admits from the head of the queue while there is room.
    pub(super) fn admit(&mut self, now: Instant) {
        while let Some(first) = self.queue.front()
            && self.running.len() < self.options.max_sequences
            && has_room(self.model.kv(), first.committed.len(), &self.running)
            && let Some(sequence) = self.queue.pop_front()
        {
            self.start(sequence, now);
        }
    }

    fn start(&mut self, mut sequence: Sequence, now: Instant) {
        sequence.kv = self.model.kv().start(sequence.reusable());
        // As if served on arrival: newcomers, one after another, must not keep those who run from their turn.
        sequence.last_turn = self.last_turn;
        sequence.report.admitted(now);
        let n_reused = sequence.kv.len();
        if !sequence.is_started {
            sequence.is_started = true;
            self.metrics.admitted(sequence.report.queued_for().unwrap_or_default());
            let started = sequence.output.started(sequence.request.prompt.len(), n_reused);
            if let Err(undelivered) = started {
                return self.lose_client(sequence, undelivered);
            }
        }
        let allowance = self.crowd.of_newcomer(self.running.len() + 1, now);
        sequence.attach(&self.pool, &self.listener, allowance, now);
        let place = self.running.partition_point(|other| other.id < sequence.id);
        self.running.insert(place, sequence);
    }

    /// Sends into the queue those who have waited for a prompt that is computed now.
    pub(super) fn queue_followers(&mut self, followers: Vec<Sequence>) {
        for sequence in followers {
            self.requeue(sequence);
        }
    }

    /// Reserves the KV memory of the coming pass, oldest sequence first, at the expense of the youngest.
    pub(super) fn reserve(&mut self) {
        let mut index = 0;
        while let Some(sequence) = self.running.get_mut(index) {
            let n_rows = sequence.work.map_or(0, |work| work.n_rows());
            let len = sequence.kv.len() + n_rows;
            let is_short = n_rows > 0 && self.model.kv().reserve(&mut sequence.kv, len).is_err();
            if !is_short {
                index += 1;
            } else if let Some(youngest) = self.running.pop() {
                // Sequences run in order of age. If this is the one that is short, the loop ends here.
                self.preempt(youngest);
            }
        }
    }

    fn preempt(&mut self, mut sequence: Sequence) {
        debug!(request = sequence.request.id, n_committed = sequence.committed.len(), "pre-empted");
        self.metrics.preempted();
        self.free_kv(&mut sequence);
        sequence.work = None;
        if sequence.speculation.void() {
            count_dropped(&mut sequence, PlainReason::Stale, &self.metrics);
        }
        self.requeue(sequence);
    }

    /// In its place by age.
    fn requeue(&mut self, sequence: Sequence) {
        let place = self.queue.partition_point(|other| other.id < sequence.id);
        self.queue.insert(place, sequence);
    }

    /// Gives the sequence's blocks back; what is committed can be found there again until the space is needed.
    pub(super) fn free_kv(&mut self, sequence: &mut Sequence) {
        let kv = std::mem::take(&mut sequence.kv);
        self.model.kv().publish(&kv, &sequence.committed);
        self.model.kv().release(kv);
    }
}

/// Whether a prefix and the token that follows it fit, and for each of the others what its own prefix still lacks and the
/// block it may need next. A sequence that would be alone always fits: see `request`.
fn has_room(kv: &KvCache, n_committed: usize, running: &[Sequence]) -> bool {
    let promised = |other: &Sequence| n_blocks(other.committed.len()).saturating_sub(other.kv.blocks().len()) + 1;
    let n_promised: usize = running.iter().map(promised).sum();
    running.is_empty() || n_blocks(n_committed) + n_promised <= kv.n_available()
}

/// What a prefix needs to be continued by a token.
fn n_blocks(n_committed: usize) -> usize {
    (n_committed + 1).div_ceil(BLOCK_TOKENS)
}
