//! What the fake says.

use tonic::codegen::http::{HeaderMap, HeaderValue};
use tonic::metadata::MetadataMap;
use tonic::{Code, Status};

use super::{GenerateResponse, TokenOrigin, generate_request, generate_response, v1};

pub(crate) const TARGET_VERSION: &str = "aaaa000011112222333344445555666677778888999900001111222233334444";
const LIAR_VERSION: &str = "eeee000011112222333344445555666677778888999900001111222233334444";
const LOOKUP_VERSION: &str = "abab000011112222333344445555666677778888999900001111222233334444";
const DRAFT_VERSION: &str = "dddd000011112222333344445555666677778888999900001111222233334444";

/// The request as text: "role: content" for each message, or the plain text.
pub(super) fn describe(request: &v1::GenerateRequest) -> String {
    match request.prompt.clone().unwrap() {
        generate_request::Prompt::Text(text) => format!("text: {text}"),
        generate_request::Prompt::TokenIds(ids) => format!("{:?}", ids.ids),
        generate_request::Prompt::Chat(chat) => {
            let messages = chat.messages.iter().map(|message| format!("{}: {}", message.role, message.content));
            messages.collect::<Vec<_>>().join(" | ")
        }
    }
}

/// A whole answer. With speculation: a prefill token, a corrected round, a bonus round, a plain step.
pub(super) fn answer(text: &str, request: &v1::GenerateRequest) -> Vec<GenerateResponse> {
    use TokenOrigin::{Accepted, Bonus, Corrected, Plain};
    if !text.is_empty() {
        return vec![started(), committed(0, &[(text, Plain)]), finished(1, plain_report(), plain_timings())];
    }
    if request.speculation.as_ref().is_some_and(|speculation| speculation.off) {
        let words = ["The", " capital", " is", " Paris", ".", " Yes", "."];
        let steps = words.map(|word| committed(0, &[(word, Plain)]));
        let last = finished(7, plain_report(), plain_timings());
        return [started()].into_iter().chain(steps).chain([last]).collect();
    }
    vec![
        started(),
        committed(0, &[("The", Plain)]),
        committed(3, &[(" capital", Accepted), (" is", Corrected)]),
        committed(2, &[(" Paris", Accepted), ("", Accepted), (".", Bonus)]),
        committed(0, &[("", Plain)]),
        finished(7, report(), timings()),
    ]
}

/// As many whole answers as are wanted, word for word in turns, the last one a word ahead.
pub(super) fn answers(request: &v1::GenerateRequest) -> Vec<GenerateResponse> {
    let numbered = |response: &GenerateResponse, index: u32| {
        let mut response = response.clone();
        match response.event.as_mut() {
            Some(generate_response::Event::Committed(committed)) => committed.choice_index = index,
            Some(generate_response::Event::Finished(finished)) => finished.choice_index = index,
            _ => {}
        }
        response
    };
    let answer = answer("", request);
    let (opening, rest) = answer.split_at(1);
    let turns = rest.iter().flat_map(|response| (0..request.n.max(1)).rev().map(|index| numbered(response, index)));
    opening.iter().cloned().chain(turns).collect()
}

/// A status whose details are no base64.
pub(super) fn garbled() -> Status {
    let mut headers = HeaderMap::new();
    headers.insert("grpc-status-details-bin", HeaderValue::from_static("!!!"));
    Status::with_metadata(Code::Internal, "garbled", MetadataMap::from_headers(headers))
}

pub(super) fn started() -> GenerateResponse {
    response(generate_response::Event::Started(v1::Started {
        request_id: "r-1".to_owned(),
        prompt_tokens: 31,
        reused_prompt_tokens: 16,
        target_version_id: TARGET_VERSION.to_owned(),
    }))
}

pub(super) fn committed(n_proposed: u32, tokens: &[(&str, TokenOrigin)]) -> GenerateResponse {
    let token = |(text, origin): &(&str, TokenOrigin)| v1::CommittedToken {
        token_id: 100 + text.len() as u32,
        text: (*text).to_owned(),
        origin: (*origin).into(),
        ..Default::default()
    };
    response(generate_response::Event::Committed(v1::Committed {
        tokens: tokens.iter().map(token).collect(),
        n_proposed,
        ..Default::default()
    }))
}

fn finished(
    completion_tokens: u32,
    speculation: v1::SpeculationReport,
    timings: v1::RequestTimings,
) -> GenerateResponse {
    response(generate_response::Event::Finished(v1::Finished {
        reason: v1::FinishReason::Stop.into(),
        usage: Some(v1::Usage { prompt_tokens: 31, completion_tokens }),
        speculation: Some(speculation),
        timings: Some(timings),
        choice_index: 0,
    }))
}

fn report() -> v1::SpeculationReport {
    v1::SpeculationReport {
        rule: v1::AcceptanceRule::Standard.into(),
        draft_version_ids: vec![DRAFT_VERSION.to_owned()],
        rounds: 2,
        plain_steps: 1,
        proposed: 5,
        accepted: 3,
        corrected: 1,
        bonus: 1,
        tested_per_position: vec![2, 2],
        accepted_per_position: vec![2, 1],
        plain_reasons: [("late".to_owned(), 1)].into(),
        dropped_proposals: [("late".to_owned(), 1)].into(),
    }
}

fn plain_report() -> v1::SpeculationReport {
    v1::SpeculationReport {
        rule: v1::AcceptanceRule::Standard.into(),
        plain_steps: 6,
        plain_reasons: [("off".to_owned(), 6)].into(),
        ..v1::SpeculationReport::default()
    }
}

fn timings() -> v1::RequestTimings {
    v1::RequestTimings {
        queue_micros: 100,
        prefill_micros: 20_000,
        decode_micros: 45_000,
        verify_micros: 30_000,
        draft_micros: 9_000,
        network_micros: 1_500,
        decode_steps: 3,
    }
}

fn plain_timings() -> v1::RequestTimings {
    v1::RequestTimings {
        queue_micros: 100,
        prefill_micros: 20_000,
        decode_micros: 60_000,
        verify_micros: 54_000,
        decode_steps: 6,
        ..v1::RequestTimings::default()
    }
}

/// A target, a draft that is ready, one that never answered, one that does not fit.
pub(crate) fn identity_response() -> v1::VerifierServiceGetIdentityResponse {
    let ready = v1::DraftStatus {
        endpoint: "http://draft-a:50052".to_owned(),
        state: v1::DraftState::Ready.into(),
        identity: Some(draft_identity()),
        tokens_proposed: 400,
        tokens_accepted: 180,
        open_sessions: 2,
        ..v1::DraftStatus::default()
    };
    let silent = v1::DraftStatus {
        endpoint: "http://draft-b:50052".to_owned(),
        state: v1::DraftState::Unreachable.into(),
        detail: "connection refused".to_owned(),
        ..v1::DraftStatus::default()
    };
    v1::VerifierServiceGetIdentityResponse { identity: Some(target_identity()), drafts: vec![ready, silent] }
}

/// A liar, the version of the draft that is ready, which is trusted, and one that proposes point masses only.
pub(crate) fn draft_versions() -> v1::VerifierServiceListDraftVersionsResponse {
    let version = v1::DraftVersion {
        version_id: DRAFT_VERSION.to_owned(),
        label: "small-draft".to_owned(),
        trust: v1::DraftTrust::Trusted.into(),
        detail: String::new(),
        tokens_proposed: 40_000,
        tokens_accepted: 18_000,
        honesty: Some(v1::HonestyAudit {
            positions: 300,
            expected_accepted: 178.5,
            accepted: 180,
            acceptance_evidence: 0.4,
            rank_evidence: 1.2,
            threshold: 14.5,
        }),
        acceptance: Some(v1::AcceptanceWatch {
            usual: Some(0.6),
            low_tested: 7168,
            low_accepted: 430,
            has_fallen: true,
        }),
        tokens_tested: 30_000,
        points_tested: 29_700,
    };
    let liar = v1::DraftVersion {
        version_id: LIAR_VERSION.to_owned(),
        label: "old-draft".to_owned(),
        trust: v1::DraftTrust::Quarantined.into(),
        detail: "its tokens are not drawn from the q it reports, as shown by where tokens fall in it".to_owned(),
        tokens_proposed: 1000,
        tokens_accepted: 700,
        honesty: Some(v1::HonestyAudit {
            positions: 900,
            expected_accepted: 640.0,
            accepted: 690,
            acceptance_evidence: 5.5,
            rank_evidence: 18.9,
            threshold: 14.5,
        }),
        acceptance: None,
        tokens_tested: 950,
        points_tested: 50,
    };
    let lookup = v1::DraftVersion {
        version_id: LOOKUP_VERSION.to_owned(),
        label: "lookup".to_owned(),
        trust: v1::DraftTrust::Trusted.into(),
        tokens_proposed: 600,
        tokens_accepted: 150,
        honesty: Some(v1::HonestyAudit { threshold: 14.5, ..v1::HonestyAudit::default() }),
        tokens_tested: 400,
        points_tested: 400,
        ..v1::DraftVersion::default()
    };
    v1::VerifierServiceListDraftVersionsResponse { versions: vec![liar, version, lookup] }
}

pub(crate) fn draft_identity() -> v1::Identity {
    v1::Identity {
        version_id: DRAFT_VERSION.to_owned(),
        label: "small-draft".to_owned(),
        step_weight_bytes: 12_500_000,
        compute_threads: 1,
        incarnation: "draft-1".to_owned(),
        ..target_identity()
    }
}

fn target_identity() -> v1::Identity {
    v1::Identity {
        version_id: TARGET_VERSION.to_owned(),
        label: "big-target".to_owned(),
        vocabulary: Some(v1::Vocabulary {
            fingerprint: "ffff".repeat(16),
            size: 49_152,
            end_token_ids: vec![0, 2],
            begin_token_id: Some(1),
            ..v1::Vocabulary::default()
        }),
        context_length: 2048,
        incarnation: "target-1".to_owned(),
        protocol_number: 1,
        transform_spec: 1,
        architecture: "llama".to_owned(),
        dtype: "bf16".to_owned(),
        device: "cpu (avx512-bf16)".to_owned(),
        step_weight_bytes: 1_000_000,
        compute_threads: 2,
    }
}

pub(super) fn response(event: generate_response::Event) -> GenerateResponse {
    GenerateResponse { event: Some(event) }
}
