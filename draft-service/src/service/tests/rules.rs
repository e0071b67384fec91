//! The rules of the stream: what breaks one ends that stream, with the status that the protos promise, and no other.

use specfleet_protocol::{
    status::Reason,
    v1::{self, draft_request::Message},
};
use specfleet_speculation::propose::Support;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::harness::*;

fn bad_fields(status: &Status) -> Vec<String> {
    assert_eq!((status.code(), Reason::of(status)), (Code::InvalidArgument, Some(Reason::InvalidArgument)), "{status}");
    let violations = status.get_details_bad_request().unwrap().field_violations;
    violations.into_iter().map(|violation| violation.field).collect()
}

#[tokio::test]
async fn a_pin_that_is_not_the_served_version_is_refused() {
    let draft = Draft::of_model(mixed_model(), options());
    for pin in [String::new(), "0".repeat(64), draft.version_id.to_uppercase(), format!("{} ", draft.version_id)] {
        let open = v1::Open { pin, ..draft.open_message(&[1], 1) };
        let refused = draft.open_with(open.clone()).await.err().unwrap();
        assert_eq!((refused.code(), Reason::of(&refused)), (Code::FailedPrecondition, Some(Reason::VersionMismatch)));
        let info = refused.get_details_error_info().unwrap();
        assert_eq!(info.metadata["served"], draft.version_id);
        assert_eq!(info.metadata["pin"], open.pin);
    }
    let propose = v1::ProposeRequest { pin: "0".repeat(64), ..draft.propose_message(&[1], 1, 1) };
    let refused = draft.client.clone().propose(propose).await.unwrap_err();
    assert_eq!(Reason::of(&refused), Some(Reason::VersionMismatch));
    assert_eq!(draft.metric_with("specfleet_draft_refusals_total", "VERSION_MISMATCH"), 5.0);
}

#[tokio::test]
async fn another_prefix_than_the_session_s_is_refused() {
    let draft = Draft::of_model(mixed_model(), options());
    let wrong: [fn(&mut v1::Advance); 3] = [
        |advance| advance.base_length += 1,
        |advance| advance.base_digest ^= 1,
        // Right length, another token: an advance that was lost and another that was made up for it.
        |advance| advance.committed[0] += 1,
    ];
    for wrong in wrong {
        let mut session = draft.open(&[1, 2], 1).await;
        session.advance(&[3], 2).await.unwrap();
        let mut advance = session.advance_message(&[4], 2);
        wrong(&mut advance);
        let refused = session.advance_with(advance).await.unwrap_err();
        assert_eq!((refused.code(), Reason::of(&refused)), (Code::FailedPrecondition, Some(Reason::PrefixMismatch)));
    }
    draft.metric_becomes("specfleet_draft_sessions_open", 0.0).await;
}

#[tokio::test]
async fn malformed_opens_are_refused_by_field() {
    let draft = Draft::of_model(mixed_model(), options());
    type Spoil = fn(&mut v1::Open);
    let cases: [(&str, Spoil, &[&str]); 11] = [
        ("empty prefix", |open| open.committed.clear(), &["committed"]),
        ("id at the vocabulary's end", |open| open.committed[1] = 16, &["committed"]),
        ("greatest id", |open| open.committed[0] = u32::MAX, &["committed"]),
        ("no prompt", |open| open.prompt_length = 0, &["prompt_length"]),
        ("prompt longer than the prefix", |open| open.prompt_length = 3, &["prompt_length"]),
        ("no settings", |open| open.settings = None, &["settings"]),
        ("short seed", |open| open.settings.as_mut().unwrap().draft_seed.truncate(31), &["settings.draft_seed"]),
        ("long seed", |open| open.settings.as_mut().unwrap().draft_seed.push(0), &["settings.draft_seed"]),
        ("no rule", |open| open.settings.as_mut().unwrap().rule = 0, &["settings.rule"]),
        ("unknown form", |open| open.settings.as_mut().unwrap().form = 99, &["settings.form"]),
        (
            "three bad parameters at once",
            |open| {
                let sampling = open.settings.as_mut().unwrap().sampling.as_mut().unwrap();
                (sampling.temperature, sampling.top_p, sampling.min_p) = (Some(f32::NAN), Some(0.0), Some(-1.0));
            },
            &["settings.sampling.temperature", "settings.sampling.top_p", "settings.sampling.min_p"],
        ),
    ];
    for (name, spoil, fields) in cases {
        let mut open = draft.open_message(&[1, 2], 1);
        spoil(&mut open);
        let propose = v1::ProposeRequest {
            pin: String::new(),
            settings: open.settings.clone(),
            committed: open.committed.clone(),
            prompt_length: open.prompt_length,
            draft_length: 1,
        };
        let refused = draft.open_with(open).await.err().unwrap();
        assert_eq!(bad_fields(&refused), fields, "{name}");
        let refused = draft.client.clone().propose(propose).await.unwrap_err();
        assert_eq!(bad_fields(&refused), fields, "{name}, unary");
    }
    // And the service goes on.
    assert_eq!(draft.open(&[1, 2], 1).await.advance(&[], 2).await.unwrap().tokens.len(), 2);
}

#[tokio::test]
async fn what_is_said_about_ids_that_only_the_target_knows_is_no_mistake() {
    let draft = Draft::of_model(mixed_model(), options());
    let mut open = draft.open_message(&[1, 2], 1);
    let sampling = open.settings.as_mut().unwrap().sampling.as_mut().unwrap();
    sampling.logit_bias.push(v1::LogitBias { token_id: 16, bias: 1.0 });
    sampling.end_token_ids.push(17);
    draft.open_with(open).await.unwrap();
}

#[tokio::test]
async fn advances_that_break_the_rules_end_the_stream() {
    let draft = Draft::of_model(mixed_model(), options());
    type Spoil = fn(&mut v1::Advance);
    let cases: [(&str, Spoil, &str); 4] = [
        ("the same round again", |advance| advance.round = 1, "advance.round"),
        ("an earlier round", |advance| advance.round = 0, "advance.round"),
        ("nothing wanted", |advance| advance.draft_length = 0, "advance.draft_length"),
        ("an id out of range", |advance| advance.committed = vec![16], "advance.committed"),
    ];
    for (name, spoil, field) in cases {
        let mut session = draft.open(&[1, 2], 1).await;
        session.advance(&[], 1).await.unwrap();
        let mut advance = session.advance_message(&[3], 1);
        spoil(&mut advance);
        let refused = session.advance_with(advance).await.unwrap_err();
        assert_eq!(bad_fields(&refused), [field], "{name}");
    }
}

#[tokio::test]
async fn messages_out_of_order_end_the_stream() {
    let draft = Draft::of_model(mixed_model(), options());

    let mut session = draft.stream().await;
    let advance = session.advance_message(&[1], 1);
    assert_eq!(bad_fields(&session.ask(Message::Advance(advance)).await.unwrap_err()), ["advance"]);

    let mut session = draft.open(&[1], 1).await;
    let again = draft.open_message(&[1], 1);
    assert_eq!(bad_fields(&session.ask(Message::Open(again)).await.unwrap_err()), ["open"]);

    let mut session = draft.stream().await;
    session.send(None).await;
    assert_eq!(bad_fields(&session.hear().await.unwrap_err()), ["message"]);
}

#[tokio::test]
async fn messages_that_come_early_are_answered_in_order() {
    let draft = Draft::of_model(mixed_model(), options());
    let mut session = draft.stream().await;
    session.send(Some(Message::Open(greedy(draft.open_message(&[1, 2], 1))))).await;
    let _ = session.advance_message(&[1, 2], 0);
    for token in 3..6 {
        let advance = session.advance_message(&[token], 2);
        session.send(Some(Message::Advance(advance))).await;
    }
    assert!(matches!(session.hear().await.unwrap(), v1::draft_response::Message::Opened(_)));
    for last in 3..6 {
        let v1::draft_response::Message::Proposal(proposal) = session.hear().await.unwrap() else { panic!() };
        let prefix: Vec<u32> = (1..=last).collect();
        assert_eq!(ids(&proposal), greedy_after(&prefix, 2));
    }
}

#[tokio::test]
async fn the_identity_carries_token_digests_for_those_who_ask() {
    let draft = Draft::of_model(mixed_model(), options());
    for (include_token_digests, n_bytes) in [(false, 0), (true, 4 * N_VOCAB)] {
        let request = v1::DraftServiceGetIdentityRequest { include_token_digests };
        let identity = draft.client.clone().get_identity(request).await.unwrap().into_inner().identity.unwrap();
        assert_eq!(identity.version_id, draft.version_id);
        let vocabulary = identity.vocabulary.unwrap();
        assert_eq!((vocabulary.token_digests.len(), vocabulary.size as usize), (n_bytes, N_VOCAB));
    }
}

#[tokio::test]
async fn the_identity_tells_the_context_that_fits_its_memory() {
    let draft = Draft::of_model(mixed_model().with_kv_tokens(64), options());
    let request = v1::DraftServiceGetIdentityRequest { include_token_digests: false };
    let identity = draft.client.clone().get_identity(request).await.unwrap().into_inner().identity.unwrap();
    assert_eq!(identity.context_length, 64);
}

#[tokio::test]
async fn a_thousand_mistakes_make_a_refusal_that_arrives() {
    let draft = Draft::of_model(mixed_model(), options());
    let mut open = draft.open_message(&[1, 2], 1);
    let sampling = open.settings.as_mut().unwrap().sampling.as_mut().unwrap();
    sampling.logit_bias = (0..1000).map(|index| v1::LogitBias { token_id: index % 16, bias: 101.0 }).collect();
    let refused = draft.open_with(open).await.err().unwrap();
    assert_eq!(bad_fields(&refused), ["settings.sampling.logit_bias"; 2], "out of range, and repeated");
}

#[tokio::test]
async fn another_support_is_another_version() {
    let mut cut = options();
    cut.support = Support::Top(8.try_into().unwrap());
    let (a, b) = (Draft::of_model(mixed_model(), options()), Draft::of_model(mixed_model(), cut));
    assert_ne!(a.version_id, b.version_id);
    assert_eq!(a.version_id, Draft::of_model(mixed_model(), options()).version_id);
}
