//! Stop strings. With speculation a round can run past one, begin in the middle of one, or hold all of it.

use specfleet_model::{scripted::ScriptedModel, tokenizer::Tokenizer};
use specfleet_protocol::v1::{FinishReason, GenerateRequest};
use specfleet_speculation::TokenId;

use crate::support::{END, FakeDraft, Outcome, Verifier, drafted, greedy_target, options, request};

/// The prompt of these tests. What follows depends on positions alone.
const PROMPT: [TokenId; 1] = [13];

/// A continuation that spells `text`, then ends.
fn spelling(text: &'static str) -> impl Fn(&[TokenId]) -> TokenId + Send + Sync + Clone + 'static {
    |prefix| text.as_bytes().get(prefix.len() - PROMPT.len()).map_or(END, |letter| TokenId::from(letter - b'a'))
}

fn stopping(stops: &[&str], request: GenerateRequest) -> GenerateRequest {
    GenerateRequest { stop: stops.iter().map(|&stop| stop.to_owned()).collect(), ..request }
}

/// The same request with drafts of every length up to 6, without faults in its account.
async fn for_all_rounds(text: &'static str, stops: &[&str], max_tokens: u32, check: impl Fn(&Outcome)) {
    let next = spelling(text);
    let draft = FakeDraft::following(next.clone());
    let verifier = Verifier::with_draft(greedy_target(next), &draft, options()).await;
    for draft_length in 0..=6 {
        let outcome = verifier.generate(stopping(stops, drafted(&PROMPT, max_tokens, draft_length))).await;
        outcome.assert_consistent();
        check(&outcome);
    }
    verifier.assert_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn text_ids_and_usage_end_at_the_same_token_wherever_rounds_begin() {
    for text in ["xyaaaaaaaaaaaaaa", "aaxyaaaaaaaaaaaa", "aaaaaxyaaaaaaaaa", "aaaaaaaaaxyaaaaa", "aaaaaaaaaaaaaaxy"] {
        // The vocabulary spells letters up to n.
        let text: &'static str = text.replace('x', "m").replace('y', "n").leak();
        let start = text.find("mn").unwrap();
        for_all_rounds(text, &["mn"], 50, |outcome| {
            assert_eq!((outcome.text(), outcome.reason()), (text[..start].to_owned(), FinishReason::Stop));
            assert_eq!(outcome.tokens().len(), start + 2, "up to the token that completes it");
            assert_eq!(outcome.finished.as_ref().unwrap().usage.unwrap().completion_tokens as usize, start + 2);
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_earliest_end_wins() {
    for_all_rounds("abmcde", &["m"], 5, |outcome| {
        assert_eq!((outcome.text().as_str(), outcome.reason()), ("ab", FinishReason::Stop));
        assert_eq!(outcome.tokens().len(), 3, "nothing behind it");
    })
    .await;
    for_all_rounds("abcdem", &["m"], 5, |outcome| {
        assert_eq!((outcome.text().as_str(), outcome.reason()), ("abcde", FinishReason::Length));
    })
    .await;
    for_all_rounds("abcdm", &["m"], 5, |outcome| {
        assert_eq!(
            (outcome.text().as_str(), outcome.reason()),
            ("abcd", FinishReason::Stop),
            "the last token completes it"
        );
    })
    .await;
    for_all_rounds("abcdefgh", &["gh", "fgh", "de", "cdefg"], 50, |outcome| {
        assert_eq!(outcome.text(), "abc", "the one that is complete first, not the one that begins first");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_held_back_for_nothing_is_shown_once_and_in_order() {
    for_all_rounds("abcabdabcabe", &["abf", "cabx"], 50, |outcome| {
        assert_eq!((outcome.text().as_str(), outcome.reason()), ("abcabdabcabe", FinishReason::Stop));
    })
    .await;
    for_all_rounds("aabbaabb", &["bbm"], 4, |outcome| {
        assert_eq!((outcome.text().as_str(), outcome.reason()), ("aabb", FinishReason::Length), "shown at the end");
    })
    .await;
    for_all_rounds("aabb", &["bbm"], 50, |outcome| {
        let last = outcome.rounds.last().unwrap().tokens.last().unwrap();
        assert_eq!(
            (last.token_id, last.text.as_str()),
            (END, "bb"),
            "with the end token, which has no text of its own"
        );
    })
    .await;
}

/// "aaab" with the stop string "aab": the second a is where it begins.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_string_is_found_inside_its_own_beginning() {
    for_all_rounds("aaabccc", &["aab"], 50, |outcome| assert_eq!(outcome.text(), "a")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_string_may_be_a_split_character_or_stand_between_characters() {
    let crab = "🦀".as_bytes();
    let bytes = vec![b"a".to_vec(), crab[..2].to_vec(), crab[2..].to_vec(), b"wor".to_vec(), b"ld".to_vec()];
    let tokenizer = || Tokenizer::from_bytes(bytes.clone(), &[], &[]);
    let target = |text: &'static [TokenId]| {
        ScriptedModel::from_fn(5, move |prefix| {
            let next = text.get(prefix.len() - 1).copied().unwrap_or(0);
            (0..5).map(|id| if id == next { 30.0 } else { -30.0 }).collect()
        })
    };
    for (text, stop, expected) in [
        (&[1, 2, 3, 4, 1, 2][..], "world", "🦀"),
        (&[0, 1, 2, 0], "🦀", "a"),
        (&[1, 2, 1, 2, 0], "🦀🦀", ""),
        (&[0, 1, 0, 1, 2], "\u{FFFD}a", "a"),
    ] {
        let verifier = Verifier::spelling(target(text), tokenizer(), Vec::new(), options());
        let outcome = verifier.generate(stopping(&[stop], request(&[0], 6))).await;
        assert_eq!((outcome.text().as_str(), outcome.reason()), (expected, FinishReason::Stop), "{stop}");
    }
}

/// The text of a sampled request does not depend on what it is looked through for.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_string_cuts_the_text_and_changes_nothing_before() {
    let target = || ScriptedModel::from_fn(16, |_| (0..16).map(|id| if id < 4 { 0.0 } else { -30.0 }).collect());
    let draft = FakeDraft::following(|prefix| prefix.len() as TokenId % 4);
    let verifier = Verifier::with_draft(target(), &draft, options()).await;
    for seed in 0..40 {
        let sampled =
            |draft_length| GenerateRequest { sampling: None, seed: Some(seed), ..drafted(&PROMPT, 60, draft_length) };
        let whole = verifier.generate(sampled(0)).await.text();
        for draft_length in [0, 1, 4] {
            let outcome = verifier.generate(stopping(&["ab", "bca"], sampled(draft_length))).await;
            outcome.assert_consistent();
            let end =
                ["ab", "bca"].into_iter().filter_map(|stop| Some((whole.find(stop)? + stop.len(), stop.len()))).min();
            let expected = end.map_or(whole.as_str(), |(end, length)| &whole[..end - length]);
            assert_eq!(outcome.text(), expected);
        }
    }
}
