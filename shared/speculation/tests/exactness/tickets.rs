//! Shared noise whose every case can be counted.
//!
//! Lay out tickets: one for each unit of weight that an id can have. The noise of a position is an order of all tickets,
//! each order as likely as any other. A law with whole weights sees, of each id, as many tickets as the id has weight, and
//! chooses the id of the first ticket that it sees. All that it sees are equally likely to be the first, so it chooses each
//! id with its probability; and laws that see nearly the same tickets mostly choose alike. (The race of exponential waiting
//! times that serves requests is the same thing with tickets of any size.)
//!
//! Orders are never written down. What the laws have chosen at a position is a list of facts of the form "of these tickets
//! the first is one of that id", and the number of orders that agree with such a list is counted exactly.

use std::collections::BTreeMap;

use num_traits::{One, Zero};
use specfleet_speculation::TokenId;

use crate::enumerate::Fraction;

/// Of the tickets that weights see, the first is one of an id.
#[derive(Clone, Debug)]
struct Fact {
    weights: Vec<u32>,
    chosen: TokenId,
}

/// What is known about the orders of tickets, position by position.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tickets {
    facts: BTreeMap<u64, Vec<Fact>>,
}

impl Tickets {
    /// What weights may choose at a position, and with what probability, given what has been chosen there already.
    pub(crate) fn options(&self, position: u64, weights: &[u32]) -> Vec<(TokenId, Fraction)> {
        let known = self.facts.get(&position).cloned().unwrap_or_default();
        let share_known = share_of_orders(&known.iter().collect::<Vec<_>>());
        let with = |chosen| {
            let fact = Fact { weights: weights.to_vec(), chosen };
            let facts: Vec<&Fact> = known.iter().chain([&fact]).collect();
            share_of_orders(&facts) / &share_known
        };
        (0..weights.len() as TokenId).map(|id| (id, with(id))).collect()
    }

    /// Adds what was chosen.
    pub(crate) fn learn(&mut self, position: u64, weights: Vec<u32>, chosen: TokenId) {
        let known = self.facts.entry(position).or_default();
        if known.iter().all(|fact| fact.weights != weights) {
            known.push(Fact { weights, chosen });
        }
    }
}

/// The share of all orders that agree with all facts. The first ticket that anybody sees decides the facts of those who
/// see it; the others go on with the tickets that remain.
fn share_of_orders(facts: &[&Fact]) -> Fraction {
    if facts.is_empty() {
        return Fraction::one();
    }
    let n_ids = facts.iter().map(|fact| fact.weights.len()).max().unwrap_or(0);
    let weight = |fact: &Fact, id: usize| fact.weights.get(id).copied().unwrap_or(0);
    let (mut share, mut n_tickets) = (Fraction::zero(), 0);
    for id in 0..n_ids {
        let mut borders: Vec<u32> = facts.iter().map(|fact| weight(fact, id)).collect();
        borders.sort_unstable();
        borders.dedup();
        // Tickets up to the next border are seen by the same facts.
        let mut first = 0;
        for border in borders {
            let (seeing, blind): (Vec<&Fact>, Vec<&Fact>) = facts.iter().partition(|fact| first < weight(fact, id));
            if border > first && seeing.iter().all(|fact| fact.chosen as usize == id) {
                share += share_of_orders(&blind) * Fraction::from_integer((border - first).into());
            }
            first = border;
        }
        n_tickets += first;
    }
    share / Fraction::from_integer(n_tickets.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fraction(numerator: u32, denominator: u32) -> Fraction {
        Fraction::new(numerator.into(), denominator.into())
    }

    #[test]
    fn each_id_is_chosen_with_its_probability() {
        let options = Tickets::default().options(0, &[1, 0, 3]);
        assert_eq!(options, [(0, fraction(1, 4)), (1, Fraction::zero()), (2, fraction(3, 4))]);
    }

    #[test]
    fn a_law_chooses_once() {
        let mut tickets = Tickets::default();
        tickets.learn(0, vec![1, 3], 0);
        assert_eq!(tickets.options(0, &[1, 3]), [(0, Fraction::one()), (1, Fraction::zero())]);
        assert_eq!(tickets.options(1, &[1, 3])[1], (1, fraction(3, 4)));
    }

    /// Tickets a and b of the first law, b and c of the second: of the six orders, three agree on b.
    #[test]
    fn similar_laws_choose_alike() {
        let mut tickets = Tickets::default();
        tickets.learn(0, vec![1, 1, 0], 1);
        // In 3 of 6 orders b is before a; in 2 of these it is before c.
        assert_eq!(tickets.options(0, &[0, 1, 1]), [(0, Fraction::zero()), (1, fraction(2, 3)), (2, fraction(1, 3))]);
    }
}
