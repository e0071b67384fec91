//! Follows every random choice of a computation and keeps the exact probability of each outcome.

use std::collections::BTreeMap;

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, ToPrimitive, Zero};
use specfleet_speculation::TokenId;
use specfleet_speculation::accept::Choices;
use specfleet_speculation::coupled::SharedChoice;
use specfleet_speculation::law::Law;

use crate::tickets::Tickets;

pub(crate) type Fraction = BigRational;

/// The exact law of an outcome.
pub(crate) type ExactOutcomes<T> = BTreeMap<T, Fraction>;

/// Unnormalised exact weights over the ids 0, 1, 2, ...
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ExactLaw(pub(crate) Vec<Fraction>);

impl ExactLaw {
    pub(crate) fn from_weights(weights: &[u32]) -> Self {
        Self(weights.iter().map(|weight| Fraction::from(BigInt::from(*weight))).collect())
    }

    pub(crate) fn probability(&self, token: TokenId) -> Fraction {
        self.weight(token) / self.total()
    }

    /// The weights of a law that was made from whole ones.
    fn whole_weights(&self) -> Vec<u32> {
        self.0.iter().map(|weight| weight.to_integer().to_u32().unwrap()).collect()
    }

    /// The likeliest id; the lowest of several.
    pub(crate) fn arg_max(&self) -> TokenId {
        let ids = 0..self.0.len() as TokenId;
        ids.rev().max_by(|left, right| self.weight(*left).cmp(&self.weight(*right))).unwrap()
    }
}

impl Law for ExactLaw {
    type Number = Fraction;

    fn width(&self) -> usize {
        self.0.len()
    }

    fn weight(&self, token: TokenId) -> Fraction {
        self.0.get(token as usize).cloned().unwrap_or_else(Zero::zero)
    }

    fn total(&self) -> Fraction {
        self.0.iter().sum()
    }
}

/// One path through the tree of random choices.
pub(crate) struct Branches {
    path: Vec<usize>,
    n_options: Vec<usize>,
    depth: usize,
    probability: Fraction,
    /// The noise of this path.
    tickets: Tickets,
}

impl Branches {
    /// Takes one of the options that are possible.
    pub(crate) fn take<T: Clone>(&mut self, options: impl IntoIterator<Item = (T, Fraction)>) -> T {
        let options: Vec<(T, Fraction)> = options.into_iter().filter(|(_, chance)| !chance.is_zero()).collect();
        if self.depth == self.path.len() {
            self.path.push(0);
            self.n_options.push(options.len());
        }
        let (option, chance) = &options[self.path[self.depth]];
        self.depth += 1;
        self.probability *= chance;
        option.clone()
    }

    pub(crate) fn flip(&mut self, chance: Fraction) -> bool {
        self.take([(true, chance.clone()), (false, Fraction::one() - chance)])
    }

    pub(crate) fn draw_from(&mut self, law: &impl Law<Number = Fraction>) -> TokenId {
        let total = law.total();
        self.take((0..law.width() as TokenId).map(|token| (token, law.weight(token) / &total)))
    }

    /// Moves on to the next path; false when all have been followed.
    fn advance(&mut self) -> bool {
        (self.depth, self.probability, self.tickets) = (0, Fraction::one(), Tickets::default());
        while let (Some(option), Some(n_options)) = (self.path.pop(), self.n_options.pop()) {
            if option + 1 < n_options {
                self.path.push(option + 1);
                self.n_options.push(n_options);
                return true;
            }
        }
        false
    }
}

impl Choices<Fraction> for &mut Branches {
    fn passes(&mut self, _position: u64, favourable: Fraction, possible: Fraction) -> bool {
        let chance = if favourable >= possible { Fraction::one() } else { favourable / possible };
        self.flip(chance)
    }

    fn draw<L: Law<Number = Fraction>>(&mut self, _position: u64, law: &L) -> TokenId {
        self.draw_from(law)
    }
}

impl SharedChoice<ExactLaw> for Branches {
    fn choose(&mut self, position: u64, law: &ExactLaw) -> TokenId {
        let weights = law.whole_weights();
        let chosen = self.take(self.tickets.options(position, &weights));
        self.tickets.learn(position, weights, chosen);
        chosen
    }
}

impl SharedChoice<ExactLaw> for &mut Branches {
    fn choose(&mut self, position: u64, law: &ExactLaw) -> TokenId {
        (**self).choose(position, law)
    }
}

/// Runs a computation once for every path. Gives the law of its result and the number of paths.
pub(crate) fn explore<T: Ord>(mut run: impl FnMut(&mut Branches) -> T) -> (ExactOutcomes<T>, usize) {
    let mut branches = Branches {
        path: vec![],
        n_options: vec![],
        depth: 0,
        probability: Fraction::one(),
        tickets: Tickets::default(),
    };
    let mut outcomes = BTreeMap::new();
    let mut n_paths = 0;
    loop {
        let outcome = run(&mut branches);
        *outcomes.entry(outcome).or_insert_with(Fraction::zero) += &branches.probability;
        n_paths += 1;
        if !branches.advance() {
            return (outcomes, n_paths);
        }
    }
}
