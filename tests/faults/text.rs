//! Characters that are split over tokens, rounds and rejections. Users must never see half of one, nor miss a whole one.

use specfleet_client::v1::{GenerateRequest, SpeculationOptions};
use specfleet_model::{checkpoint::GenerationDefaults, load::Loaded, scripted::ScriptedModel, tokenizer::Tokenizer};
use specfleet_speculation::TokenId;
use specfleet_tests::{
    in_process::Pair,
    outcome::Outcome,
    scripted_pair::{request, settings},
};

/// What each id spells. The crab is F0 9F A6 80.
const SPELLINGS: [&[u8]; 14] = [
    b"a",
    b"b",
    &[0xF0],
    &[0x9F],
    &[0xA6],
    &[0x80],
    &[0xF0, 0x9F],
    &[0xA6, 0x80],
    &[0xF0, 0x9F, 0xA6],
    &[0x9F, 0xA6, 0x80],
    "é".as_bytes(),
    &[0xFF],
    &[0xE4],
    &[0xBD],
];
const A: TokenId = 0;
const B: TokenId = 1;
const E_ACUTE: TokenId = 10;
const INVALID: TokenId = 11;

/// A model that writes `text` whatever it reads.
fn writes(text: &[TokenId]) -> Loaded {
    let text = text.to_vec();
    let n_vocab = SPELLINGS.len();
    let script = move |prefix: &[TokenId]| {
        let mut logits = vec![-1e4; n_vocab];
        logits[text.get(prefix.len() - 1).copied().unwrap_or(A) as usize] = 0.0;
        logits
    };
    Loaded {
        model: Box::new(ScriptedModel::from_fn(n_vocab, script)),
        tokenizer: Tokenizer::from_bytes(SPELLINGS.map(<[u8]>::to_vec).to_vec(), &[], &[]),
        chat_template: None,
        generation: GenerationDefaults::default(),
        label: "scripted".to_owned(),
    }
}

/// What reaches the client of a pair, token by token, for every draft length up to 5: borders of rounds fall everywhere.
async fn pieces(target: &[TokenId], draft: &[TokenId]) -> Vec<String> {
    let pair = Pair::start(writes(target), writes(draft), settings()).await;
    let mut all = Vec::new();
    for draft_length in 0..=5 {
        let speculation = SpeculationOptions { max_draft_length: Some(draft_length), ..SpeculationOptions::default() };
        let wire = GenerateRequest { speculation: Some(speculation), ..request(&[B], target.len() as u32) };
        let outcome = Outcome::of(&pair.client, wire).await.unwrap();
        assert_eq!(outcome.token_ids(), target);
        assert_eq!(outcome.finished.usage.unwrap().completion_tokens as usize, target.len());
        let pieces = outcome.rounds.iter().flat_map(|round| &round.tokens).map(|token| token.text.clone());
        all.push(pieces.collect::<Vec<_>>());
    }
    assert!(all.iter().all(|pieces| *pieces == all[0]), "rounds must not show: {all:?}");
    all.swap_remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_split_character_is_shown_when_it_is_whole_wherever_rounds_begin() {
    let splits: [&[TokenId]; 4] = [&[2, 9], &[6, 7], &[8, 5], &[2, 3, 4, 5]];
    for split in splits {
        let text = [&[A], split, &[B]].concat();
        let mut expected = vec![String::new(); text.len()];
        expected[0] = "a".to_owned();
        expected[text.len() - 2] = "🦀".to_owned();
        expected[text.len() - 1] = "b".to_owned();
        for draft in [&text[..], &[A; 6]] {
            assert_eq!(pieces(&text, draft).await, expected, "split as {split:?}");
        }
    }
}

/// The draft completes the crab, the target goes on with something else: nobody sees a crab.
#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_second_half_leaves_no_trace() {
    assert_eq!(pieces(&[A, 6, E_ACUTE, B], &[A, 6, 7, B]).await, ["a", "", "\u{FFFD}é", "b"]);
    assert_eq!(pieces(&[A, 2, 3, 4, 5, B], &[A, 2, 3, E_ACUTE, B, B]).await, ["a", "", "", "", "🦀", "b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_impossible_byte_holds_nothing_back() {
    let text = [A, INVALID, B];
    assert_eq!(pieces(&text, &text).await, ["a", "\u{FFFD}", "b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn half_a_character_at_the_end_is_one_replacement() {
    let text = [12, 13];
    assert_eq!(pieces(&text, &text).await, ["", "\u{FFFD}"]);
}
