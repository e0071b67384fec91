//! A grammar comes from a client, and one that is hard to follow takes the engine's time for each of its masks. Everybody
//! waits for the masks of a pass; so those that are dear take turns, and who asked for none goes on.

use std::time::{Duration, Instant};

use futures::{StreamExt, future::join_all};
use specfleet_client::{
    Event,
    v1::{GenerateRequest, OutputGrammar, output_grammar::Form},
};
use specfleet_speculation::TokenId;
use specfleet_tests::{
    drafts,
    scripted_pair::{END, ScriptedPair, request, settings},
};

use crate::support::{certain, winding};

/// Any letters, in as many ways as there are: after n letters, each that may come next is a row of some n entries, each
/// of which is compared with all.
const DEAR: &str = r#"start: s
s: s s | "a" | "b" | "c" | "d" | "e" | "f" | "g" | "h" | "i" | "j" | "k" | "l" | "m" | "n" | "o"
"#;
const N_DEAR: u32 = 12;
const N_TOKENS: u32 = 110;

fn dear(index: u32) -> GenerateRequest {
    let grammar = Some(OutputGrammar { form: Some(Form::Lark(DEAR.to_owned())) });
    GenerateRequest { grammar, speculation: Some(drafts::off()), ..request(&[index], N_TOKENS) }
}

/// How many tokens a request without a grammar gets while those with dear ones get theirs: as many as there are passes.
#[tokio::test(flavor = "multi_thread")]
async fn a_plain_request_waits_for_one_dear_mask_at_a_time_and_not_for_all() {
    let pair = ScriptedPair::of_models(certain(winding), certain(winding), settings()).await;
    let started = Instant::now();
    let alone = pair.generate(dear(14)).await;
    let each = started.elapsed();
    assert_eq!(alone.token_ids().len(), N_TOKENS as usize);

    let plain = GenerateRequest { speculation: Some(drafts::off()), ..request(&[14, 14], 4000) };
    let mut plain = pair.client.generate(plain).await.unwrap();
    let started = Instant::now();
    let mut dear = Box::pin(join_all((0..N_DEAR).map(|index| pair.generate(dear(index)))));
    let mut n_plain = 0;
    let outcomes = loop {
        tokio::select! {
            outcomes = &mut dear => break outcomes,
            event = plain.next() => n_plain += n_tokens(event.unwrap().unwrap()),
        }
    };
    let took = started.elapsed();
    println!("alone {each:?}, {N_DEAR} at once {took:?} for {n_plain} plain tokens");
    assert!(outcomes.iter().all(|outcome| outcome.token_ids().len() == N_TOKENS as usize), "all are served");
    // All in one pass: as many as each of them. One by one: twelve times as many, once their masks are dear, which they are
    // later on a faster machine.
    assert!(n_plain > 3 * N_TOKENS as usize / 2, "{n_plain}");
}

fn n_tokens(event: Event) -> usize {
    if let Event::Committed(round) = event { round.tokens.len() } else { 0 }
}

const N_SHORT: u32 = 48;
/// A pass of the target: long beside what a request needs for anything else.
const PASS: Duration = Duration::from_millis(20);

/// Two letters in hundreds of ways: the mask behind the first of them takes milliseconds, and the one before it is remembered.
fn short(prompt: TokenId) -> GenerateRequest {
    let ways = ('a'..='o').flat_map(|one| ('a'..='o').map(move |other| format!("{one}{other}")));
    let rules: String = ways.clone().map(|way| format!("r{way}: l r{way} | l \"{way}\"\n")).collect();
    let choice = ways.map(|way| format!("r{way}")).collect::<Vec<_>>().join("|");
    let letters = ('a'..='j').map(|one| format!("\"{one}\"")).collect::<Vec<_>>().join("|");
    let grammar = Form::Lark(format!("start: {choice}\n{rules}l: {letters}\n"));
    let grammar = Some(OutputGrammar { form: Some(grammar) });
    GenerateRequest { grammar, speculation: Some(drafts::off()), ..request(&[prompt], 2) }
}

/// Each of many short outputs has one mask that must be computed, and none before it to go by.
#[tokio::test(flavor = "multi_thread")]
async fn short_requests_with_dear_masks_take_turns_too() {
    let target = certain(winding).with_delay(PASS);
    let pair = ScriptedPair::of_models(target, certain(winding), settings()).await;
    let plain = GenerateRequest { speculation: Some(drafts::off()), ..request(&[14, 14], 4000) };
    let mut plain = pair.client.generate(plain).await.unwrap();
    // First nobody knows the form, then everybody does.
    for _ in 0..2 {
        let started = Instant::now();
        let mut short = Box::pin(join_all((0..N_SHORT).map(|index| pair.generate(short(index % END)))));
        let mut n_plain = 0;
        let outcomes = loop {
            tokio::select! {
                outcomes = &mut short => break outcomes,
                event = plain.next() => n_plain += n_tokens(event.unwrap().unwrap()),
            }
        };
        println!("{N_SHORT} at once: {n_plain} plain tokens in {:?}", started.elapsed());
        assert!(outcomes.iter().all(|outcome| outcome.token_ids().len() == 2), "all are served");
        // All in one pass: five or six.
        assert!(n_plain > N_SHORT as usize / 5, "{n_plain}");
    }
}
