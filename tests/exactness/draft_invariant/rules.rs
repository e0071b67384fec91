//! Which rule a request gets, and what the other one promises for a seed.

use std::collections::HashSet;

use specfleet_client::v1::{AcceptanceRule, GenerateRequest, SpeculationOptions};
use specfleet_speculation::TokenId;
use specfleet_tests::{
    outcome::Outcome,
    scripted_pair::{ScriptedPair, settings},
};

use super::{lively, sampled, taste};

const PROMPT: [TokenId; 2] = [5, 3];
const RULES: [AcceptanceRule; 2] = [AcceptanceRule::Standard, AcceptanceRule::DraftInvariant];

async fn run(pair: &ScriptedPair, seed: Option<u64>, rule: AcceptanceRule, draft_length: u32) -> Outcome {
    let speculation =
        SpeculationOptions { rule: rule.into(), max_draft_length: Some(draft_length), ..Default::default() };
    pair.generate(GenerateRequest { speculation: Some(speculation), ..sampled(&PROMPT, 64, seed) }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_seed_chooses_the_draft_invariant_rule_and_the_field_overrides_it() {
    let pair = ScriptedPair::of_models(lively(), taste(2, 4.0), settings()).await;
    for (seed, by_default) in [(None, AcceptanceRule::Standard), (Some(7), AcceptanceRule::DraftInvariant)] {
        assert_eq!(run(&pair, seed, AcceptanceRule::Unspecified, 3).await.speculation().rule(), by_default);
        for rule in RULES {
            let outcome = run(&pair, seed, rule, 3).await;
            assert_eq!(outcome.speculation().rule(), rule);
            assert!(outcome.speculation().accepted > 0 && outcome.speculation().corrected > 0);
        }
    }
}

/// Under the standard rule a seed and everything about the draft fix the text; the draft length is a part of it.
#[tokio::test(flavor = "multi_thread")]
async fn under_the_standard_rule_a_seed_fixes_the_text_of_one_draft_and_length() {
    let pair = ScriptedPair::of_models(lively(), taste(2, 4.0), settings()).await;
    let other = ScriptedPair::of_models(lively(), taste(3, 4.0), settings()).await;
    let text = async |pair: &ScriptedPair, rule, draft_length| run(pair, Some(7), rule, draft_length).await.token_ids();
    let mut texts = [HashSet::new(), HashSet::new()];
    for (rule, texts) in RULES.into_iter().zip(&mut texts) {
        for (pair, draft_length) in [(&pair, 0), (&pair, 2), (&pair, 5), (&other, 2)] {
            let first = text(pair, rule, draft_length).await;
            assert_eq!(text(pair, rule, draft_length).await, first, "{rule:?}, length {draft_length}");
            texts.insert(first);
        }
    }
    let [standard, invariant] = texts.map(|texts| texts.len());
    assert_eq!(invariant, 1);
    assert!(standard > 1, "if it were one here too, this would not be able to tell the rules apart");
}

/// Without a seed the draft-invariant rule may be had as well; its noise is then nobody's to repeat.
#[tokio::test(flavor = "multi_thread")]
async fn the_draft_invariant_rule_without_a_seed_is_random() {
    let pair = ScriptedPair::of_models(lively(), taste(2, 4.0), settings()).await;
    let text = async || run(&pair, None, AcceptanceRule::DraftInvariant, 3).await.token_ids();
    assert_ne!(text().await, text().await);
}
