//! The events of a call, which may have several prompts, in the order in which they come about.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use futures::{
    FutureExt, Stream, StreamExt,
    future::BoxFuture,
    stream::{SelectAll, select_all},
};
use specfleet_protocol::v1;
use specfleet_service::Drain;
use tokio::time::Instant;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::{
    api::admit::Running,
    error::Error,
    output::{self, OutputToken, PromptToken},
    request::Deadline,
};

/// The engine ends a request at its deadline by itself, at the end of a step. Beyond this it hangs.
const LONGEST_STEP: Duration = Duration::from_secs(1);

/// What a call has to tell. Continuations are counted over all prompts: first those of the first one.
#[derive(Debug)]
pub(super) enum CallEvent {
    /// A prompt was admitted.
    Started { first_choice: usize, n_prompt: usize, n_reused: usize },
    /// Tokens of a continuation; with the first of a call that wants its prompts scored, the prompt.
    Committed { choice: usize, prompt: Vec<PromptToken>, tokens: Vec<OutputToken> },
    /// The end of a continuation.
    Finished { choice: usize, finished: v1::Finished },
}

/// Over when all continuations are finished, or with the first error. Dropping it cancels what still runs.
pub(super) struct CallEvents {
    prompts: SelectAll<Prompt>,
    early_end: BoxFuture<'static, Error>,
    /// Holds up a drain until dropped.
    _running: TaskTrackerToken,
}

struct Prompt {
    running: Running,
    first_choice: usize,
}

impl CallEvents {
    /// Of prompts that run, each with `n_choices` continuations, until `deadline`, and no longer than `drain` allows.
    pub(super) fn new(
        running: Vec<Running>,
        n_choices: usize,
        deadline: Option<Deadline>,
        drain: &Drain,
        token: TaskTrackerToken,
    ) -> Self {
        let prompts = (running.into_iter().enumerate())
            .map(|(index, running)| Prompt { running, first_choice: index * n_choices });
        Self { prompts: select_all(prompts), early_end: early_end(drain, deadline), _running: token }
    }
}

/// Resolves when the call has to end whatever the engine does.
fn early_end(drain: &Drain, deadline: Option<Deadline>) -> BoxFuture<'static, Error> {
    let cut = drain.cut();
    async move {
        let expired = async {
            match deadline {
                Some(deadline) => {
                    tokio::time::sleep_until(Instant::from_std(deadline.at) + LONGEST_STEP).await;
                    deadline.allowed
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = cut => Error::Draining,
            allowed = expired => Error::Deadline(allowed),
        }
    }
    .boxed()
}

impl Stream for CallEvents {
    type Item = Result<CallEvent, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut next = self.prompts.poll_next_unpin(context);
        // What is verified already goes out first.
        if next.is_pending()
            && let Poll::Ready(error) = self.early_end.poll_unpin(context)
        {
            next = Poll::Ready(Some(Err(error)));
        }
        if let Poll::Ready(Some(Err(_))) = next {
            // A call is answered whole or not at all.
            self.prompts.clear();
        }
        next
    }
}

impl Stream for Prompt {
    type Item = Result<CallEvent, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let first_choice = self.first_choice;
        self.running.generation.poll_next_unpin(context).map_ok(|event| of_call(event, first_choice))
    }
}

fn of_call(event: output::Event, first_choice: usize) -> CallEvent {
    match event {
        output::Event::Started { n_prompt, n_reused } => CallEvent::Started { first_choice, n_prompt, n_reused },
        output::Event::Committed { choice_index, prompt, tokens, .. } => {
            CallEvent::Committed { choice: first_choice + choice_index as usize, prompt, tokens }
        }
        output::Event::Finished(finished) => {
            CallEvent::Finished { choice: first_choice + finished.choice_index as usize, finished }
        }
    }
}
