//! The async side's end of the engine: how requests get in, and how the thread starts and stops.

use std::{collections::VecDeque, io, iter, sync::Arc, thread};

use crossbeam_channel::Sender;
use specfleet_model::{batch::LanguageModel, tokenizer::Tokenizer};
use specfleet_service::Progress;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tracing::{Span, debug, field::Empty, info_span};

use super::{
    Engine,
    deciding::Decider,
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
    /// Sequences that run at the same time.
    pub(crate) max_sequences: usize,
    /// Sequences that wait beyond those.
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

/// A place for a sequence, from its arrival to its end.
pub(crate) type Permit = OwnedSemaphorePermit;

/// A request on its way in.
pub(super) struct Submission {
    pub(super) request: Arc<Request>,
    /// One for each continuation that it asks for.
    pub(super) choices: Vec<Choice>,
}

/// What one continuation of a request has of its own.
pub(super) struct Choice {
    pub(super) output: Output,
    pub(super) permit: Permit,
    pub(super) span: Span,
}

/// The async side's end of the engine. Dropping it stops the engine.
#[derive(Debug)]
pub(crate) struct Handle {
    commands: Sender<Command>,
    /// One permit for each sequence that runs or waits.
    permits: Arc<Semaphore>,
    options: Options,
    metrics: Arc<Metrics>,
    progress: Progress,
    ended: CancellationToken,
}

impl Handle {
    /// Sequences that may run or wait at a time.
    pub(crate) fn n_places(&self) -> usize {
        self.options.max_sequences + self.options.max_queue
    }

    /// Makes room for a request, before any work is put into it: for its first continuation, since it is not known yet
    /// whether it may have more.
    pub(crate) fn admit(&self) -> Result<Permit, Error> {
        self.permits(1)
    }

    /// Hands a request to the engine, all of its continuations or none.
    pub(crate) fn generate(&self, request: Request, permit: Permit, span: Span) -> Result<Generation, Error> {
        let mut more = self.permits(request.n_choices - 1)?;
        let permits = iter::once(permit).chain(iter::from_fn(|| more.split(1)));
        let (outputs, generation) = Output::channel(request.n_choices, &request.stops);
        let choices = outputs.into_iter().zip(permits).map(|(output, permit)| Choice {
            span: choice_span(&span, &request, output.choice_index()),
            output,
            permit,
        });
        let choices = choices.collect();
        let submission = Box::new(Submission { request: Arc::new(request), choices });
        self.commands.send(Command::Generate(submission)).map_err(|_| Error::Draining)?;
        Ok(generation)
    }

    fn permits(&self, n: u32) -> Result<Permit, Error> {
        let n_requests = self.n_places();
        self.permits.clone().try_acquire_many_owned(n).map_err(|_| Error::Overloaded { n_requests })
    }

    /// Counts a request that did not get as far as the engine.
    pub(crate) fn count_refusal(&self, error: &Error) {
        self.metrics.request_failed(error);
    }

    /// Whether the engine's thread moves.
    pub(crate) fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Resolves when the engine's thread has ended, for whatever reason.
    pub(crate) async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Tells the engine to end what still runs, each with an error that says so, and itself.
    pub(crate) fn stop(&self) {
        // Fails only if it has ended already.
        let _ = self.commands.send(Command::Stop);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A single continuation is its request; several have a span each below it.
fn choice_span(request_span: &Span, request: &Request, choice_index: u32) -> Span {
    match request.n_choices {
        1 => request_span.clone(),
        _ => info_span!(parent: request_span, "choice", choice_index, completion_tokens = Empty, finish_reason = Empty),
    }
}

/// Starts the engine on a thread of its own.
pub(crate) fn spawn(
    options: Options,
    model: Box<dyn LanguageModel>,
    tokenizer: Tokenizer,
    pool: Arc<Pool>,
    metrics: Arc<Metrics>,
    decider: Decider,
) -> io::Result<Handle> {
    // Nothing in it may be lost: a request would wait for an answer that has come, or the process for an engine that does
    // not know it should end. Its length is bounded by who may send: a request needs a permit, and a session has one
    // answer to each question and one end.
    let (commands, received) = crossbeam_channel::unbounded();
    let for_drafts = commands.clone();
    let listener: Listener = Arc::new(move |event| {
        if for_drafts.send(Command::Draft(event)).is_err() {
            debug!("the engine has ended; a draft's message comes too late");
        }
    });
    let progress = Progress::new();
    let engine = Engine {
        options,
        model,
        tokenizer,
        pool,
        listener,
        metrics: metrics.clone(),
        decider,
        progress: progress.clone(),
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
    let permits = Arc::new(Semaphore::new(options.max_sequences + options.max_queue));
    Ok(Handle { commands, permits, options, metrics, progress, ended })
}
