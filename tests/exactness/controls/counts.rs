//! Faults in what penalties count: prompt, committed tokens and the draft tokens before a position, each once.
//!
//! Some of them need to know more than a round does. They carry tokens from one round of a request to the next, which goes
//! well as long as requests come one at a time.

use std::cell::RefCell;

use specfleet_speculation::{
    TokenId,
    distribution::Proposal,
    round::{self, RoundOutcome},
    transform::{Error, TokenCounts},
};
use specfleet_verifier_service::controls::{Control, Undecided};

use crate::sampling::draws::PROMPT;

/// Decides a round, and keeps tokens for the next one of the request.
pub(super) type Carry = fn(&Undecided<'_>, &mut Vec<TokenId>) -> Result<RoundOutcome, Error>;

/// Decides all rounds of one request after the other.
pub(super) fn carrying(carry: Carry) -> Control {
    let carried = RefCell::new(vec![]);
    Control::Decides(Box::new(move |undecided| {
        let mut carried = carried.borrow_mut();
        let is_first = undecided.counts.n_generated() == 0;
        if is_first {
            carried.clear();
        }
        carry(&undecided, &mut carried)
    }))
}

/// Counts from the beginning what the verifier counts as it goes.
pub(super) fn right(undecided: &Undecided<'_>, generated: &mut Vec<TokenId>) -> Result<RoundOutcome, Error> {
    counting(undecided, TokenCounts::new(&PROMPT), generated)
}

/// A prompt that was read elsewhere is not known to those who count.
pub(super) fn blind_to_the_prompt(
    undecided: &Undecided<'_>,
    generated: &mut Vec<TokenId>,
) -> Result<RoundOutcome, Error> {
    counting(undecided, TokenCounts::new(&[]), generated)
}

/// Counts stand where the prompt ends.
pub(super) fn blind_to_committed_tokens(undecided: &Undecided<'_>) -> Result<RoundOutcome, Error> {
    let counts = TokenCounts::new(&PROMPT);
    round::decide(undecided.input, |index, before| undecided.shape_counting(index, &counts, before))
}

/// Counts stand where the committed prefix ends.
pub(super) fn blind_to_draft_tokens(undecided: &Undecided<'_>) -> Result<RoundOutcome, Error> {
    round::decide(undecided.input, |index, _| undecided.shape(index, undecided.transforms, &[]))
}

pub(super) fn draft_tokens_twice(undecided: &Undecided<'_>) -> Result<RoundOutcome, Error> {
    round::decide(undecided.input, |index, before| {
        undecided.shape(index, undecided.transforms, &[before, before].concat())
    })
}

/// Draft tokens are counted when they arrive, and those that are rejected stay counted for the round.
pub(super) fn the_whole_proposal(undecided: &Undecided<'_>) -> Result<RoundOutcome, Error> {
    round::decide(undecided.input, |index, _| undecided.shape(index, undecided.transforms, drafted(undecided)))
}

/// Draft tokens are right within their round, but those that it rejects are not taken back.
pub(super) fn what_earlier_rounds_rejected(
    undecided: &Undecided<'_>,
    rejected: &mut Vec<TokenId>,
) -> Result<RoundOutcome, Error> {
    let outcome = round::decide(undecided.input, |index, before| {
        undecided.shape(index, undecided.transforms, &[&rejected[..], before].concat())
    })?;
    rejected.extend(&drafted(undecided)[outcome.n_accepted..]);
    Ok(outcome)
}

/// Adds what was `generated` to the counts of a prompt, and to that what the round commits.
fn counting(
    undecided: &Undecided<'_>,
    mut counts: TokenCounts,
    generated: &mut Vec<TokenId>,
) -> Result<RoundOutcome, Error> {
    generated.iter().for_each(|token| counts.push_generated(*token));
    let outcome = round::decide(undecided.input, |index, before| undecided.shape_counting(index, &counts, before))?;
    generated.extend(outcome.committed.iter().map(|committed| committed.token));
    Ok(outcome)
}

fn drafted<'a>(undecided: &Undecided<'a>) -> &'a [TokenId] {
    undecided.input.proposal.map_or(&[], Proposal::tokens)
}
