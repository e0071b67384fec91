//! The engine: one OS thread that owns the target model and everything that is committed.
//!
//! It never awaits, never talks to a socket and never waits for a client. What it needs to know arrives as [`Command`]s in
//! one channel; what it has to say leaves through channels that refuse rather than block. One turn of its loop:
//!
//! ```text
//!   take in commands -> drop who left or ran out of time -> admit -> wait for proposals? -> one step
//! ```
//!
//! - [`scheduler`] says who gets rows in a step,
//! - [`crowd`] how much may be drafted, [`waiting`] whether to wait for it first,
//! - [`admission`] who may hold KV memory, [`endings`] how requests leave,
//! - [`step`] runs the pass and decides, [`deciding`] by which rule, [`scoring`] says how likely tokens were,
//! - [`sequence`] and [`speculation`] hold the state of one request and of its drafting.
//!
//! **Plain decoding is not a mode.** It is a round without a proposal, in the same step as all others.

use std::{
    collections::VecDeque,
    ops::ControlFlow,
    sync::Arc,
    time::{Duration, Instant},
};

use crossbeam_channel::Receiver;
use specfleet_model::{batch::LanguageModel, tokenizer::Tokenizer};
use specfleet_service::Progress;

#[cfg(feature = "controls")]
use crate::controls::Control;
use crate::{
    drafting::{DraftEvent, DraftEventKind, Listener, PlainReason, Pool},
    error::Error,
    telemetry::{Load, Metrics},
};

mod admission;
mod crowd;
mod deciding;
mod endings;
mod handle;
mod places;
mod scheduler;
mod scoring;
mod sequence;
mod speculation;
mod step;
mod waiting;

use crowd::Crowd;
use handle::{Command, Submission};
use sequence::Sequence;
use waiting::{PassCost, Patience, Verdict};

pub(crate) use deciding::Decider;
#[cfg(feature = "controls")]
pub(crate) use deciding::TargetRows;
pub(crate) use handle::{Handle, Options, spawn};
pub(crate) use places::{Permit, Places, Reservation};

/// How long the engine sleeps at most while it waits for proposals: within this it notices a client that left or a
/// deadline that passed.
const LONGEST_NAP: Duration = Duration::from_millis(5);

/// The engine's state; lives on its thread.
struct Engine {
    options: Options,
    places: Arc<Places>,
    model: Box<dyn LanguageModel>,
    tokenizer: Tokenizer,
    pool: Arc<Pool>,
    listener: Listener,
    metrics: Arc<Metrics>,
    decider: Decider,
    progress: Progress,
    commands: Receiver<Command>,
    /// In order of arrival.
    queue: VecDeque<Sequence>,
    /// In order of arrival.
    running: Vec<Sequence>,
    next_id: u64,
    last_turn: u64,
    patience: Patience,
    pass_cost: PassCost,
    crowd: Crowd,
}

impl Engine {
    fn run(mut self) {
        while self.turn().is_continue() {}
        for sequence in std::mem::take(&mut self.queue).into_iter().chain(std::mem::take(&mut self.running)) {
            self.end(sequence, Error::Draining);
        }
    }

    /// One turn of the loop; breaks when the engine is told to stop.
    fn turn(&mut self) -> ControlFlow<()> {
        self.progress.turn();
        while let Ok(command) = self.commands.try_recv() {
            self.obey(command)?;
        }
        let now = Instant::now();
        self.drop_ended(now);
        self.admit(now);
        for sequence in &mut self.running {
            sequence.speculation.lose_patience(now);
        }
        let members = self.running.iter().map(Sequence::member);
        let command = match self.patience.judge(now, self.options.step_tokens, members, &self.pass_cost) {
            Verdict::Go => {
                self.step();
                None
            }
            Verdict::WaitUntil(until) => self.commands.recv_deadline(until.min(now + LONGEST_NAP)).ok(),
            Verdict::Idle => {
                self.record_load();
                self.progress.rest();
                Some(self.commands.recv().unwrap_or(Command::Stop))
            }
        };
        command.map_or(ControlFlow::Continue(()), |command| self.obey(command))
    }

    fn obey(&mut self, command: Command) -> ControlFlow<()> {
        match command {
            Command::Stop => return ControlFlow::Break(()),
            Command::Draft(event) => self.hear(event),
            Command::Generate(submission) => self.enqueue(*submission),
        }
        ControlFlow::Continue(())
    }

    /// The first continuation of a prompt goes into the queue and takes the others with it: see [`admission`].
    fn enqueue(&mut self, Submission { request, choices }: Submission) {
        let mut sequences = choices.into_iter().map(|choice| {
            let id = self.next_id;
            self.next_id += 1;
            Sequence::new(id, request.clone(), choice)
        });
        if let Some(mut first) = sequences.next() {
            first.followers = sequences.collect();
            self.queue.push_back(first);
        }
    }

    fn hear(&mut self, event: DraftEvent) {
        let Ok(index) = self.running.binary_search_by_key(&event.sequence, |sequence| sequence.id) else {
            if matches!(event.kind, DraftEventKind::Reply(_)) {
                self.metrics.proposal_dropped(PlainReason::Stale);
            }
            return;
        };
        let sequence = &mut self.running[index];
        let (prefix, round) = (sequence.prefix(), sequence.round());
        if let Some(reason) = sequence.speculation.hear(event, prefix, round) {
            count_dropped(sequence, reason, &self.metrics);
        }
        #[cfg(feature = "controls")]
        if let Some(Control::ReservesWhatCame) = self.decider.control {
            self.running[index].speculation.reserve_what_came();
        }
    }

    fn record_load(&mut self) {
        // Followers wait for a prompt and not for room.
        self.places.set_waiting(Instant::now(), self.queue.len());
        let n_followers: usize = self.queue.iter().chain(&self.running).map(|sequence| sequence.followers.len()).sum();
        let kv = self.model.kv();
        self.metrics.load(Load {
            n_running: self.running.len(),
            n_waiting: self.queue.len() + n_followers,
            n_kv_blocks_used: kv.n_blocks() - kv.n_available(),
            n_kv_blocks: kv.n_blocks(),
        });
    }
}

fn count_dropped(sequence: &mut Sequence, reason: PlainReason, metrics: &Metrics) {
    sequence.report.dropped(reason);
    metrics.proposal_dropped(reason);
}
