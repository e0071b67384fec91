//! One answer from the first token to the last, shown as it comes, until it ends or the user has seen enough.

use std::io::{self, Write};
use std::time::Instant;

use futures::StreamExt;
use specfleet_client::v1::GenerateRequest;
use specfleet_client::{Client, Event};

use crate::cli::{AnswerFlags, Global};
use crate::json;
use crate::observe::Observed;
use crate::rounds::Painter;
use crate::stats::Stats;

/// How an answer is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) enum View {
    Text,
    Rounds(Painter),
    Json,
}

/// An answer, whole or stopped.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) observed: Observed,
    /// The user pressed Ctrl-C.
    pub(crate) stopped: bool,
}

impl View {
    pub(crate) fn new(flags: &AnswerFlags, global: &Global) -> Self {
        match (global.json, flags.show_rounds) {
            (true, _) => Self::Json,
            (false, true) => Self::Rounds(Painter { color: global.color.on_stdout() }),
            (false, false) => Self::Text,
        }
    }

    /// Streams the answer to standard output. Ctrl-C drops the stream, which cancels the request.
    pub(crate) async fn stream(self, client: &Client, request: GenerateRequest) -> anyhow::Result<Answer> {
        let interrupt = tokio::signal::ctrl_c();
        tokio::pin!(interrupt);
        let mut out = io::stdout();
        let mut answer = Answer { text: String::new(), observed: Observed::new(Instant::now()), stopped: false };
        tokio::select! {
            result = self.receive(client, request, &mut answer, &mut out) => {
                if result.is_err() {
                    self.end(&answer, &mut out)?;
                }
                result?;
            }
            _ = &mut interrupt => answer.stopped = true,
        }
        self.end(&answer, &mut out)?;
        Ok(answer)
    }

    async fn receive(
        self,
        client: &Client,
        request: GenerateRequest,
        answer: &mut Answer,
        out: &mut impl Write,
    ) -> anyhow::Result<()> {
        let mut generation = client.generate(request).await?;
        while let Some(event) = generation.next().await {
            let event = event?;
            answer.observed.see(&event, Instant::now());
            if let Event::Committed(committed) = &event {
                committed.tokens.iter().for_each(|token| answer.text += &token.text);
            }
            self.show(&event, &answer.observed, out)?;
        }
        Ok(())
    }

    fn show(self, event: &Event, observed: &Observed, out: &mut impl Write) -> io::Result<()> {
        match (self, event) {
            (Self::Json, event) => writeln!(out, "{}", json::event(event, observed))?,
            (Self::Rounds(painter), Event::Started(_)) => writeln!(out, "{}\n", painter.legend())?,
            (Self::Rounds(painter), Event::Committed(committed)) => write!(out, "{}", painter.round(committed))?,
            (Self::Text, Event::Committed(committed)) => {
                committed.tokens.iter().try_for_each(|token| out.write_all(token.text.as_bytes()))?;
            }
            (Self::Text | Self::Rounds(_), _) => {}
        }
        out.flush()
    }

    /// Ends the line, so that what follows starts on its own.
    fn end(self, answer: &Answer, out: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Json if answer.stopped => writeln!(out, "{}", json::stopped(&answer.observed)),
            Self::Json => Ok(()),
            Self::Text if answer.text.is_empty() || answer.text.ends_with('\n') => Ok(()),
            Self::Text | Self::Rounds(_) => writeln!(out),
        }
    }
}

impl Answer {
    /// What is said about it on standard error: that it was stopped, and the statistics if they are wanted.
    pub(crate) fn comment(&self, view: View, stats: bool) -> io::Result<()> {
        let mut err = io::stderr();
        if self.stopped {
            writeln!(err, "stopped after {} tokens", self.observed.n_tokens())?;
        }
        if stats && !matches!(view, View::Json) {
            write!(err, "\n{}", Stats::of(&self.observed))?;
        }
        Ok(())
    }
}
