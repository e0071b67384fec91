//! Cases in which one fault or another shows.

use specfleet_client::v1::{LogitBias, SamplingParams};

use super::case::Case;
use crate::sampling::draws::{DraftLength, Draw, Plan, Seeds};

/// One id after another is a draw.
const EACH_TOKEN: Draw = Draw::Piece { length: 1, context: 0 };
/// The prompt's own pass gives the first token; the others are those of a round.
const THREE_TOKENS: Draw = Draw::Beginning { length: 3 };

fn case(name: &'static str, tables: [&'static str; 2], draw: Draw, sampling: SamplingParams) -> Case {
    let [target, draft] = tables;
    let plan = Plan { sampling, draw, seeds: Seeds::Standard, concurrency: 16, ..Plan::default() };
    Case { name, target, draft, plan }
}

/// Sixteen ids, the draft the reverse of the target.
pub(super) fn reversed() -> Case {
    let tables = [include_str!("../sampling/tables/rising.txt"), include_str!("../sampling/tables/falling.txt")];
    case("reversed", tables, EACH_TOKEN, SamplingParams::default())
}

/// A sure draft of an unsure target: most positions are a close decision.
pub(super) fn leaning() -> Case {
    case("leaning draft", ["* -> 0:1 1:1", "* -> 0:9 1:1"], EACH_TOKEN, SamplingParams::default())
}

/// p = q: everything passes, and what is drawn is what comes out.
pub(super) fn agreeing() -> Case {
    case("p = q", ["* -> 0:4 1:1", "* -> 0:4 1:1"], EACH_TOKEN, SamplingParams::default())
}

/// p = q to the last bit, and id 0 is in neither.
pub(super) fn identical() -> Case {
    let four = "* -> 1:1 2:1 3:1 4:1";
    case("p = q to the bit", [four, four], EACH_TOKEN, SamplingParams::default())
}

/// Fifteen ids that the draft proposes now and then, one of them once in 40 tokens, and the target hardly ever writes.
pub(super) fn rare() -> Case {
    let tables = [
        "* -> 0:3000 1:1 2:1 3:1 4:1 5:1 6:1 7:1 8:1 9:1 10:1 11:1 12:1 13:1 14:1 15:1",
        "* -> 0:540 1:1 2:1 3:1 4:1 5:1 6:1 7:1 8:1 9:1 10:1 11:1 12:1 13:1 14:1 15:1",
    ];
    case("rare ids", tables, EACH_TOKEN, SamplingParams::default())
}

/// p = q once both are shaped, so that every second token is a bonus.
pub(super) fn sharpened() -> Case {
    let sampling = SamplingParams { temperature: Some(0.5), ..SamplingParams::default() };
    let mut case = case("p = q at 0.5", ["* -> 0:1 1:2 2:3 3:4", "* -> 0:1 1:2 2:3 3:4"], EACH_TOKEN, sampling);
    case.plan.draft_length = DraftLength::Fixed(1);
    case
}

/// A sure target and a flat draft: every second draft token is rejected.
pub(super) fn sure() -> Case {
    let sampling = SamplingParams { temperature: Some(0.25), ..SamplingParams::default() };
    case("sure at 0.25", ["* -> 0:1 1:2 2:3 3:4", "* -> 0:1 1:1 2:1 3:1"], EACH_TOKEN, sampling)
}

/// The bias turns the target's preferences round.
pub(super) fn biased() -> Case {
    let logit_bias = [(0, 2.0), (2, -2.0)].map(|(token_id, bias)| LogitBias { token_id, bias }).to_vec();
    let sampling = SamplingParams { logit_bias, ..SamplingParams::default() };
    case("logit bias", ["* -> 0:1 1:2 2:3", "* -> 0:3 1:2 2:1"], EACH_TOKEN, sampling)
}

/// p = [.6 .3 .06 .04], of which min-p leaves the first two; q is flat, and stays so.
pub(super) fn min_p() -> Case {
    let sampling = SamplingParams { min_p: Some(0.2), ..SamplingParams::default() };
    case("min-p 0.2", ["* -> 0:60 1:30 2:6 3:4", "* -> 0:1 1:1 2:1 3:1"], EACH_TOKEN, sampling)
}

/// Both sides keep the two likeliest ids, which they like in different order.
pub(super) fn top_k() -> Case {
    let sampling = SamplingParams { top_k: Some(2), ..SamplingParams::default() };
    case("top-k 2", ["* -> 0:4 1:3 2:2 3:1", "* -> 0:3 1:4 2:2 3:1"], EACH_TOKEN, sampling)
}

/// The draft proposes ids that the target never writes.
pub(super) fn excluded() -> Case {
    case("excluded ids", ["* -> 2:3 3:7", "* -> 0:1 1:1 2:1 3:1"], EACH_TOKEN, SamplingParams::default())
}

/// Logits of 10 and 10.03, which are one number in bf16, at a temperature that tells them apart.
pub(super) fn near_tie() -> Case {
    let sampling = SamplingParams { temperature: Some(0.1), ..SamplingParams::default() };
    case("near tie", ["* -> 0:1 1:1", "* -> 0:22026.47 1:22697.27"], EACH_TOKEN, sampling)
}

/// Three ids, each less likely for having occurred.
pub(super) fn penalised() -> Case {
    let sampling = SamplingParams { frequency_penalty: Some(2.0), ..SamplingParams::default() };
    case("frequency penalty 2", ["* -> 0:1 1:1 2:1", "* -> 0:3 1:2 2:1"], THREE_TOKENS, sampling)
}

/// The same, but once is as often as it gets.
pub(super) fn present() -> Case {
    let sampling = SamplingParams { presence_penalty: Some(2.0), ..SamplingParams::default() };
    case("presence penalty 2", ["* -> 0:1 1:1 2:1", "* -> 0:3 1:2 2:1"], THREE_TOKENS, sampling)
}

/// Three ids, of which one is in the prompt: a weight of 9 is one of 3 for who has occurred.
pub(super) fn repeated() -> Case {
    let sampling = SamplingParams { repetition_penalty: Some(2.0), ..SamplingParams::default() };
    case("repetition penalty 2", ["* -> 0:9 1:9 3:9", "* -> 0:4 1:2 3:9"], THREE_TOKENS, sampling)
}

/// Every token may be the last.
pub(super) fn ending() -> Case {
    let draw = Draw::Beginning { length: 4 };
    case("end token", ["* -> 0:1 15:1", "* -> 0:1 15:2"], draw, SamplingParams::default())
}

/// The third token may be the last.
pub(super) fn min_tokens() -> Case {
    let sampling = SamplingParams { min_tokens: 2, ..SamplingParams::default() };
    case("min_tokens 2", ["* -> 0:1 15:1", "* -> 0:2 15:1"], Draw::Beginning { length: 4 }, sampling)
}

/// What follows depends on the last id, for both sides.
pub(super) fn dependent() -> Case {
    let target = "
        * -> 0:1 1:1 2:1
        0 -> 0:1 1:2 2:6
        1 -> 0:6 1:1 2:2
        2 -> 0:2 1:6 2:1";
    let draft = "
        * -> 0:3 1:2 2:1
        0 -> 0:4 1:2 2:1
        1 -> 0:1 1:4 2:2
        2 -> 0:2 1:1 2:4";
    case("rows depend on the last id", [target, draft], THREE_TOKENS, SamplingParams::default())
}

/// Under the rule that a seed brings.
pub(super) fn invariant() -> Case {
    let tables = ["* -> 0:1 1:2 2:3", "* -> 0:3 1:2 2:1"];
    let mut case = case("draft-invariant", tables, THREE_TOKENS, SamplingParams::default());
    case.plan.seeds = Seeds::DraftInvariant;
    case
}

pub(super) fn all() -> Vec<Case> {
    vec![
        reversed(),
        leaning(),
        agreeing(),
        identical(),
        rare(),
        sharpened(),
        sure(),
        biased(),
        min_p(),
        top_k(),
        excluded(),
        near_tie(),
        penalised(),
        present(),
        repeated(),
        ending(),
        min_tokens(),
        dependent(),
        invariant(),
    ]
}
