//! The shapes of `--json`. Names are those of the wire contract; enum values are lower-case words.

use serde_json::{Value, json};
use specfleet_client::v1::{AcceptanceRule, DraftState, FinishReason, Identity};
use specfleet_client::{Error, Event};

use crate::observe::Observed;
use crate::rounds;
use crate::stats::Stats;

/// One line of a streamed answer. The last one has the statistics.
pub(crate) fn event(event: &Event, observed: &Observed) -> Value {
    match event {
        Event::Started(started) => json!({
            "event": "started",
            "request_id": started.request_id,
            "prompt_tokens": started.prompt_tokens,
            "reused_prompt_tokens": started.reused_prompt_tokens,
            "target_version_id": started.target_version_id,
        }),
        Event::Committed(committed) => {
            let token = |token: &specfleet_client::v1::CommittedToken| json!({ "token_id": token.token_id, "text": token.text, "origin": rounds::name(token.origin()) });
            json!({
                "event": "committed",
                "choice_index": committed.choice_index,
                "n_proposed": committed.n_proposed,
                "tokens": committed.tokens.iter().map(token).collect::<Vec<_>>(),
            })
        }
        Event::Finished(finished) => {
            let usage = finished.usage.unwrap_or_default();
            json!({
                "event": "finished",
                "choice_index": finished.choice_index,
                "reason": finish_reason(finished.reason()),
                "usage": { "prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens },
                "stats": Stats::of(observed),
            })
        }
    }
}

/// The last line of an answer that the user stopped.
pub(crate) fn stopped(choice_index: usize, observed: &Observed) -> Value {
    json!({ "event": "stopped", "choice_index": choice_index, "stats": Stats::of(observed) })
}

/// What went wrong. `reason`, `code` and `violations` are there when a service said so.
pub(crate) fn error(error: &anyhow::Error) -> Value {
    let mut description = json!({ "message": format!("{error:#}") });
    if let Some(Error::Refused(refusal)) = error.downcast_ref::<Error>() {
        let violation = |violation: &specfleet_client::Violation| json!({ "field": violation.field, "description": violation.description });
        description["code"] = json!(format!("{:?}", refusal.code));
        description["reason"] = json!(refusal.reason.map(|reason| reason.as_str()));
        description["violations"] = refusal.violations.iter().map(violation).collect();
    }
    json!({ "event": "error", "error": description })
}

pub(crate) fn identity(identity: &Identity) -> Value {
    let vocabulary = identity.vocabulary.clone().unwrap_or_default();
    json!({
        "version_id": identity.version_id,
        "label": identity.label,
        "architecture": identity.architecture,
        "vocabulary": {
            "fingerprint": vocabulary.fingerprint,
            "size": vocabulary.size,
            "end_token_ids": vocabulary.end_token_ids,
            "begin_token_id": vocabulary.begin_token_id,
        },
        "context_length": identity.context_length,
        "incarnation": identity.incarnation,
        "protocol_number": identity.protocol_number,
        "transform_spec": identity.transform_spec,
        "dtype": identity.dtype,
        "device": identity.device,
        "step_weight_bytes": identity.step_weight_bytes,
        "compute_threads": identity.compute_threads,
    })
}

pub(crate) fn rule(rule: AcceptanceRule) -> String {
    match rule {
        AcceptanceRule::Standard => "standard",
        AcceptanceRule::DraftInvariant => "draft-invariant",
        AcceptanceRule::Unspecified => "unspecified",
    }
    .to_owned()
}

pub(crate) fn draft_state(state: DraftState) -> &'static str {
    match state {
        DraftState::Ready => "ready",
        DraftState::Unreachable => "unreachable",
        DraftState::Incompatible => "incompatible",
        DraftState::Unspecified => "unknown",
    }
}

fn finish_reason(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop => "stop",
        FinishReason::Length => "length",
        FinishReason::Unspecified => "unknown",
    }
}
