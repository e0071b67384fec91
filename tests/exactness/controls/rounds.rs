//! Faults in the target's rows, and in what a round makes of the verdicts.

use half::bf16;
use specfleet_speculation::{
    TokenId,
    accept::{Judge, Residual, Standard, Verdict},
    distribution::{DraftDistribution, Proposal},
    law,
    random::{Purpose, RequestSeed, VerifyRandomness},
    round::{self, CommittedToken, Origin, Round, RoundInput, RoundOutcome},
    transform::{Error, SamplingParams, Shaped, Transforms},
};
use specfleet_tests::scripted_pair::N_VOCAB;
use specfleet_verifier_service::controls::Undecided;

/// Decides a round.
pub(super) type Decide = fn(&Undecided<'_>) -> Result<RoundOutcome, Error>;

/// What the verifier does.
pub(super) fn right(undecided: &Undecided<'_>) -> Result<RoundOutcome, Error> {
    round::decide(undecided.input, |index, before| undecided.shape(index, undecided.transforms, before))
}

/// The bonus token is drawn from the model's own distribution.
pub(super) fn bonus_rows_without_transforms(undecided: &Undecided<'_>) -> Result<RoundOutcome, Error> {
    let neutral = changed(undecided, |params| *params = SamplingParams::default());
    round::decide(undecided.input, |index, before| {
        let is_bonus = index > 0 && index == n_drafted(undecided);
        undecided.shape(index, if is_bonus { &neutral } else { undecided.transforms }, before)
    })
}

/// A token that replaces a rejected one is drawn from the model's own distribution, less q.
pub(super) fn corrections_without_transforms(undecided: &Undecided<'_>) -> Result<RoundOutcome, Error> {
    let mut outcome = right(undecided)?;
    let RoundInput { proposal, base_length, randomness, .. } = undecided.input;
    if let (Some(proposal), Some(last)) = (proposal, outcome.committed.last_mut())
        && last.origin == Origin::Corrected
    {
        let index = outcome.n_accepted;
        let neutral = changed(undecided, |params| *params = SamplingParams::default());
        let row = undecided.shape(index, &neutral, &proposal.tokens()[..index])?;
        let number = randomness.numbers.uniform(base_length + index as u64, Purpose::Choose);
        last.token = match Residual::new(&row, &proposal.distributions()[index]) {
            Some(residual) => law::sample(&residual, number),
            None => law::sample(&row, number),
        };
    }
    Ok(outcome)
}

/// The draft keeps to the client's temperature.
pub(super) fn rows_at_temperature_one(undecided: &Undecided<'_>) -> Result<RoundOutcome, Error> {
    let neutral = changed(undecided, |params| params.temperature = 1.0);
    round::decide(undecided.input, |index, before| undecided.shape(index, &neutral, before))
}

/// As if a transform that keeps the likeliest token could be left out of the test.
pub(super) fn draft_rows_without_min_p(undecided: &Undecided<'_>) -> Result<RoundOutcome, Error> {
    let without = changed(undecided, |params| params.min_p = 0.0);
    with_draft_rows(undecided, |index, before| undecided.shape(index, &without, before))
}

/// The parameters take the plain path only.
pub(super) fn rounds_without_transforms(undecided: &Undecided<'_>) -> Result<RoundOutcome, Error> {
    if n_drafted(undecided) == 0 {
        return right(undecided);
    }
    let neutral = changed(undecided, |params| *params = SamplingParams::default());
    round::decide(undecided.input, |index, before| undecided.shape(index, &neutral, before))
}

/// So that rounds are long.
pub(super) fn draft_rows_without_end(undecided: &Undecided<'_>) -> Result<RoundOutcome, Error> {
    let endless = changed(undecided, |params| params.min_tokens = u32::MAX);
    with_draft_rows(undecided, |index, before| undecided.shape(index, &endless, before))
}

/// The end is looked for in the last token of a round only.
pub(super) fn no_cut_at_the_end(undecided: &Undecided<'_>) -> Result<RoundOutcome, Error> {
    round::decide(RoundInput { is_end: &|_| false, ..undecided.input }, |index, before| {
        undecided.shape(index, undecided.transforms, before)
    })
}

/// Nobody counts how many tokens are left.
pub(super) fn no_cut_at_the_length(undecided: &Undecided<'_>) -> Result<RoundOutcome, Error> {
    round::decide(RoundInput { budget: usize::MAX, ..undecided.input }, |index, before| {
        undecided.shape(index, undecided.transforms, before)
    })
}

/// A row that no token can be drawn from gives the last id, as a search without a result does.
pub(super) fn the_last_id_where_there_is_none(undecided: &Undecided<'_>) -> Result<RoundOutcome, Error> {
    right(undecided).or_else(|_| {
        let last = CommittedToken { token: N_VOCAB as TokenId - 1, origin: Origin::Plain };
        Ok(RoundOutcome { committed: vec![last], ..RoundOutcome::default() })
    })
}

/// Several rows at once are computed in another precision than one.
pub(super) fn rounds_in_half_precision(undecided: &Undecided<'_>) -> Result<RoundOutcome, Error> {
    if n_drafted(undecided) == 0 {
        return right(undecided);
    }
    let round_off = |row: &mut [f32]| row.iter_mut().for_each(|logit| *logit = bf16::from_f32(*logit).to_f32());
    round::decide(undecided.input, |index, before| {
        undecided.shape_changed(index, undecided.transforms, before, round_off)
    })
}

/// Whichever of the likeliest tokens the draft proposes is taken for the greedy choice.
pub(super) fn ties_for_the_draft(undecided: &Undecided<'_>) -> Result<RoundOutcome, Error> {
    let tokens = undecided.input.proposal.map_or(&[][..], Proposal::tokens);
    let sampled = changed(undecided, |params| params.temperature = 1.0);
    with_draft_rows(undecided, |index, before| {
        let row = undecided.shape(index, &sampled, before)?;
        let greatest = (0..N_VOCAB as TokenId).map(|token| row.probability(token)).fold(0.0, f64::max);
        match row.probability(tokens[index]) == greatest {
            true => Ok(Shaped::Point(tokens[index])),
            false => undecided.shape(index, undecided.transforms, before),
        }
    })
}

/// The seed is left unread.
pub(super) fn numbers_from_nowhere(undecided: &Undecided<'_>) -> Result<RoundOutcome, Error> {
    with_numbers(undecided, &VerifyRandomness::new(&RequestSeed::from_entropy()))
}

/// Draft token 0 is taken for one that the target has chosen; token i is held against the row before it.
pub(super) fn first_token_unchecked(undecided: &Undecided<'_>) -> Result<RoundOutcome, Error> {
    let input = undecided.input;
    let Some(proposal) = input.proposal else { return right(undecided) };
    let rest = Round {
        tokens: &proposal.tokens()[1..],
        distributions: &proposal.distributions()[1..],
        base_length: input.base_length + 1,
        is_end: input.is_end,
        budget: input.budget - 1,
    };
    let mut outcome = rest.decide(&mut Standard(&input.randomness.numbers), |index, before| {
        undecided.shape(index, undecided.transforms, before)
    })?;
    outcome.committed.insert(0, CommittedToken { token: proposal.tokens()[0], origin: Origin::Accepted });
    outcome.n_tested += 1;
    outcome.n_accepted += 1;
    Ok(outcome)
}

/// All positions are decided at once, and none of the verdicts voids the rest.
pub(super) fn test_on_after_rejection(undecided: &Undecided<'_>) -> Result<RoundOutcome, Error> {
    let input = undecided.input;
    let Some(proposal) = input.proposal else { return right(undecided) };
    let mut outcome = RoundOutcome::default();
    let mut judge = Standard(&input.randomness.numbers);
    let row = |index| undecided.shape(index, undecided.transforms, &proposal.tokens()[..index]);
    for (index, (token, draft)) in proposal.tokens().iter().zip(proposal.distributions()).enumerate() {
        outcome.n_tested += 1;
        outcome.committed.push(match judge.judge(input.base_length + index as u64, *token, draft, &row(index)?) {
            Verdict::Accepted => {
                outcome.n_accepted += 1;
                CommittedToken { token: *token, origin: Origin::Accepted }
            }
            Verdict::Corrected(token) => CommittedToken { token, origin: Origin::Corrected },
        });
    }
    let position = input.base_length + proposal.len() as u64;
    let token = Judge::<_, DraftDistribution>::choose(&mut judge, position, &row(proposal.len())?);
    outcome.committed.push(CommittedToken { token, origin: Origin::Bonus });
    Ok(outcome)
}

/// What was drafted after the rejected token stays for another round.
pub(super) fn keep_rejected_tokens(undecided: &Undecided<'_>) -> Result<RoundOutcome, Error> {
    let mut outcome = right(undecided)?;
    let tokens = undecided.input.proposal.map_or(&[][..], Proposal::tokens);
    let rejected = tokens.iter().skip(outcome.committed.len());
    outcome.committed.extend(rejected.map(|token| CommittedToken { token: *token, origin: Origin::Accepted }));
    Ok(outcome)
}

/// The right rule, but with other random numbers than the request's.
pub(super) fn with_numbers(undecided: &Undecided<'_>, numbers: &VerifyRandomness) -> Result<RoundOutcome, Error> {
    round::decide(RoundInput { randomness: numbers, ..undecided.input }, |index, before| {
        undecided.shape(index, undecided.transforms, before)
    })
}

/// The right rule, but for the rows of draft positions.
fn with_draft_rows(
    undecided: &Undecided<'_>,
    mut draft_row: impl FnMut(usize, &[TokenId]) -> Result<Shaped, Error>,
) -> Result<RoundOutcome, Error> {
    round::decide(undecided.input, |index, before| match index < n_drafted(undecided) {
        true => draft_row(index, before),
        false => undecided.shape(index, undecided.transforms, before),
    })
}

fn changed(undecided: &Undecided<'_>, change: impl FnOnce(&mut SamplingParams)) -> Transforms {
    let mut params = undecided.transforms.params().clone();
    change(&mut params);
    Transforms::new(params, undecided.transforms.n_vocab()).unwrap()
}

fn n_drafted(undecided: &Undecided<'_>) -> usize {
    undecided.input.proposal.map_or(0, Proposal::len)
}
