//! Faults in the decision about one token.

use half::bf16;
use specfleet_speculation::{
    TokenId,
    accept::{Judge, Residual, Verdict},
    coupled,
    distribution::DraftDistribution,
    law,
    propose::Rule,
    random::{Purpose, VerifyRandomness},
    round::{Round, RoundOutcome},
    transform::{self, Shaped},
};
use specfleet_tests::{lying_draft::known_number, scripted_pair::N_VOCAB};
use specfleet_verifier_service::controls::Undecided;

/// Decides about a token.
pub(super) type Decide = fn(&Position<'_>) -> Verdict;

/// A draft token before its decision.
pub(super) struct Position<'a> {
    at: u64,
    /// The first of the round.
    base: u64,
    token: TokenId,
    draft: &'a DraftDistribution,
    target: &'a Shaped,
    rule: Rule,
    randomness: &'a VerifyRandomness,
}

/// Decides a round like [`specfleet_speculation::round::decide`], but for the verdicts.
pub(super) fn decide(undecided: &Undecided<'_>, decide: Decide) -> Result<RoundOutcome, transform::Error> {
    let input = undecided.input;
    let (tokens, distributions) =
        input.proposal.map_or((&[][..], &[][..]), |proposal| (proposal.tokens(), proposal.distributions()));
    let round =
        Round { tokens, distributions, base_length: input.base_length, is_end: input.is_end, budget: input.budget };
    let mut judge = Controlled { decide, base: input.base_length, rule: input.rule, randomness: input.randomness };
    round.decide(&mut judge, |index, before| undecided.shape(index, undecided.transforms, before))
}

struct Controlled<'a> {
    decide: Decide,
    base: u64,
    rule: Rule,
    randomness: &'a VerifyRandomness,
}

impl Judge<Shaped, DraftDistribution> for Controlled<'_> {
    fn judge(&mut self, at: u64, token: TokenId, draft: &DraftDistribution, target: &Shaped) -> Verdict {
        let Self { base, rule, randomness, .. } = *self;
        (self.decide)(&Position { at, base, token, draft, target, rule, randomness })
    }

    fn choose(&mut self, at: u64, target: &Shaped) -> TokenId {
        match self.rule {
            Rule::Standard => law::sample(target, self.randomness.numbers.uniform(at, Purpose::Choose)),
            Rule::DraftInvariant => coupled::choose(target, &self.randomness.noise, at),
        }
    }
}

impl Position<'_> {
    fn p(&self, token: TokenId) -> f64 {
        self.target.probability(token)
    }

    fn q(&self, token: TokenId) -> f64 {
        self.draft.probability(token)
    }

    fn number(&self, purpose: Purpose) -> f64 {
        self.randomness.numbers.uniform(self.at, purpose)
    }

    /// Of p - q, for each id.
    fn positive_part(&self) -> impl Iterator<Item = f64> {
        (0..N_VOCAB as TokenId).map(|token| (self.p(token) - self.q(token)).max(0.0))
    }

    fn passes(&self, number: f64) -> bool {
        number * self.q(self.token) < self.p(self.token)
    }

    fn test_in_half_precision(&self) -> bool {
        self.passes(bf16::from_f64(self.number(Purpose::Accept)).to_f64())
    }

    fn residual(&self, number: f64) -> Verdict {
        Verdict::Corrected(match Residual::new(self.target, self.draft) {
            Some(residual) => law::sample(&residual, number),
            None => law::sample(self.target, number),
        })
    }

    /// What the target chooses under the shared noise of a position.
    fn chosen(&self, position: u64) -> TokenId {
        coupled::choose(self.target, &self.randomness.noise, position)
    }

    fn afresh(&self) -> Verdict {
        Verdict::Corrected(law::sample(self.target, self.number(Purpose::Choose)))
    }

    fn accept_if(&self, passes: bool, otherwise: impl FnOnce() -> Verdict) -> Verdict {
        if passes { Verdict::Accepted } else { otherwise() }
    }

    /// Whether a draw from the target is the draft token. The number of the accept test is free for it.
    fn matches(&self) -> bool {
        law::sample(self.target, self.number(Purpose::Accept)) == self.token
    }

    fn right_test(&self) -> bool {
        self.passes(self.number(Purpose::Accept))
    }

    fn right_residual(&self) -> Verdict {
        self.residual(self.number(Purpose::Choose))
    }
}

/// Put together from the parts that the faults use, to show that those are right.
pub(super) fn right(position: &Position<'_>) -> Verdict {
    match position.rule {
        Rule::Standard => position.accept_if(position.right_test(), || position.right_residual()),
        Rule::DraftInvariant => {
            let chosen = position.chosen(position.at);
            position.accept_if(chosen == position.token, || Verdict::Corrected(chosen))
        }
    }
}

pub(super) fn accept_everything(_: &Position<'_>) -> Verdict {
    Verdict::Accepted
}

pub(super) fn accept_the_likeliest(position: &Position<'_>) -> Verdict {
    position.accept_if(position.token == likeliest(|token| position.p(token)), || position.right_residual())
}

pub(super) fn accept_what_the_target_likes_more(position: &Position<'_>) -> Verdict {
    position.accept_if(position.p(position.token) >= position.q(position.token), || position.right_residual())
}

/// Of a random generator that does not work on some device.
pub(super) fn test_with_zero(position: &Position<'_>) -> Verdict {
    position.accept_if(position.passes(0.0), || position.right_residual())
}

/// Whatever is drawn from p is taken, and it counts as accepted if it is x.
pub(super) fn match_and_keep(position: &Position<'_>) -> Verdict {
    let drawn = law::sample(position.target, position.number(Purpose::Choose));
    position.accept_if(drawn == position.token, || Verdict::Corrected(drawn))
}

/// Exact if what is committed were the first draw.
pub(super) fn match_then_draw_afresh(position: &Position<'_>) -> Verdict {
    position.accept_if(position.matches(), || position.afresh())
}

pub(super) fn match_then_draw_the_residual(position: &Position<'_>) -> Verdict {
    position.accept_if(position.matches(), || position.right_residual())
}

pub(super) fn draw_afresh(position: &Position<'_>) -> Verdict {
    position.accept_if(position.right_test(), || position.afresh())
}

/// The positive part of p - q taken for logits, not divided by its sum.
pub(super) fn draw_softmax_of_residual(position: &Position<'_>) -> Verdict {
    let draw = || {
        let weights: Vec<f64> = position.positive_part().map(f64::exp).collect();
        let total: f64 = weights.iter().sum();
        first_below(weights.iter().map(|weight| weight / total), position.number(Purpose::Choose))
    };
    position.accept_if(position.right_test(), || Verdict::Corrected(draw()))
}

/// The number of the accept test in half precision, where one in 512 is 1, so that even p = q may fail. Exact but for the
/// sixteenth digit if what follows is drawn with care.
pub(super) fn test_in_half_precision(position: &Position<'_>) -> Verdict {
    position.accept_if(position.test_in_half_precision(), || position.right_residual())
}

/// The same, and the residual divided by its sum. Where p = q that is 0, and 0 / 0 is less than nothing.
pub(super) fn divide_by_an_empty_residual(position: &Position<'_>) -> Verdict {
    let draw = || {
        let total: f64 = position.positive_part().sum();
        first_below(position.positive_part().map(|weight| weight / total), position.number(Purpose::Choose))
    };
    position.accept_if(position.test_in_half_precision(), || Verdict::Corrected(draw()))
}

/// q in steps of 1/255 once the token is drawn. What is 0 then divides p into infinity, which passes.
pub(super) fn divide_by_a_coarse_q(position: &Position<'_>) -> Verdict {
    let coarse = (255.0 * position.q(position.token)).round() / 255.0;
    let passes = position.number(Purpose::Accept) < position.p(position.token) / coarse;
    position.accept_if(passes, || position.right_residual())
}

/// One entry of q is not a number, that of the likeliest id. The lesser of 1 and what is not a number is 1 (`fmin` of C and
/// IEEE 754's minNum too).
pub(super) fn divide_by_what_is_not_a_number(position: &Position<'_>) -> Verdict {
    let is_likeliest = position.token == likeliest(|token| position.q(token));
    let q = if is_likeliest { f64::NAN } else { position.q(position.token) };
    let passes = position.number(Purpose::Accept) < (position.p(position.token) / q).min(1.0);
    position.accept_if(passes, || position.right_residual())
}

pub(super) fn share_test_and_residual(position: &Position<'_>) -> Verdict {
    position.accept_if(position.right_test(), || position.residual(position.number(Purpose::Accept)))
}

pub(super) fn share_tests_of_a_round(position: &Position<'_>) -> Verdict {
    let number = position.randomness.numbers.uniform(position.base, Purpose::Accept);
    position.accept_if(position.passes(number), || position.right_residual())
}

/// A selection that looks at the token before the test does.
pub(super) fn pass_over_unlikely(position: &Position<'_>) -> Verdict {
    if position.p(position.token) < 0.5 / N_VOCAB as f64 { position.afresh() } else { right(position) }
}

/// As for a token that a grammar forbids.
pub(super) fn pass_over_excluded(position: &Position<'_>) -> Verdict {
    if position.p(position.token) == 0.0 { position.afresh() } else { right(position) }
}

/// With a draft that draws with known numbers.
pub(super) fn share_draw_and_test(position: &Position<'_>) -> Verdict {
    let number = known_number(&position.randomness.noise, position.at);
    position.accept_if(position.passes(number), || position.right_residual())
}

/// With a draft that draws with known numbers.
pub(super) fn share_draw_and_residual(position: &Position<'_>) -> Verdict {
    let number = known_number(&position.randomness.noise, position.at);
    position.accept_if(position.right_test(), || position.residual(number))
}

/// Exact if what is committed were the target's own choice.
pub(super) fn match_noise_then_draw_afresh(position: &Position<'_>) -> Verdict {
    position.accept_if(position.chosen(position.at) == position.token, || position.afresh())
}

/// Each token alone has the right law, but those of a round are the same one.
pub(super) fn share_noise_in_a_round(position: &Position<'_>) -> Verdict {
    let chosen = position.chosen(position.base);
    position.accept_if(chosen == position.token, || Verdict::Corrected(chosen))
}

fn likeliest(probability: impl Fn(TokenId) -> f64) -> TokenId {
    let ids = 0..N_VOCAB as TokenId;
    ids.max_by(|left, right| probability(*left).total_cmp(&probability(*right))).unwrap_or(0)
}

/// The id at which a running sum exceeds a number; 0 if none is found, as a search over what is not a number ends.
fn first_below(shares: impl Iterator<Item = f64>, number: f64) -> TokenId {
    let mut sums = shares.scan(0.0, |sum, share| {
        *sum += share;
        Some(*sum)
    });
    sums.position(|sum| number < sum).unwrap_or(0) as TokenId
}
