//! Negative controls: rules that keep text fluent and make it wrong. Each goes through the check that the production
//! rule passes, and fails it. A check that has never rejected anything proves nothing.

use half::f16;
use num_rational::BigRational;
use num_traits::{One, ToPrimitive, Zero};
use specfleet_speculation::TokenId;
use specfleet_speculation::accept::{Choices, Judge, Residual, Standard, Verdict};
use specfleet_speculation::coupled::{DraftInvariant, SharedChoice};
use specfleet_speculation::law::Law;

use crate::case::{Coupled, Method, Production};
use crate::cases::{always, case, penalised, reversed_draft};
use crate::enumerate::{Branches, ExactLaw, Fraction};

type Accept = fn(&mut Branches, TokenId, &ExactLaw, &ExactLaw) -> bool;
type Replace = fn(&ExactLaw, &ExactLaw) -> ExactLaw;
type Draft = fn(&mut Branches, ExactLaw) -> Option<(TokenId, ExactLaw)>;

/// A rule put together from right and wrong parts.
#[derive(Clone, Copy)]
struct Parts {
    draft: Draft,
    accept: Accept,
    replace: Replace,
}

/// All parts right: the same rule as production, written down a second time.
const RIGHT: Parts = Parts { draft: honest_draft, accept: by_ratio, replace: residual };

impl Method for Parts {
    fn draft(&self, branches: &mut Branches, _position: u64, law: ExactLaw) -> Option<(TokenId, ExactLaw)> {
        (self.draft)(branches, law)
    }

    fn judge<'b>(&self, branches: &'b mut Branches) -> Box<dyn Judge<ExactLaw, ExactLaw> + 'b> {
        Box::new(PartsJudge { parts: *self, branches })
    }
}

struct PartsJudge<'b> {
    parts: Parts,
    branches: &'b mut Branches,
}

impl Judge<ExactLaw, ExactLaw> for PartsJudge<'_> {
    fn judge(&mut self, _position: u64, proposed: TokenId, draft: &ExactLaw, target: &ExactLaw) -> Verdict {
        if (self.parts.accept)(self.branches, proposed, draft, target) {
            Verdict::Accepted
        } else {
            Verdict::Corrected(self.branches.draw_from(&(self.parts.replace)(draft, target)))
        }
    }

    fn choose(&mut self, _position: u64, target: &ExactLaw) -> TokenId {
        self.branches.draw_from(target)
    }
}

fn honest_draft(branches: &mut Branches, law: ExactLaw) -> Option<(TokenId, ExactLaw)> {
    Some((branches.draw_from(&law), law))
}

fn by_ratio(branches: &mut Branches, proposed: TokenId, draft: &ExactLaw, target: &ExactLaw) -> bool {
    let (p, q) = (target.probability(proposed), draft.probability(proposed));
    branches.flip(if p >= q { Fraction::one() } else { p / q })
}

fn residual(draft: &ExactLaw, target: &ExactLaw) -> ExactLaw {
    let residual = Residual::new(target, draft);
    residual.map_or(target.clone(), |residual| {
        ExactLaw((0..residual.width() as TokenId).map(|token| residual.weight(token)).collect())
    })
}

/// Draws the token from the target and accepts the draft token if they are equal. With the drawn token as the
/// replacement that would be exact; these controls draw the replacement afresh.
fn by_match(branches: &mut Branches, proposed: TokenId, _: &ExactLaw, target: &ExactLaw) -> bool {
    branches.draw_from(target) == proposed
}

fn law_of(method: &impl Method) -> Vec<f64> {
    let (outcomes, _) = reversed_draft(&[1], 1).outcomes(method);
    let probability = |token: TokenId| outcomes.get(&vec![token]).map_or(0.0, |exact| exact.to_f64().unwrap());
    (0..4).map(probability).collect()
}

#[track_caller]
fn assert_wrong(name: &str, method: Parts, expected: [f64; 4]) {
    let found = law_of(&method);
    println!("{name:<56} {found:.4?}");
    assert!(found.iter().zip(expected).all(|(left, right)| (left - right).abs() < 1e-4), "{name}: {found:?}");

    let several = reversed_draft(&[2], 2);
    assert_ne!(several.outcomes(&method).0, several.expected(), "{name} passed the exact check");
}

#[test]
fn the_check_accepts_the_rule_put_together_from_right_parts() {
    for case in [reversed_draft(&[2], 3), case("zeros", always([0, 1, 2]), always([3, 0, 1]), &[2, 1], 3)] {
        assert_eq!(case.outcomes(&RIGHT).0, case.expected());
        assert_eq!(case.outcomes(&RIGHT).0, case.outcomes(&Production).0);
    }
}

#[test]
fn accepting_only_the_targets_arg_max_is_caught() {
    let accept: Accept = |_, proposed, _, target| proposed == target.arg_max();
    assert_wrong("accept iff x = arg max p", Parts { accept, ..RIGHT }, [0.0, 0.0, 0.225, 0.775]);
}

#[test]
fn accepting_everything_is_caught() {
    assert_wrong("accept always", Parts { accept: |_, _, _, _| true, ..RIGHT }, [0.4, 0.3, 0.2, 0.1]);
}

#[test]
fn a_match_with_a_fresh_draw_is_caught() {
    let fresh = Parts { accept: by_match, replace: |_, target| target.clone(), ..RIGHT };
    assert_wrong("match, then fresh p", fresh, [0.12, 0.22, 0.30, 0.36]);
    assert_wrong("match, then residual", Parts { accept: by_match, ..RIGHT }, [0.04, 0.06, 0.26, 0.64]);
}

#[test]
fn a_fresh_draw_from_p_after_rejection_is_caught() {
    let fresh = Parts { replace: |_, target| target.clone(), ..RIGHT };
    assert_wrong("ratio, then fresh p", fresh, [0.14, 0.28, 0.32, 0.26]);
}

/// The positive part went through softmax instead of being divided by its sum.
#[test]
fn a_softmax_residual_is_caught() {
    let replace: Replace = |draft, target| {
        let positive = |token: TokenId| {
            let difference = target.probability(token) - draft.probability(token);
            if difference > Fraction::zero() { difference.to_f64().unwrap() } else { 0.0 }
        };
        ExactLaw((0..4).map(|token| BigRational::from_float(positive(token).exp()).unwrap()).collect())
    };
    assert_wrong("softmax residual", Parts { replace, ..RIGHT }, [0.1898, 0.2898, 0.2992, 0.2212]);
}

/// Arg max drafts that report the softmax.
#[test]
fn a_greedy_draft_that_reports_a_distribution_is_caught() {
    let draft: Draft = |_, law| Some((law.arg_max(), law));
    assert_wrong("draft arg max, report q", Parts { draft, ..RIGHT }, [0.25, 0.0, 0.1875, 0.5625]);
}

/// Drawn from the two likeliest, reported without the cut.
#[test]
fn a_q_from_before_the_cut_is_caught() {
    let draft: Draft = |branches, law| {
        let mut cut = law.clone();
        cut.0[2..].fill(Fraction::zero());
        Some((branches.draw_from(&cut), law))
    };
    // The target's own top-2 of [.4, .3, .2, .1].
    let case = case("top-2 on both sides", always([4, 3, 0, 0]), always([3, 4, 2, 1]), &[1], 1);
    let (outcomes, _) = case.outcomes(&Parts { draft, ..RIGHT });
    assert_eq!(outcomes[&vec![0]], Fraction::new(3.into(), 7.into()));
    assert_ne!(outcomes, case.expected());
}

/// Drawn at temperature 0.5, and p and q both computed at temperature 1.
#[test]
fn a_temperature_on_one_side_is_caught() {
    let draft: Draft = |branches, law| {
        let sharpened = ExactLaw(law.0.iter().map(|weight| weight * weight).collect());
        Some((branches.draw_from(&sharpened), law))
    };
    assert_wrong("drawn at 0.5, judged at 1", Parts { draft, ..RIGHT }, [0.1333, 0.2, 0.2583, 0.4083]);
}

/// Penalties that miss the draft tokens before the position, or rows of an older prefix.
#[test]
fn rows_that_do_not_see_earlier_draft_tokens_are_caught() {
    struct Shortsighted;
    impl Method for Shortsighted {
        fn prefix(&self, committed: &[TokenId], _before: &[TokenId]) -> Vec<TokenId> {
            committed.to_vec()
        }

        fn judge<'b>(&self, branches: &'b mut Branches) -> Box<dyn Judge<ExactLaw, ExactLaw> + 'b> {
            Production.judge(branches)
        }
    }

    let case = case("penalties", penalised(3), always([1, 1, 1]), &[2], 3);
    assert_eq!(case.outcomes(&Production).0, case.expected());
    assert_ne!(case.outcomes(&Shortsighted).0, case.expected());
}

#[test]
fn a_q_that_is_truncated_after_the_draw_is_caught() {
    let draft: Draft = |branches, law| {
        let token = branches.draw_from(&law);
        let mut reported = law;
        reported.0[2..].fill(Fraction::zero());
        Some((token, reported))
    };
    // Reported [4/7, 3/7, 0, 0]: tokens 2 and 3 always pass, 0 and 1 too seldom.
    assert_wrong("q truncated after the draw", Parts { draft, ..RIGHT }, [0.07, 0.14, 0.41, 0.38]);
}

/// Half precision holds nothing below 2^-25, and p >= q where both are 0. Such a token comes once in fifty million draws,
/// so that no sample would show it.
#[test]
fn ratios_in_half_precision_are_caught() {
    fn in_half_precision(exact: Fraction) -> f64 {
        f16::from_f64(exact.to_f64().unwrap()).to_f64()
    }

    let accept: Accept = |branches, proposed, draft, target| {
        let [p, q] = [target, draft].map(|law| in_half_precision(law.probability(proposed)));
        branches.flip(if p >= q { Fraction::one() } else { Fraction::from_float(p / q).unwrap() })
    };
    // p = 1e-9 and q = 2e-8 of the first id.
    let case = case("rare ids", always([1, 999_999_999]), always([20, 999_999_980]), &[1], 1);
    assert_eq!(case.outcomes(&RIGHT).0, case.expected());
    let (outcomes, _) = case.outcomes(&Parts { accept, ..RIGHT });
    assert_eq!(outcomes[&vec![0]], Fraction::new(20.into(), 1_000_000_000.into()), "all that are proposed pass");
    assert_ne!(outcomes, case.expected());
}

/// One entry of q is not a number, that of the likeliest id. The lesser of 1 and what is not a number is 1, so that this id
/// always passes. (No such q gets as far as the rule: decoding refuses it.)
#[test]
fn a_q_that_is_not_a_number_is_caught() {
    let accept: Accept = |branches, proposed, draft, target| {
        if proposed != draft.arg_max() {
            return by_ratio(branches, proposed, draft, target);
        }
        let ratio = target.probability(proposed).to_f64().unwrap() / f64::NAN;
        branches.flip(Fraction::from_float(ratio.min(1.0)).unwrap())
    };
    assert_wrong("q of the likeliest is not a number", Parts { accept, ..RIGHT }, [0.4, 0.2, 0.225, 0.175]);
}

#[test]
fn dropping_unlikely_draft_tokens_is_caught() {
    let draft: Draft = |branches, law| {
        let token = branches.draw_from(&law);
        let is_likely = law.probability(token) > Fraction::new(1.into(), 4.into());
        is_likely.then_some((token, law))
    };
    // Dropped with probability 0.3, and then p; else accepted 0.1 and 0.2, or the residual.
    let expected = [0.13, 0.26, 0.09 + 0.1, 0.12 + 0.3];
    assert_wrong("unlikely draft tokens dropped", Parts { draft, ..RIGHT }, expected);
}

/// To end rounds early, the end token was suppressed at draft positions.
#[test]
fn suppressing_the_end_at_draft_positions_is_caught() {
    struct EndSuppressed;
    struct Suppressing<'b>(Standard<&'b mut Branches>);
    const END: usize = 0;

    impl Judge<ExactLaw, ExactLaw> for Suppressing<'_> {
        fn judge(&mut self, position: u64, proposed: TokenId, draft: &ExactLaw, target: &ExactLaw) -> Verdict {
            let mut target = target.clone();
            target.0[END] = Fraction::zero();
            self.0.judge(position, proposed, draft, &target)
        }

        fn choose(&mut self, position: u64, target: &ExactLaw) -> TokenId {
            self.0.0.draw(position, target)
        }
    }

    impl Method for EndSuppressed {
        fn judge<'b>(&self, branches: &'b mut Branches) -> Box<dyn Judge<ExactLaw, ExactLaw> + 'b> {
            Box::new(Suppressing(Standard(branches)))
        }
    }

    let mut case = case("an end with half the mass", always([1, 1]), always([0, 1]), &[2], 3);
    case.end = Some(END as TokenId);
    assert_eq!(case.outcomes(&Production).0, case.expected());
    assert_ne!(case.outcomes(&EndSuppressed).0, case.expected());
}

/// Where target and draft differ under the shared noise, the target's own choice was replaced by a fresh draw.
#[test]
fn a_fresh_draw_beside_shared_noise_is_caught() {
    struct Afresh;
    struct AfreshJudge<'b>(&'b mut Branches);

    impl Judge<ExactLaw, ExactLaw> for AfreshJudge<'_> {
        fn judge(&mut self, position: u64, proposed: TokenId, _: &ExactLaw, target: &ExactLaw) -> Verdict {
            match self.0.choose(position, target) == proposed {
                true => Verdict::Accepted,
                false => Verdict::Corrected(self.0.draw_from(target)),
            }
        }

        fn choose(&mut self, position: u64, target: &ExactLaw) -> TokenId {
            self.0.choose(position, target)
        }
    }

    impl Method for Afresh {
        fn draft(&self, branches: &mut Branches, position: u64, law: ExactLaw) -> Option<(TokenId, ExactLaw)> {
            Coupled.draft(branches, position, law)
        }

        fn judge<'b>(&self, branches: &'b mut Branches) -> Box<dyn Judge<ExactLaw, ExactLaw> + 'b> {
            Box::new(AfreshJudge(branches))
        }
    }

    let case = reversed_draft(&[2], 2);
    assert_eq!(case.outcomes(&Coupled).0, case.expected());
    assert_ne!(case.outcomes(&Afresh).0, case.expected());
}

/// Each token alone has the right law, but neighbours are not independent.
#[test]
fn one_noise_for_all_positions_is_caught() {
    struct OneNoise;
    struct OneNoiseJudge<'b>(&'b mut Branches);

    impl Judge<ExactLaw, ExactLaw> for OneNoiseJudge<'_> {
        fn judge(&mut self, _: u64, proposed: TokenId, draft: &ExactLaw, target: &ExactLaw) -> Verdict {
            DraftInvariant(&mut *self.0).judge(0, proposed, draft, target)
        }

        fn choose(&mut self, _: u64, target: &ExactLaw) -> TokenId {
            self.0.choose(0, target)
        }
    }

    impl Method for OneNoise {
        fn draft(&self, branches: &mut Branches, _: u64, law: ExactLaw) -> Option<(TokenId, ExactLaw)> {
            Coupled.draft(branches, 0, law)
        }

        fn judge<'b>(&self, branches: &'b mut Branches) -> Box<dyn Judge<ExactLaw, ExactLaw> + 'b> {
            Box::new(OneNoiseJudge(branches))
        }
    }

    let single = reversed_draft(&[1], 1);
    assert_eq!(single.outcomes(&OneNoise).0, single.expected());
    let several = reversed_draft(&[2], 2);
    assert_ne!(several.outcomes(&OneNoise).0, several.expected());
}
