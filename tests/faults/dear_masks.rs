//! A grammar comes from a client, and one that is hard to follow takes the engine's time for each of its masks. Everybody
//! waits for the masks of a pass; so those that are dear take turns, and who asked for none goes on.

use std::time::Instant;

use futures::{StreamExt, future::join_all};
use specfleet_client::{
    Event,
    v1::{GenerateRequest, OutputGrammar, output_grammar::Form},
};
use specfleet_tests::{
    drafts,
    scripted_pair::{ScriptedPair, request, settings},
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
            event = plain.next() => if let Event::Committed(round) = event.unwrap().unwrap() { n_plain += round.tokens.len() },
        }
    };
    let took = started.elapsed();
    println!("alone {each:?}, {N_DEAR} at once {took:?} for {n_plain} plain tokens");
    assert!(outcomes.iter().all(|outcome| outcome.token_ids().len() == N_TOKENS as usize), "all are served");
    // All in one pass: as many as each of them. One by one: twelve times as many, once their masks are dear, which they are later
    // on a faster machine.
    assert!(n_plain > 3 * N_TOKENS as usize / 2, "{n_plain}");
}
