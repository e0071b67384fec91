//! Bets on events of known probability, at fair prices.
//!
//! A bet at odds r claims that an event of probability a happens r times as readily as it should: it pays
//! `r / (1 + a (r - 1))` if the event happens and `1 / (1 + a (r - 1))` if not. If a is true, it pays 1 on average, so
//! capital that is bet time and again is a nonnegative martingale. If the event's real odds are off by a factor, capital
//! on a nearby r grows exponentially. Which events are off, which way and how far is not known beforehand, so the same
//! stake goes on every event at every r. Nor is it known since when: a lie may come with the next deploy. So part of the
//! capital stays in a purse, and a little of it is staked anew each time. What begins late is then met by stakes that
//! have not been lost on honest times.
//!
//! The sum of the purse and of all stakes starts at 1, and bets at fair prices keep its mean there.

/// Evidence of this much bias a position, and less, is not looked for: logarithms of the odds, both ways.
const LOG_ODDS: [f64; 6] = [4.0, 1.0, 0.25, 0.0625, 0.015_625, 0.003_906_25];

const N_ODDS: usize = 2 * LOG_ODDS.len();

/// Capital that is bet on a fixed number of events.
#[derive(Clone, Debug)]
pub(super) struct Wagers {
    odds: [f64; N_ODDS],
    /// What rides on each event at each of the odds.
    stakes: Vec<[f64; N_ODDS]>,
    /// What is not staked yet.
    purse: f64,
    n_settled: u64,
    most: f64,
}

impl Wagers {
    /// A capital of 1 and `n_events` events to put it on.
    pub(super) fn on(n_events: usize) -> Self {
        let mut odds = [1.0; N_ODDS];
        for (pair, log_odds) in odds.chunks_exact_mut(2).zip(LOG_ODDS) {
            pair.copy_from_slice(&[log_odds.exp(), (-log_odds).exp()]);
        }
        Self { odds, stakes: vec![[0.0; N_ODDS]; n_events], purse: 1.0, n_settled: 0, most: 1.0 }
    }

    /// Stakes a little more on every event, and pays out: one `(probability, happened)` for each event. The probabilities
    /// must have been fixed before it was known what happened. The events of one time need not be independent.
    ///
    /// Plain numbers do, without logarithms: new stakes keep every capital far above the least number, and nobody bets on
    /// after a win that is large enough to count.
    pub(super) fn settle(&mut self, events: impl IntoIterator<Item = (f64, bool)>) {
        self.n_settled += 1;
        let kept = purse_after(self.n_settled);
        let n_wagers = (self.stakes.len() * N_ODDS) as f64;
        let added = (self.purse - kept) / n_wagers;
        self.purse = kept;
        let mut capital = kept;
        for (stakes, (probability, happened)) in self.stakes.iter_mut().zip(events) {
            for (stake, odds) in stakes.iter_mut().zip(self.odds) {
                let payout = if happened { odds } else { 1.0 } / (1.0 + probability * (odds - 1.0));
                *stake = (*stake + added) * payout;
                capital += *stake;
            }
        }
        self.most = self.most.max(capital);
    }

    /// Logarithm of the most that the capital has ever been. It exceeds x with probability at most e^-x, ever.
    pub(super) fn evidence(&self) -> f64 {
        self.most.ln()
    }
}

/// What is left in the purse after so many times. It falls ever more slowly, and never to nothing: about `1 / (n ln² n)`
/// is staked at the n-th time, which is nearly the most that there can be for every n.
fn purse_after(n_settled: u64) -> f64 {
    1.0 / (std::f64::consts::E + n_settled as f64).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Average capital over every course of so many events of probability `a`.
    fn expected_capital(a: f64, n_times: u32) -> f64 {
        (0..1_u32 << n_times)
            .map(|course| {
                let mut wagers = Wagers::on(2);
                let mut probability = 1.0;
                for time in 0..n_times {
                    let happened = course >> time & 1 == 1;
                    probability *= if happened { a } else { 1.0 - a };
                    // The second event is the opposite of the first.
                    wagers.settle([(a, happened), (1.0 - a, !happened)]);
                }
                probability * (wagers.purse + wagers.stakes.as_flattened().iter().sum::<f64>())
            })
            .sum()
    }

    #[test]
    fn fair_bets_neither_win_nor_lose_on_average() {
        for a in [0.0, 1e-9, 0.1, 0.5, 0.999, 1.0] {
            let capital = expected_capital(a, 12);
            assert!((capital - 1.0).abs() < 1e-12, "capital {capital} on events of probability {a}");
        }
    }

    #[test]
    fn the_purse_is_spent_to_the_last_position_that_anyone_will_see() {
        let staked = |n: u64| purse_after(n - 1) - purse_after(n);
        for n in [1, 2, 1000, 1_000_000, 10_000_000_000] {
            let n_ln_2 = n as f64 * (std::f64::consts::E + n as f64).ln().powi(2);
            assert!((0.3..1.3).contains(&(staked(n) * n_ln_2)), "{} at {n}", staked(n));
        }
    }

    #[test]
    fn ten_thousand_million_fair_times_leave_the_numbers_sound() {
        let mut wagers = Wagers::on(1);
        wagers.n_settled = 10_000_000_000;
        wagers.purse = purse_after(wagers.n_settled);
        for time in 0..10_000_u32 {
            wagers.settle([(0.5, time % 2 == 0)]);
        }
        assert!(wagers.stakes.as_flattened().iter().all(|stake| stake.is_normal()));
        assert_eq!(wagers.evidence(), 0.0);
    }

    #[test]
    fn an_event_that_cannot_happen_and_does_is_worth_no_more_than_the_longest_odds() {
        let mut wagers = Wagers::on(1);
        wagers.settle([(0.0, true)]);
        assert!(wagers.evidence() < 4.0);
    }
}
