//! A draft that turns useless harms no text, so somebody has to say it.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::SeqCst},
};

use futures::future::join_all;
use specfleet_protocol::v1::{AcceptanceWatch, VerifierServiceListDraftVersionsRequest};

use crate::support::{Answer, FakeDraft, Verifier, drafted, greedy_target, options, plain, version_id, winding};

const DRAFT_LENGTH: u32 = 16;
const N_CROWD: u32 = 14;
const N_TOKENS: u32 = 80;
/// Of a crowd's tested tokens: 64 of each request, which has more, whether they pass or not.
const N_COUNTED: u64 = 64 * N_CROWD as u64;
/// Tokens from which the usual share is learned.
const N_LEARNED: u64 = 16_384;
/// Where everything used to pass and nothing does: 16 blocks of 256 tokens, and a crowd's until somebody looks.
const N_FOUND_AFTER: u64 = 16 * 256 + N_COUNTED;

/// The figures of the only version.
async fn watch(verifier: &Verifier) -> AcceptanceWatch {
    let request = VerifierServiceListDraftVersionsRequest::default();
    let versions = verifier.client.clone().list_draft_versions(request).await.unwrap().into_inner().versions;
    versions[0].acceptance.unwrap()
}

/// Requests that run together, whose text is right whatever the draft does.
async fn crowd(verifier: &Verifier) {
    let request = |first: u32| async move {
        let outcome = verifier.generate(drafted(&[first], N_TOKENS, DRAFT_LENGTH)).await;
        outcome.assert_tokens(&plain(winding, &[first], N_TOKENS as usize));
    };
    join_all((0..N_CROWD).map(request)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draft_that_turns_useless_raises_an_alarm_which_ends_when_it_is_back() {
    let is_useless = Arc::new(AtomicBool::new(false));
    let useless = is_useless.clone();
    let draft = FakeDraft::new(move |advance| {
        let mut tokens = plain(winding, &advance.committed, advance.draft_length);
        if useless.load(SeqCst) {
            tokens.iter_mut().for_each(|token| *token = (*token + 1) % 15);
        }
        Answer::Tokens(tokens)
    });
    let verifier = Verifier::with_draft(greedy_target(winding), &draft, options()).await;
    let gauge = || verifier.metric("specfleet_verifier_draft_acceptance_fell", &version_id('a'));

    for _ in 0..N_LEARNED / N_COUNTED {
        crowd(&verifier).await;
        assert_eq!(watch(&verifier).await, AcceptanceWatch::default());
    }
    crowd(&verifier).await;
    let steady = AcceptanceWatch { usual: Some(1.0), ..AcceptanceWatch::default() };
    assert_eq!(watch(&verifier).await, steady);

    is_useless.store(true, SeqCst);
    let mut fallen = steady;
    while !fallen.has_fallen {
        assert!(fallen.low_tested < N_FOUND_AFTER, "{fallen:?}");
        crowd(&verifier).await;
        fallen = watch(&verifier).await;
    }
    assert!(fallen.low_accepted < fallen.low_tested / 10 && gauge() == 1.0, "{fallen:?}");

    is_useless.store(false, SeqCst);
    let mut low = fallen;
    while low.has_fallen {
        assert!(low.low_tested < fallen.low_tested + N_FOUND_AFTER, "{low:?}");
        crowd(&verifier).await;
        low = watch(&verifier).await;
    }
    assert_eq!((watch(&verifier).await, gauge()), (steady, 0.0));
    verifier.assert_idle().await;
}
