//! All the ways in which a request leaves the engine. Each gives its KV memory back and ends its draft session.

use std::time::Instant;

use specfleet_protocol::v1::FinishReason;
use tracing::debug;

use super::{Engine, Sequence};
use crate::{error::Error, output::Undelivered};

impl Engine {
    /// Clients that left take their requests with them; requests whose time is up end with what they have.
    pub(super) fn drop_ended(&mut self, now: Instant) {
        let verdict = |sequence: &Sequence| {
            let deadline = sequence.request.deadline.filter(|deadline| deadline.at <= now);
            match sequence.output.is_abandoned() {
                true => Some(None),
                false => deadline.map(|deadline| Some(Error::Deadline(deadline.allowed))),
            }
        };
        for index in (0..self.running.len()).rev() {
            if let Some(error) = verdict(&self.running[index]) {
                let sequence = self.running.remove(index);
                self.end_early(sequence, error);
            }
        }
        for index in (0..self.queue.len()).rev() {
            if let Some(error) = verdict(&self.queue[index])
                && let Some(sequence) = self.queue.remove(index)
            {
                self.end_early(sequence, error);
            }
        }
    }

    fn end_early(&mut self, sequence: Sequence, error: Option<Error>) {
        match error {
            Some(error) => self.end(sequence, error),
            None => self.lose_client(sequence, Undelivered::Gone),
        }
    }

    pub(super) fn finish(&mut self, index: usize, reason: FinishReason) {
        let mut sequence = self.running.remove(index);
        self.free_kv(&mut sequence);
        self.metrics.request_finished();
        let finished = sequence.finished(reason);
        sequence.span.record("completion_tokens", sequence.n_generated());
        sequence.span.record("finish_reason", reason.as_str_name());
        sequence.output.end(Ok(finished), sequence.permit);
    }

    pub(super) fn fail(&mut self, index: usize, error: Error) {
        let sequence = self.running.remove(index);
        self.end(sequence, error);
    }

    /// Ends a request with an error, after whatever was sent before.
    pub(super) fn end(&mut self, mut sequence: Sequence, error: Error) {
        for follower in std::mem::take(&mut sequence.followers) {
            self.end(follower, error.clone());
        }
        debug!(request = sequence.request.id, %error, "request ended early");
        match error {
            // What a failed model computed must not be found by others.
            Error::ModelFailed(_) => self.model.kv().release(std::mem::take(&mut sequence.kv)),
            _ => self.free_kv(&mut sequence),
        }
        self.metrics.request_failed(&error);
        sequence.output.end(Err(error), sequence.permit);
    }

    /// Ends a request that has nobody to send to.
    pub(super) fn lose_client(&mut self, mut sequence: Sequence, undelivered: Undelivered) {
        match undelivered {
            Undelivered::Full { n_bytes, most } => self.end(sequence, Error::SlowClient { n_bytes, most }),
            Undelivered::Gone => {
                for follower in std::mem::take(&mut sequence.followers) {
                    self.lose_client(follower, undelivered);
                }
                debug!(request = sequence.request.id, "the client is gone");
                self.free_kv(&mut sequence);
                self.metrics.request_cancelled();
            }
        }
    }
}
