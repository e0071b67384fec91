//! What one request did, seen from the client's end: the clock is the client's, the counts are what arrived.

use std::time::{Duration, Instant};

use specfleet_client::{Event, v1};

/// A request as it was seen so far.
#[derive(Debug, Clone)]
pub(crate) struct Observed {
    sent_at: Instant,
    first: Option<Arrival>,
    last_at: Option<Instant>,
    n_tokens: usize,
    pub(crate) started: Option<v1::Started>,
    pub(crate) finished: Option<v1::Finished>,
}

/// The first message with tokens.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    at: Instant,
    n_tokens: usize,
}

impl Observed {
    pub(crate) fn new(sent_at: Instant) -> Self {
        Self { sent_at, first: None, last_at: None, n_tokens: 0, started: None, finished: None }
    }

    pub(crate) fn see(&mut self, event: &Event, at: Instant) {
        match event {
            Event::Started(started) => self.started = Some(started.clone()),
            Event::Committed(committed) => {
                let n_tokens = committed.tokens.len();
                self.first.get_or_insert(Arrival { at, n_tokens });
                self.last_at = Some(at);
                self.n_tokens += n_tokens;
            }
            Event::Finished(finished) => self.finished = Some(finished.clone()),
        }
    }

    /// Tokens that arrived.
    pub(crate) fn n_tokens(&self) -> usize {
        self.n_tokens
    }

    /// From sending the request to the first message with tokens.
    pub(crate) fn time_to_first_token(&self) -> Option<Duration> {
        self.first.map(|first| first.at - self.sent_at)
    }

    /// Tokens after the first message that had any. That message belongs to the prefill, so it is left out here as
    /// its time is left out of [`Self::decode_time`].
    pub(crate) fn n_decoded(&self) -> usize {
        self.n_tokens - self.first.map_or(0, |first| first.n_tokens)
    }

    /// From the first message with tokens to the last.
    pub(crate) fn decode_time(&self) -> Duration {
        self.first.zip(self.last_at).map_or(Duration::ZERO, |(first, last_at)| last_at - first.at)
    }

    /// Decoded tokens over decode time; `None` when everything came at once.
    pub(crate) fn tokens_per_second(&self) -> Option<f64> {
        let seconds = self.decode_time().as_secs_f64();
        (seconds > 0.0).then(|| self.n_decoded() as f64 / seconds)
    }

    /// The verifier's report, empty until it has come.
    pub(crate) fn speculation(&self) -> v1::SpeculationReport {
        self.finished.as_ref().and_then(|finished| finished.speculation.clone()).unwrap_or_default()
    }

    /// The verifier's timings, zero until they have come.
    pub(crate) fn timings(&self) -> v1::RequestTimings {
        self.finished.as_ref().and_then(|finished| finished.timings).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn committed(n_tokens: usize) -> Event {
        Event::Committed(v1::Committed { tokens: vec![v1::CommittedToken::default(); n_tokens], ..Default::default() })
    }

    #[test]
    fn the_first_message_counts_as_prefill() {
        let start = Instant::now();
        let mut observed = Observed::new(start);
        assert_eq!(observed.tokens_per_second(), None);
        for (n_tokens, millis) in [(2, 100), (3, 150), (1, 200)] {
            observed.see(&committed(n_tokens), start + Duration::from_millis(millis));
        }
        assert_eq!(observed.n_tokens(), 6);
        assert_eq!(observed.n_decoded(), 4);
        assert_eq!(observed.time_to_first_token(), Some(Duration::from_millis(100)));
        assert_eq!(observed.decode_time(), Duration::from_millis(100));
        assert_eq!(observed.tokens_per_second(), Some(40.0));
    }
}
