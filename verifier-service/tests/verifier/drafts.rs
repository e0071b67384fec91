//! A draft that is absent, slow, wrong, upgraded or hostile costs speed and nothing else, and is used again as soon as it
//! is well.

use std::time::Duration;

use specfleet_protocol::{
    PrefixDigest, channel,
    status::Reason,
    v1::{
        self, DenseDistribution, DraftState, DraftToken, GenerateRequest, SparseDistribution, SpeculationOptions,
        draft_response, draft_token::Distribution,
    },
};
use specfleet_speculation::TokenId;
use specfleet_verifier_service::Options;
use tonic::Status;

use crate::support::{
    Advance, Answer, FakeDraft, Outcome, Verifier, drafted, garbled, greedy_target, options, plain, request,
    version_id, winding,
};

const PROMPT: [TokenId; 3] = [1, 2, 3];

fn faithful(advance: &Advance) -> Answer {
    Answer::Tokens(plain(winding, &advance.committed, advance.draft_length))
}

/// Runs a request of 60 tokens and checks that its text is the target's.
async fn run(verifier: &Verifier) -> Outcome {
    let outcome = verifier.generate(drafted(&PROMPT, 60, 3)).await;
    outcome.assert_tokens(&plain(winding, &PROMPT, 60));
    outcome
}

fn unreachable() -> (String, tonic::transport::Channel) {
    let (channel, incoming) = channel::in_memory();
    drop(incoming);
    ("nobody".to_owned(), channel)
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_draft_decoding_is_plain_at_once() {
    let verifier = Verifier::start(greedy_target(winding), vec![unreachable()], options());
    let outcome = run(&verifier).await;
    assert_eq!(outcome.speculation().plain_reasons["no_draft"], 59);
    verifier.await_draft(DraftState::Unreachable).await;
    assert!(!verifier.drafts().await[0].detail.is_empty());
    assert_eq!(verifier.metric("specfleet_verifier_plain_steps_total", "no_draft"), 59.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_breaks_is_left_and_opened_anew_within_the_request() {
    let draft = FakeDraft::new(|advance| match advance.number {
        3 => Answer::Break(Status::unavailable("restarting")),
        _ => faithful(advance),
    });
    // Slow enough that the draft is back before the request ends.
    let target = greedy_target(winding).with_delay(Duration::from_millis(5));
    let verifier = Verifier::with_draft(target, &draft, options()).await;
    let outcome = run(&verifier).await;
    let report = outcome.speculation();
    assert!(report.plain_reasons["stream_error"] >= 1, "{report:?}");
    assert!(draft.opens().len() >= 2, "opened anew");
    let reopened = draft.opens()[1].clone();
    assert!(reopened.committed.len() > PROMPT.len() + 1, "with the whole prefix");
    assert_eq!(reopened.prompt_length as usize, PROMPT.len());
    assert!(report.accepted > 15, "and used: {report:?}");
    verifier.assert_idle().await;
}

/// The draft's process dies in the middle of a request and is started again: both happen within the request.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_draft_is_missed_at_once_and_used_again_when_it_is_back() {
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let channel = channel::connect_lazy(&address.to_string(), &channel::ChannelOptions::default()).unwrap();
    let target = greedy_target(winding).with_delay(Duration::from_millis(5));
    let verifier = Verifier::start(target, vec![("draft".to_owned(), channel)], options());
    verifier.await_draft(DraftState::Unreachable).await;

    let (first, second) = (FakeDraft::new(faithful), FakeDraft::new(faithful));
    let process = first.serve_apart(address);
    verifier.await_draft(DraftState::Ready).await;
    let request = verifier.generate(drafted(&PROMPT, 1000, 3));
    let fate = async {
        verifier.until("drafting", async || first.advances().len() > 10).await;
        process.shutdown_background();
        verifier.await_draft(DraftState::Unreachable).await;
        let process = second.serve_apart(address);
        verifier.until("drafting again", async || second.advances().len() > 10).await;
        process.shutdown_background();
    };
    let (outcome, ()) = tokio::join!(request, fate);
    outcome.assert_tokens(&plain(winding, &PROMPT, 1000));
    let report = outcome.speculation();
    assert!(report.plain_reasons["stream_error"] >= 1 && report.plain_reasons["no_draft"] >= 1, "{report:?}");
    assert_eq!(report.corrected, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_draft_costs_one_wait_and_no_more() {
    let draft = FakeDraft::new(|advance| match advance.number {
        2 => Answer::Silence,
        _ => faithful(advance),
    });
    let wait = Duration::from_secs(1);
    let verifier =
        Verifier::with_draft(greedy_target(winding), &draft, Options { draft_wait: wait, ..options() }).await;
    let started = std::time::Instant::now();
    let outcome = run(&verifier).await;
    let took = started.elapsed();
    assert!(took >= wait && took < 2 * wait, "{took:?}");
    let report = outcome.speculation();
    // One token from the prompt, two rounds of four, the rest plain.
    assert_eq!(report.plain_reasons["late"], 51);
    assert_eq!(draft.advances().len(), 3, "a silent draft is not asked again");
    verifier.assert_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_proposal_is_dropped_and_the_next_one_used() {
    let draft = FakeDraft::new(|advance| match advance.number {
        1 => Answer::After(Duration::from_millis(500), Box::new(faithful(advance))),
        _ => faithful(advance),
    });
    let target = greedy_target(winding).with_delay(Duration::from_millis(10));
    let options = Options { draft_wait: Duration::from_millis(300), ..options() };
    let verifier = Verifier::with_draft(target, &draft, options).await;
    let outcome = run(&verifier).await;
    let report = outcome.speculation();
    assert_eq!(report.dropped_proposals["late"], 1);
    assert!(report.plain_reasons["late"] >= 3, "{report:?}");
    assert_eq!(report.corrected, 0, "the stale proposal was not tested: {report:?}");
    assert!(report.accepted > 15, "{report:?}");
}

/// An answer about another prefix, whether of the wrong length or only of the wrong digest.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_about_another_prefix_is_dropped() {
    let draft = FakeDraft::new(|advance| {
        let mut proposal = advance.proposal(&[14; 3]);
        match advance.number % 3 {
            0 => proposal.base_digest ^= 1,
            1 => proposal.base_length -= 1,
            _ => return faithful(advance),
        }
        Answer::Raw(proposal)
    });
    let verifier = Verifier::with_draft(greedy_target(winding), &draft, options()).await;
    let outcome = run(&verifier).await;
    let report = outcome.speculation();
    assert_eq!(report.dropped_proposals["stale"], report.plain_reasons["stale"]);
    assert!(report.plain_reasons["stale"] >= 10 && report.corrected == 0, "{report:?}");
    assert!(verifier.metric("specfleet_verifier_dropped_proposals_total", "stale") >= 10.0);
}

/// Two requests with prefixes of equal length, and a draft that gives each the answer to the other.
#[tokio::test(flavor = "multi_thread")]
async fn answers_that_are_swapped_between_two_requests_are_dropped() {
    const OTHER: [TokenId; 3] = [4, 5, 6];
    let draft = FakeDraft::new(|advance| {
        let other = if advance.committed.starts_with(&PROMPT) { OTHER } else { PROMPT };
        let prefix = [&other[..], &plain(winding, &other, advance.committed.len() - other.len())].concat();
        let proposal = advance.proposal(&plain(winding, &prefix, advance.draft_length));
        Answer::Raw(v1::Proposal { base_digest: PrefixDigest::of(&prefix).value(), ..proposal })
    });
    let verifier = Verifier::with_draft(greedy_target(winding), &draft, options()).await;
    let requests = [PROMPT, OTHER].map(|prompt| {
        let verifier = &verifier;
        async move {
            let outcome = verifier.generate(drafted(&prompt, 40, 3)).await;
            outcome.assert_tokens(&plain(winding, &prompt, 40));
            let report = outcome.speculation();
            assert_eq!((report.proposed, report.dropped_proposals["stale"]), (0, 38), "{report:?}");
        }
    });
    futures::future::join_all(requests).await;
    verifier.assert_idle().await;
}

fn sparse(token_id: TokenId, id_deltas: &[u32], weights: &[u32], total: u64) -> DraftToken {
    let distribution = SparseDistribution { id_deltas: id_deltas.to_vec(), weights: weights.to_vec(), total };
    DraftToken { token_id, distribution: Some(Distribution::Sparse(distribution)) }
}

fn dense(token_id: TokenId, values: &[f32]) -> DraftToken {
    let probabilities = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    DraftToken { token_id, distribution: Some(Distribution::Dense(DenseDistribution { probabilities })) }
}

/// Everything that a proposal must not be. Each closes the session before any of its tokens is tested.
fn malformed() -> Vec<Vec<DraftToken>> {
    let mut one_nan = vec![1.0 / 16.0; 16];
    one_nan[7] = f32::NAN;
    vec![
        vec![sparse(16, &[16], &[1], 1)],
        vec![sparse(u32::MAX, &[u32::MAX], &[1], 1)],
        vec![sparse(2, &[0, 1], &[1, 1], 2)],
        vec![sparse(0, &[0, 0], &[1, 1], 2)],
        vec![sparse(0, &[0], &[0], 0)],
        vec![sparse(0, &[0], &[1], 2)],
        vec![sparse(0, &[], &[], 0)],
        vec![dense(0, &[f32::NAN; 16])],
        vec![dense(0, &one_nan)],
        vec![dense(0, &[f32::INFINITY; 16])],
        vec![dense(0, &[-1.0; 16])],
        vec![dense(0, &[0.9 / 16.0; 16])],
        vec![dense(0, &[1.0 / 17.0; 17])],
        vec![DraftToken { token_id: 0, distribution: None }],
        vec![DraftToken { token_id: 16, distribution: Some(Distribution::Point(v1::PointDistribution {})) }],
        vec![DraftToken { token_id: 0, distribution: Some(Distribution::Point(v1::PointDistribution {})) }; 4],
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_proposal_costs_its_session_and_no_token() {
    for (index, tokens) in malformed().into_iter().enumerate() {
        let broken = tokens.clone();
        let draft = FakeDraft::new(move |advance| match advance.number {
            1 => Answer::Drawn(broken.clone()),
            _ => faithful(advance),
        });
        let verifier = Verifier::with_draft(greedy_target(winding), &draft, options()).await;
        let outcome = run(&verifier).await;
        let report = outcome.speculation();
        assert_eq!(report.corrected, 0, "case {index}: {report:?}");
        assert!(report.dropped_proposals["malformed"] >= 1, "case {index}: {report:?}");
        assert!(report.plain_reasons["malformed"] >= 1, "case {index}: {report:?}");
        verifier.assert_idle().await;
    }
}

/// Answers to a question that was not asked, and messages that are no answers at all.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_out_of_place_costs_its_session_and_no_token() {
    type Misplaced = fn(&Advance) -> Answer;
    let misplaced: [Misplaced; 4] = [
        |advance| of_round(advance, |round| round + 1),
        |advance| of_round(advance, |round| round - 1),
        |_| Answer::Message(None),
        |_| {
            let identity = Some(v1::Identity { version_id: version_id('a'), ..Default::default() });
            Answer::Message(Some(draft_response::Message::Opened(v1::Opened { identity })))
        },
    ];
    for (index, misplaced) in misplaced.into_iter().enumerate() {
        let draft = FakeDraft::new(move |advance| match advance.number {
            1 => misplaced(advance),
            _ => faithful(advance),
        });
        let verifier = Verifier::with_draft(greedy_target(winding), &draft, options()).await;
        let report = run(&verifier).await.speculation().clone();
        assert_eq!(report.corrected, 0, "case {index}: {report:?}");
        assert!(report.plain_reasons["malformed"] >= 1, "case {index}: {report:?}");
        verifier.assert_idle().await;
    }
}

fn of_round(advance: &Advance, other: fn(u64) -> u64) -> Answer {
    let proposal = advance.proposal(&[14; 3]);
    Answer::Raw(v1::Proposal { round: other(proposal.round), ..proposal })
}

/// The gRPC library panics on such a status: the session's task is gone, the request must not wait for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_status_that_cannot_be_read_ends_its_session() {
    let draft = FakeDraft::new(|advance| match advance.number {
        1 => Answer::Break(garbled()),
        _ => faithful(advance),
    });
    let verifier = Verifier::with_draft(greedy_target(winding), &draft, options()).await;
    let report = run(&verifier).await.speculation().clone();
    assert!(report.plain_reasons["stream_error"] >= 1, "{report:?}");
    assert_eq!(draft.opens().len(), 2, "tried again after a pause: {report:?}");
    verifier.assert_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draft_whose_identity_cannot_be_read_is_asked_again() {
    let draft = FakeDraft::new(faithful);
    draft.fail_identity(Some(garbled()));
    let verifier = Verifier::start(greedy_target(winding), vec![("draft".to_owned(), draft.serve())], options());
    verifier.await_draft(DraftState::Incompatible).await;
    draft.fail_identity(None);
    verifier.await_draft(DraftState::Ready).await;
}

/// One request that a draft cannot serve must not cost the others theirs.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_too_long_for_a_draft_leaves_it_to_others() {
    let draft = FakeDraft::new(faithful).with_identity(|identity| identity.context_length = 100);
    let verifier = Verifier::with_draft(greedy_target(winding), &draft, options()).await;
    let prompt = [1; 100];
    let outcome = verifier.generate(drafted(&prompt, 20, 3)).await;
    outcome.assert_tokens(&plain(winding, &prompt, 20));
    assert_eq!(outcome.speculation().plain_reasons["nothing_proposed"], 19);
    assert!(draft.opens().is_empty());
    assert!(run(&verifier).await.speculation().accepted > 15);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_refused_leaves_the_draft_to_others() {
    let draft = FakeDraft::new(|advance| match advance.committed[0] {
        9 => Answer::Break(Status::out_of_range("message too large")),
        _ => faithful(advance),
    });
    let verifier = Verifier::with_draft(greedy_target(winding), &draft, options()).await;
    let report = verifier.generate(drafted(&[9], 20, 3)).await.speculation().clone();
    assert_eq!(report.plain_reasons["stream_error"], 19);
    assert_eq!(verifier.drafts().await[0].state(), DraftState::Ready);
    assert!(!run(&verifier).await.speculation().plain_reasons.contains_key("no_draft"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draft_that_keeps_sending_nonsense_is_left_alone_for_longer_and_longer() {
    let draft = FakeDraft::new(|_| Answer::Drawn(vec![dense(0, &[f32::NAN; 16])]));
    let target = greedy_target(winding).with_delay(Duration::from_millis(5));
    let verifier = Verifier::with_draft(target, &draft, options()).await;
    let outcome = run(&verifier).await;
    // 300 ms in all: sessions at 0, 0, 100 and 300 ms.
    assert!((2..=5).contains(&draft.opens().len()), "{} sessions", draft.opens().len());
    assert_eq!(outcome.speculation().accepted, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proposal_of_another_version_is_never_used() {
    for version in [version_id('b'), String::new(), version_id('A')] {
        let draft = FakeDraft::new(move |advance| match advance.number {
            1 => Answer::Raw(v1::Proposal { version_id: version.clone(), ..advance.proposal(&[14; 3]) }),
            _ => faithful(advance),
        });
        let verifier = Verifier::with_draft(greedy_target(winding), &draft, options()).await;
        let report = run(&verifier).await.speculation().clone();
        assert!(report.dropped_proposals["version_mismatch"] >= 1, "{report:?}");
        assert!(report.plain_reasons["version_mismatch"] >= 1, "{report:?}");
        assert_eq!(report.corrected, 0);
    }
}

/// The draft is upgraded behind its address while requests run: its sessions end, and the new version is used once it has
/// said who it is.
#[tokio::test(flavor = "multi_thread")]
async fn an_upgraded_draft_is_noticed_at_the_next_session() {
    let draft = FakeDraft::new(faithful);
    let verifier = Verifier::with_draft(greedy_target(winding), &draft, options()).await;
    assert_eq!(run(&verifier).await.speculation().draft_version_ids, [version_id('a')]);
    draft.change_identity(|identity| {
        identity.version_id = version_id('b');
        identity.incarnation = "second".to_owned();
    });
    let report = run(&verifier).await.speculation().clone();
    assert!(report.plain_reasons.contains_key("version_mismatch") || report.draft_version_ids == [version_id('b')]);
    verifier
        .until("the new version", async || run(&verifier).await.speculation().draft_version_ids == [version_id('b')])
        .await;
    let identity = verifier.drafts().await[0].identity.clone().unwrap();
    assert_eq!(identity.version_id, version_id('b'));
    assert!(identity.vocabulary.unwrap().token_digests.is_empty(), "nobody asked for these");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draft_that_does_not_fit_is_refused_with_the_reason() {
    type Change = fn(&mut v1::Identity);
    let changes: [(&str, Change); 6] = [
        ("protocol", |identity| identity.protocol_number -= 1),
        ("transform spec", |identity| identity.transform_spec += 1),
        ("version_id", |identity| identity.version_id = String::new()),
        ("version_id", |identity| identity.version_id = version_id('A')),
        ("2", |identity| {
            let vocabulary = identity.vocabulary.as_mut().unwrap();
            vocabulary.token_digests[2 * 4] ^= 1;
            vocabulary.fingerprint = version_id('f');
        }),
        ("end", |identity| {
            let vocabulary = identity.vocabulary.as_mut().unwrap();
            vocabulary.end_token_ids = vec![3];
            vocabulary.fingerprint = version_id('f');
        }),
    ];
    for (named, change) in changes {
        let draft = FakeDraft::new(faithful).with_identity(change);
        let verifier = Verifier::start(greedy_target(winding), vec![("draft".to_owned(), draft.serve())], options());
        verifier.await_draft(DraftState::Incompatible).await;
        let v1::DraftStatus { detail, identity, .. } = verifier.drafts().await[0].clone();
        assert!(detail.contains(named), "{named:?} in {detail:?}");
        let is_readable = named != "version_id";
        assert_eq!(identity.map(|identity| identity.version_id), is_readable.then(|| version_id('a')));
        assert_eq!(run(&verifier).await.speculation().plain_reasons["no_draft"], 59);
        assert!(draft.opens().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_draft_is_not_pestered() {
    let draft = FakeDraft::new(|advance| match advance.number {
        1 => Answer::Break(specfleet_protocol::status::session_evicted()),
        _ => faithful(advance),
    });
    let verifier = Verifier::with_draft(greedy_target(winding), &draft, options()).await;
    let report = run(&verifier).await.speculation().clone();
    assert_eq!(draft.opens().len(), 2, "one pause of 32 rounds: {report:?}");
    verifier.await_draft(DraftState::Ready).await;
}

fn pinned(version: String, require_pin: bool) -> GenerateRequest {
    let speculation = SpeculationOptions { pin: version, require_pin, ..Default::default() };
    GenerateRequest { speculation: Some(speculation), ..request(&PROMPT, 60) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pin_is_kept() {
    let (old, new) = (FakeDraft::new(faithful), FakeDraft::new(faithful));
    let new = new.with_identity(|identity| identity.version_id = version_id('b'));
    let drafts = vec![("old".to_owned(), old.serve()), ("new".to_owned(), new.serve())];
    let verifier = Verifier::start(greedy_target(winding), drafts, options());
    verifier
        .until("both", async || verifier.drafts().await.iter().all(|draft| draft.state() == DraftState::Ready))
        .await;
    assert_eq!(run(&verifier).await.speculation().draft_version_ids, [version_id('a')], "the first is preferred");
    let outcome = verifier.generate(pinned(version_id('b'), true)).await;
    assert_eq!(outcome.speculation().draft_version_ids, [version_id('b')]);

    let outcome = verifier.generate(pinned(version_id('c'), false)).await;
    outcome.assert_tokens(&plain(winding, &PROMPT, 60));
    assert_eq!(outcome.speculation().plain_reasons["version_mismatch"], 59);
    let status = verifier.generate(pinned(version_id('c'), true)).await.status.unwrap();
    assert_eq!(status.code(), tonic::Code::FailedPrecondition);
    assert_eq!(Reason::of(&status), Some(Reason::DraftUnavailable));
    assert_eq!(verifier.metric("specfleet_verifier_requests_total", "draft_unavailable"), 1.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_of_a_version_share_the_load() {
    let replicas = [FakeDraft::new(faithful), FakeDraft::new(faithful)];
    let drafts = replicas.iter().map(|draft| ("replica".to_owned(), draft.serve())).collect();
    let target = greedy_target(winding).with_delay(Duration::from_millis(2));
    let verifier = Verifier::start(target, drafts, options());
    verifier
        .until("both", async || verifier.drafts().await.iter().all(|draft| draft.state() == DraftState::Ready))
        .await;
    futures::future::join_all((0..10).map(|_| run(&verifier))).await;
    for replica in &replicas {
        assert!(replica.opens().len() >= 4, "{}", replica.opens().len());
    }
    verifier.assert_idle().await;
}

/// A request without a draft shares its passes with one whose draft is slow: it pays a fraction of a pass each time.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_draft_does_not_slow_others_down() {
    // Waiting for each of its rounds would take 50 times 100 ms.
    let draft = FakeDraft::new(|advance| Answer::After(Duration::from_millis(100), Box::new(faithful(advance))));
    let target = greedy_target(winding).with_delay(Duration::from_millis(4));
    let options = Options { draft_wait: Duration::from_millis(200), ..options() };
    let verifier = Verifier::with_draft(target, &draft, options).await;
    let drafted = verifier.stream(drafted(&PROMPT, 2000, 3)).await.unwrap();
    let mut alone = drafted_off();
    alone.max_tokens = Some(50);
    let started = std::time::Instant::now();
    verifier.generate(alone).await.assert_tokens(&plain(winding, &[7], 50));
    let took = started.elapsed();
    assert!(took < Duration::from_millis(50 * 50), "50 passes of 4 ms took {took:?}");
    drop(drafted);
    verifier.assert_idle().await;
}

fn drafted_off() -> GenerateRequest {
    let speculation = SpeculationOptions { off: true, ..Default::default() };
    GenerateRequest { speculation: Some(speculation), ..request(&[7], 50) }
}

/// Whoever waits for a 1 must see the 0: also where nothing is audited, as with a client's seed.
#[tokio::test(flavor = "multi_thread")]
async fn a_version_shows_that_it_is_not_quarantined_from_its_first_use() {
    let draft = FakeDraft::following(winding);
    let verifier = Verifier::with_draft(greedy_target(winding), &draft, options()).await;
    let shown = || {
        let text = verifier.metrics.text().unwrap();
        let series = text.lines().filter(|line| line.starts_with("specfleet_verifier_draft_quarantined{"));
        series.filter(|series| series.contains(&version_id('a'))).map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(shown().is_empty(), "nobody has used it");
    verifier.generate(GenerateRequest { seed: Some(1), ..drafted(&[1], 10, 3) }).await.assert_consistent();
    let shown = shown();
    assert!(shown.len() == 1 && shown[0].ends_with(" 0"), "{shown:?}");
}
