use std::{io, process, time::Duration};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The request to leave, and how long leaving may take. Clones share one state.
#[derive(Clone, Debug)]
pub struct Shutdown {
    begun: CancellationToken,
    drain_limit: Duration,
}

impl Shutdown {
    /// Begins only when told to by [`begin`](Self::begin).
    pub fn new(drain_limit: Duration) -> Self {
        Self { begun: CancellationToken::new(), drain_limit }
    }

    /// Begins at SIGTERM or SIGINT (Ctrl-C); a second one ends the process at once, for the operator who has waited
    /// enough. Call inside the runtime.
    ///
    /// # Errors
    /// When the handlers cannot be installed.
    pub fn on_signals(drain_limit: Duration) -> io::Result<Self> {
        let shutdown = Self::new(drain_limit);
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        tokio::spawn(obey(shutdown.clone(), terminate, interrupt));
        Ok(shutdown)
    }

    /// Begins to leave.
    pub fn begin(&self) {
        self.begun.cancel();
    }

    /// Whether leaving has begun.
    pub fn is_draining(&self) -> bool {
        self.begun.is_cancelled()
    }

    /// Waits until leaving begins.
    pub async fn draining(&self) {
        self.begun.cancelled().await;
    }

    /// How long running requests may still go on from there.
    pub fn drain_limit(&self) -> Duration {
        self.drain_limit
    }
}

async fn obey(shutdown: Shutdown, mut terminate: Signal, mut interrupt: Signal) {
    let first = either(&mut terminate, &mut interrupt).await;
    tracing::info!(
        signal = first.name,
        drain_limit = ?shutdown.drain_limit,
        "draining: no new requests, running ones may finish; a second signal ends at once"
    );
    shutdown.begin();
    let second = either(&mut terminate, &mut interrupt).await;
    tracing::warn!(signal = second.name, "ending at once");
    // By convention of shells: 128 and the number of the signal.
    process::exit(128 + second.kind.as_raw_value());
}

struct Received {
    name: &'static str,
    kind: SignalKind,
}

async fn either(terminate: &mut Signal, interrupt: &mut Signal) -> Received {
    tokio::select! {
        _ = terminate.recv() => Received { name: "SIGTERM", kind: SignalKind::terminate() },
        _ = interrupt.recv() => Received { name: "SIGINT", kind: SignalKind::interrupt() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sigterm_begins_it() {
        let shutdown = Shutdown::on_signals(Duration::from_secs(30)).expect("handlers");
        assert!(!shutdown.is_draining());
        let process = process::id().to_string();
        let sent = process::Command::new("kill").args(["-TERM", &process]).status().expect("kill");
        assert!(sent.success());
        shutdown.draining().await;
        assert!(shutdown.is_draining());
    }
}
