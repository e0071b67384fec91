//! The answers to one request from the first token to the last, shown as they come, until they end or the user has seen
//! enough.

use std::io::{self, Stdout, Write};
use std::time::Instant;

use futures::StreamExt;
use specfleet_client::v1::{Committed, GenerateRequest};
use specfleet_client::{Client, Event};

use crate::cli::{AnswerFlags, Global};
use crate::json;
use crate::observe::Observed;
use crate::rounds::Painter;
use crate::stats::Stats;
use crate::turns::Turns;

/// How answers are shown.
#[derive(Debug, Clone, Copy)]
pub(crate) enum View {
    Text,
    Rounds(Painter),
    Json,
}

/// The answers to a request, whole or stopped.
#[derive(Debug)]
pub(crate) struct Answers {
    /// At least one.
    choices: Vec<Answer>,
    /// The user pressed Ctrl-C.
    pub(crate) stopped: bool,
}

/// One of them.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) observed: Observed,
}

impl View {
    pub(crate) fn new(flags: &AnswerFlags, global: &Global) -> Self {
        match (global.json, flags.show_rounds) {
            (true, _) => Self::Json,
            (false, true) => Self::Rounds(Painter { color: global.color.on_stdout() }),
            (false, false) => Self::Text,
        }
    }

    /// Streams the answers to standard output. Ctrl-C drops the stream, which cancels the request.
    pub(crate) async fn stream(self, client: &Client, request: GenerateRequest) -> anyhow::Result<Answers> {
        let interrupt = tokio::signal::ctrl_c();
        tokio::pin!(interrupt);
        let mut screen = Screen::new(self, request.n.max(1) as usize);
        tokio::select! {
            result = screen.receive(client, request) => {
                screen.close()?;
                result?;
            }
            _ = &mut interrupt => {
                screen.answers.stopped = true;
                screen.close()?;
            }
        }
        Ok(screen.answers)
    }
}

/// What has come and what of it is shown.
struct Screen {
    view: View,
    answers: Answers,
    turns: Turns,
    out: Stdout,
}

impl Screen {
    fn new(view: View, n_choices: usize) -> Self {
        let answer = Answer { text: String::new(), observed: Observed::new(Instant::now()) };
        let answers = Answers { choices: vec![answer; n_choices], stopped: false };
        Self { view, answers, turns: Turns::new(n_choices), out: io::stdout() }
    }

    async fn receive(&mut self, client: &Client, request: GenerateRequest) -> anyhow::Result<()> {
        let mut generation = client.generate(request).await?;
        while let Some(event) = generation.next().await {
            let event = event?;
            self.answers.see(&event);
            self.show(&event)?;
        }
        Ok(())
    }

    fn show(&mut self, event: &Event) -> io::Result<()> {
        let choice_idx = event.choice_index().unwrap_or_default() as usize;
        let shown = match (self.view, event) {
            (View::Json, event) => format!("{}\n", json::event(event, &self.answers.choices[choice_idx].observed)),
            (view, Event::Started(_)) => view.legend() + &self.turns.open(),
            (view, Event::Committed(committed)) => self.turns.push(choice_idx, &view.draw(committed)),
            (_, Event::Finished(_)) => self.turns.end(choice_idx),
        };
        self.out.write_all(shown.as_bytes())?;
        self.out.flush()
    }

    /// Ends the line, so that what follows starts on its own.
    fn close(&mut self) -> io::Result<()> {
        let mut shown = self.turns.close();
        if self.answers.stopped && matches!(self.view, View::Json) {
            for (choice_index, answer) in self.answers.unfinished() {
                shown += &format!("{}\n", json::stopped(choice_index, &answer.observed));
            }
        }
        self.out.write_all(shown.as_bytes())?;
        self.out.flush()
    }
}

impl View {
    fn legend(self) -> String {
        match self {
            Self::Rounds(painter) => format!("{}\n\n", painter.legend()),
            Self::Text | Self::Json => String::new(),
        }
    }

    fn draw(self, committed: &Committed) -> String {
        match self {
            Self::Rounds(painter) => painter.round(committed),
            Self::Text | Self::Json => committed.tokens.iter().map(|token| token.text.as_str()).collect(),
        }
    }
}

impl Answers {
    /// The only one, or the first of several.
    pub(crate) fn into_first(mut self) -> Answer {
        self.choices.swap_remove(0)
    }

    fn see(&mut self, event: &Event) {
        let now = Instant::now();
        let Some(choice_index) = event.choice_index() else {
            return self.choices.iter_mut().for_each(|answer| answer.observed.see(event, now));
        };
        let answer = &mut self.choices[choice_index as usize];
        answer.observed.see(event, now);
        if let Event::Committed(committed) = event {
            committed.tokens.iter().for_each(|token| answer.text += &token.text);
        }
    }

    fn unfinished(&self) -> impl Iterator<Item = (usize, &Answer)> {
        self.choices.iter().enumerate().filter(|(_, answer)| answer.observed.finished.is_none())
    }

    /// What is said about them on standard error: that they were stopped, and the statistics if they are wanted.
    pub(crate) fn comment(&self, view: View, stats: bool) -> io::Result<()> {
        let mut err = io::stderr();
        if self.stopped {
            let n_tokens: usize = self.choices.iter().map(|answer| answer.observed.n_tokens()).sum();
            writeln!(err, "stopped after {n_tokens} tokens")?;
        }
        if !stats || matches!(view, View::Json) {
            return Ok(());
        }
        for (choice_idx, answer) in self.choices.iter().enumerate() {
            writeln!(err)?;
            if self.choices.len() > 1 {
                writeln!(err, "answer {} of {}", choice_idx + 1, self.choices.len())?;
            }
            write!(err, "{}", Stats::of(&answer.observed))?;
        }
        Ok(())
    }
}
