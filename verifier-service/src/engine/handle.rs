//! The async side's end of the engine: how requests get in, and how the thread starts and stops.

use std::{
    collections::VecDeque,
    io, iter,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use crossbeam_channel::Sender;
use specfleet_model::{batch::LanguageModel, tokenizer::Tokenizer};
use specfleet_service::Progress;
use tokio_util::sync::CancellationToken;
use tracing::{Span, debug, field::Empty, info_span};

use super::{
    Engine,
    crowd::Crowd,
    deciding::Decider,
    places::{Permit, Places, Reservation},
    waiting::{PassCost, Patience},
};
use crate::{
    drafting::{DraftEvent, Listener, Pool},
    error::Error,
    output::{Generation, Output},
    request::{Deadline, Request},
    telemetry::Metrics,
};

/// What an engine may take on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// Sequences that run at the same time.
    pub(crate) max_sequences: usize,
    /// Sequences that wait beyond those.
    pub(crate) max_queue: usize,
    /// The longest that one of those may be expected to wait.
    pub(crate) max_queue_wait: Duration,
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
    pub(super) request: Arc<Request>,
    /// One for each continuation that it asks for.
    pub(super) choices: Vec<Choice>,
}

/// What one continuation of a request has of its own.
pub(super) struct Choice {
    pub(super) output: Output,
    pub(super) permit: Arc<Permit>,
    pub(super) span: Span,
}

/// The async side's end of the engine. Dropping it stops the engine.
#[derive(Debug)]
pub(crate) struct Handle {
    commands: Sender<Command>,
    places: Arc<Places>,
    metrics: Arc<Metrics>,
    progress: Progress,
    ended: CancellationToken,
}

impl Handle {
    /// Sequences that may run or wait at a time.
    pub(crate) fn n_places(&self) -> usize {
        self.places.n_places()
    }

    /// Whether a request that arrives now would be admitted.
    ///
    /// # Errors
    /// [`Error::Overloaded`].
    pub(crate) fn check_room(&self) -> Result<(), Error> {
        self.places.check(Instant::now(), None)
    }

    /// Makes room for a request, before any work is put into it: for its first continuation, since it is not known yet
    /// whether it may have more.
    ///
    /// # Errors
    /// [`Error::Overloaded`].
    pub(crate) fn admit(&self, deadline: Option<Deadline>) -> Result<Reservation, Error> {
        let now = Instant::now();
        self.places.check(now, deadline)?;
        self.places.take(now, 1)
    }

    /// Hands a request to the engine, all of its continuations or none.
    pub(crate) fn generate(&self, request: Request, place: Reservation, span: Span) -> Result<Generation, Error> {
        let mut more = self.places.take(Instant::now(), request.n_choices - 1)?;
        let places = iter::once(place).chain(iter::from_fn(|| more.split()));
        let min_tokens = request.transforms.params().min_tokens as usize;
        let (outputs, generation) = Output::channel(request.n_choices, &request.stops, min_tokens, &request.spelled);
        let choices = outputs.into_iter().zip(places).map(|(output, place)| Choice {
            span: choice_span(&span, &request, output.choice_index()),
            output,
            permit: Arc::new(Permit::new(place)),
        });
        let choices: Vec<Choice> = choices.collect();
        let places = choices.iter().map(|choice| Arc::downgrade(&choice.permit)).collect();
        let submission = Box::new(Submission { request: Arc::new(request), choices });
        self.commands.send(Command::Generate(submission)).map_err(|_| Error::Draining)?;
        Ok(generation.in_places(places))
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
    let places = Arc::new(Places::new(options.max_sequences + options.max_queue, options.max_queue_wait));
    let engine = Engine {
        options,
        places: places.clone(),
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
        crowd: Crowd::new(options.verify_rows),
    };
    let ended = CancellationToken::new();
    let guard = ended.clone().drop_guard();
    thread::Builder::new().name("engine".to_owned()).spawn(move || {
        // Also when the thread panics.
        let _guard = guard;
        engine.run();
    })?;
    Ok(Handle { commands, places, metrics, progress, ended })
}
