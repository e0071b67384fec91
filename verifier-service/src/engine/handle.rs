//! The async side's end of the engine: how requests get in, and how the thread starts and stops.

use std::{collections::VecDeque, io, sync::Arc, thread};

use crossbeam_channel::{Sender, TrySendError};
use specfleet_model::{batch::LanguageModel, tokenizer::Tokenizer};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tracing::{Span, debug};

use super::{
    Engine,
    waiting::{PassCost, Patience},
};
use crate::{
    drafting::{DraftEvent, Listener, Pool},
    error::Error,
    output::{Generation, Output},
    request::Request,
    telemetry::Metrics,
};

/// What an engine may take on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// Requests that run at the same time.
    pub(crate) max_sequences: usize,
    /// Requests that wait beyond those.
    pub(crate) max_queue: usize,
    /// Rows of one pass.
    pub(crate) step_tokens: usize,
    /// Rows of all rounds of a pass up to which drafts are asked for.
    pub(crate) verify_rows: usize,
}

/// What reaches the engine.
pub(super) enum Command {
    Generate(Box<Submission>),
    Draft(DraftEvent),
    Stop,
}

/// A request on its way in.
pub(super) struct Submission {
    pub(super) request: Request,
    pub(super) output: Output,
    pub(super) permit: OwnedSemaphorePermit,
    pub(super) span: Span,
}

/// The async side's end of the engine. Dropping it stops the engine.
#[derive(Debug)]
pub(crate) struct Handle {
    commands: Sender<Command>,
    /// One permit for each request that runs or waits.
    permits: Arc<Semaphore>,
    options: Options,
    metrics: Arc<Metrics>,
    ended: CancellationToken,
}

impl Handle {
    /// Hands a request to the engine.
    pub(crate) fn generate(&self, request: Request, span: Span) -> Result<Generation, Error> {
        let n_requests = self.options.max_sequences + self.options.max_queue;
        let overloaded = Error::Overloaded { n_requests };
        let permit = self.permits.clone().try_acquire_owned().map_err(|_| overloaded.clone())?;
        let (output, generation) = Output::channel();
        let submission = Box::new(Submission { request, output, permit, span });
        self.commands.try_send(Command::Generate(submission)).map_err(|error| match error {
            TrySendError::Full(_) => overloaded,
            TrySendError::Disconnected(_) => Error::Draining,
        })?;
        Ok(generation)
    }

    /// Counts a request that did not get as far as the engine.
    pub(crate) fn count_refusal(&self, error: &Error) {
        self.metrics.request_failed(error);
    }

    /// Resolves when the engine's thread has ended, for whatever reason.
    pub(crate) async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Tells the engine to end what still runs, each with an error that says so, and itself.
    pub(crate) fn stop(&self) {
        // Fails if it is full, and then is told again when the last handle goes, or if it has ended.
        let _ = self.commands.try_send(Command::Stop);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Starts the engine on a thread of its own.
pub(crate) fn spawn(
    options: Options,
    model: Box<dyn LanguageModel>,
    tokenizer: Tokenizer,
    pool: Arc<Pool>,
    metrics: Arc<Metrics>,
) -> io::Result<Handle> {
    let n_requests = options.max_sequences + options.max_queue;
    // For each request its submission, an answer and the end of a session, and as much again from sessions that the
    // engine has left behind.
    let (commands, received) = crossbeam_channel::bounded(6 * n_requests + 16);
    let for_drafts = commands.clone();
    let listener: Listener = Arc::new(move |event| {
        if for_drafts.try_send(Command::Draft(event)).is_err() {
            debug!("the engine is gone or far behind; a draft's message is lost");
        }
    });
    let engine = Engine {
        options,
        model,
        tokenizer,
        pool,
        listener,
        metrics: metrics.clone(),
        commands: received,
        queue: VecDeque::new(),
        running: Vec::new(),
        next_id: 0,
        last_turn: 0,
        patience: Patience::default(),
        pass_cost: PassCost::default(),
    };
    let ended = CancellationToken::new();
    let guard = ended.clone().drop_guard();
    thread::Builder::new().name("engine".to_owned()).spawn(move || {
        // Also when the thread panics.
        let _guard = guard;
        engine.run();
    })?;
    let permits = Arc::new(Semaphore::new(n_requests));
    Ok(Handle { commands, permits, options, metrics, ended })
}
