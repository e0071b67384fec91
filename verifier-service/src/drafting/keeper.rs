//! Looks after one draft for as long as the verifier runs: asks who it is, at intervals and whenever a session has had
//! trouble with it, and decides whether requests may use it.

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::FutureExt;
use specfleet_protocol::v1::{DraftServiceGetIdentityRequest, Identity};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::{
    compatibility,
    draft::{Draft, State, is_same_process},
    pool::Target,
};

/// How often a ready draft is asked whether it is still there. A loss shows earlier, in its sessions; this is for drafts
/// without sessions and for restarts under a new version.
const INTERVAL: Duration = Duration::from_secs(5);
/// How long an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// The first pause after a failure; it doubles with each further one. Short, since a restarted draft should be used soon.
const FIRST_RETRY: Duration = Duration::from_millis(50);
/// The longest pause.
const LAST_RETRY: Duration = Duration::from_secs(5);

/// Runs until dropped. `generation` grows whenever the draft becomes ready, or ready as something else.
pub(super) async fn keep(draft: Arc<Draft>, target: Arc<Target>, generation: Arc<AtomicU64>) {
    let mut n_failures = 0_u32;
    let mut fitting = None;
    loop {
        // What a peer sends can make the transport below panic. Then this draft is lost, and not for ever.
        let inspected = AssertUnwindSafe(inspect(&draft, &target, fitting.as_ref())).catch_unwind().await;
        let pause = match inspected.unwrap_or_else(|_| Err(unreadable())) {
            Ok((identity, is_news)) => {
                n_failures = 0;
                let was_ready = matches!(draft.state(), State::Ready(_));
                fitting = Some(identity.clone());
                draft.set_state(State::Ready(identity.clone()));
                if is_news || !was_ready {
                    generation.fetch_add(1, Ordering::Release);
                }
                if is_news {
                    info!(
                        endpoint = draft.endpoint,
                        version = identity.version_id,
                        label = identity.label,
                        incarnation = identity.incarnation,
                        "draft is ready"
                    );
                }
                INTERVAL
            }
            Err(state) => {
                if n_failures == 0 {
                    let detail = state.detail();
                    warn!(endpoint = draft.endpoint, detail, "draft is not ready; requests go on without it");
                }
                n_failures = n_failures.saturating_add(1);
                draft.set_state(state);
                retry_pause(n_failures)
            }
        };
        tokio::select! {
            () = sleep(pause) => {}
            () = draft.doubt.notified() => sleep(doubt_pause(draft.n_failed_in_a_row())).await,
        }
    }
}

/// Asks the draft who it is; `true` if that is another version or process than the one last found `fitting`. Spellings are
/// compared only then: they are as long as the vocabulary.
async fn inspect(
    draft: &Draft,
    target: &Target,
    fitting: Option<&Arc<Identity>>,
) -> Result<(Arc<Identity>, bool), State> {
    let identity = ask(draft, false).await?;
    if let Some(known) = fitting.filter(|known| is_same_process(known, &identity)) {
        return Ok((known.clone(), false));
    }
    let mut identity = ask(draft, true).await?;
    let verdict = compatibility::check(target, identity.clone());
    if let Some(vocabulary) = &mut identity.vocabulary {
        vocabulary.token_digests = Vec::new();
    }
    let identity = Arc::new(identity);
    if !matches!(verdict, Err(compatibility::Error::Unreadable(_))) {
        // Also that of a draft that does not fit: it is what the operator has to look for.
        draft.set_last_identity(identity.clone());
    }
    match verdict {
        Ok(()) => Ok((identity, true)),
        Err(error) => Err(State::Incompatible { detail: error.to_string() }),
    }
}

async fn ask(draft: &Draft, include_token_digests: bool) -> Result<Identity, State> {
    let request = DraftServiceGetIdentityRequest { include_token_digests };
    let mut client = draft.client.clone();
    let unreachable = |detail: String| State::Unreachable { detail };
    match timeout(ANSWER_TIMEOUT, client.get_identity(request)).await {
        Ok(Ok(response)) => (response.into_inner().identity)
            .ok_or_else(|| State::Incompatible { detail: compatibility::Error::NoIdentity.to_string() }),
        Ok(Err(status)) => Err(unreachable(format!("{}: {}", status.code(), status.message()))),
        Err(_) => Err(unreachable(format!("no answer within {ANSWER_TIMEOUT:?}"))),
    }
}

fn unreadable() -> State {
    State::Incompatible { detail: "its answer cannot be read: it makes the gRPC client panic".to_owned() }
}

fn retry_pause(n_failures: u32) -> Duration {
    FIRST_RETRY.saturating_mul(1 << n_failures.saturating_sub(1).min(16)).min(LAST_RETRY)
}

/// A first failed session is looked into at once; a draft that answers here but fails session after session is left
/// alone for longer and longer.
fn doubt_pause(n_failed_in_a_row: u32) -> Duration {
    match n_failed_in_a_row {
        0 | 1 => Duration::ZERO,
        n => retry_pause(n),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_limit() {
        assert_eq!(retry_pause(1), FIRST_RETRY);
        assert_eq!(retry_pause(3), FIRST_RETRY * 4);
        assert_eq!(retry_pause(u32::MAX), LAST_RETRY);
        assert_eq!(doubt_pause(1), Duration::ZERO);
        assert_eq!(doubt_pause(2), FIRST_RETRY * 2);
    }
}
