//! What a client has not read yet, counted in bytes.
//!
//! Events differ in size: a token takes a hundred bytes, or, with all that is wanted beside it, a thousand, and a scored
//! prompt megabytes. So it is bytes that are bounded. An event that comes while the client has left less than that unread
//! is taken whatever its size: a client that reads is never cut off for one large event.

use std::{
    mem::size_of,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll},
};

use specfleet_speculation::TokenId;
use tokio::sync::mpsc::{self, error::SendError};

use super::{Event, OutputToken, PromptToken, TokenScore, Undelivered};

/// The engine's end. Clones share one account.
#[derive(Clone, Debug)]
pub(super) struct UnreadSender {
    events: mpsc::UnboundedSender<Event>,
    account: Arc<Account>,
}

/// The client's end.
#[derive(Debug)]
pub(super) struct Unread {
    events: mpsc::UnboundedReceiver<Event>,
    account: Arc<Account>,
}

#[derive(Debug)]
struct Account {
    /// Bytes that wait to be read.
    n_bytes: AtomicUsize,
    /// So many are kept.
    most: AtomicUsize,
}

/// Both ends of a channel that keeps `most` bytes and the event that exceeds them.
pub(super) fn channel(most: usize) -> (UnreadSender, Unread) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let account = Arc::new(Account { n_bytes: AtomicUsize::new(0), most: AtomicUsize::new(most) });
    (UnreadSender { events: sender, account: account.clone() }, Unread { events: receiver, account })
}

impl UnreadSender {
    /// Never waits.
    pub(super) fn send(&self, event: Event) -> Result<(), Undelivered> {
        let (n_bytes, most) = (self.account.n_bytes.load(Relaxed), self.account.most.load(Relaxed));
        if n_bytes > most {
            return Err(Undelivered::Full { n_bytes, most });
        }
        self.account.n_bytes.fetch_add(event.n_bytes(), Relaxed);
        self.events.send(event).map_err(|SendError(_)| Undelivered::Gone)
    }

    /// Whether nobody reads any more.
    pub(super) fn is_closed(&self) -> bool {
        self.events.is_closed()
    }
}

impl Unread {
    pub(super) fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Option<Event>> {
        let event = self.events.poll_recv(context);
        event.map(|event| event.inspect(|event| self.was_read(event)))
    }

    /// The next event if there is one: certain, unlike [`poll_recv`](Self::poll_recv), which may say that it is another
    /// task's turn.
    pub(super) fn try_recv(&mut self) -> Option<Event> {
        self.events.try_recv().ok().inspect(|event| self.was_read(event))
    }

    fn was_read(&self, event: &Event) {
        self.account.n_bytes.fetch_sub(event.n_bytes(), Relaxed);
    }

    /// From now on so many bytes fewer are kept.
    pub(super) fn keep_less(&self, n_bytes: usize) {
        self.account.most.fetch_sub(n_bytes, Relaxed);
    }

    pub(super) fn close(&mut self) {
        self.events.close();
    }
}

impl Event {
    /// What it takes of memory, as far as that depends on what it holds.
    fn n_bytes(&self) -> usize {
        let held = match self {
            Self::Started { .. } | Self::Finished(_) => 0,
            Self::Committed { prompt, tokens, .. } => {
                let of_token = |token: &OutputToken| {
                    size_of::<OutputToken>() + token.text.len() + token.score.as_ref().map_or(0, TokenScore::n_bytes)
                };
                let of_prompt = |token: &PromptToken| {
                    size_of::<PromptToken>() + token.score.as_ref().map_or(0, TokenScore::n_bytes)
                };
                tokens.iter().map(of_token).sum::<usize>() + prompt.iter().map(of_prompt).sum::<usize>()
            }
        };
        size_of::<Self>() + held
    }
}

impl TokenScore {
    fn n_bytes(&self) -> usize {
        self.top.len() * size_of::<(TokenId, f32)>()
    }
}
