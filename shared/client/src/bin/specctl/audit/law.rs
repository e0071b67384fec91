//! Answers that need not be equal but must have the same law.
//!
//! Without a seed every answer is a draw. Two ways to decode are compared by many short answers to the same prompts, with a
//! chi-square test of whether both samples can be from one law: [`cells`](super::cells) are their common beginnings, the
//! statistics of all cases are added up. A case is a prompt under one setting of temperature and truncation.

use crate::audit::cells::{Beginning, cells};
use crate::audit::check::{Check, Verdict};
use crate::audit::chi_square::ChiSquare;

/// Answers of each case that are too few to tell anything.
const LEAST_SAMPLES: usize = 40;

/// The answers of one case, each way.
#[derive(Debug, Clone, Default)]
pub(super) struct Case {
    pub(super) first: Vec<Beginning>,
    pub(super) second: Vec<Beginning>,
}

/// What a test of the law has found, before anybody asks whether it means something.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Finding {
    n_cases: usize,
    /// Answers of all cases each way.
    n_first: usize,
    n_second: usize,
    /// Of the case that has the fewest.
    n_fewest: usize,
    table: ChiSquare,
}

impl Finding {
    pub(super) fn of(cases: &[Case]) -> Self {
        let fewest = cases.iter().map(|case| case.first.len().min(case.second.len())).min();
        Self {
            n_cases: cases.len(),
            n_first: cases.iter().map(|case| case.first.len()).sum(),
            n_second: cases.iter().map(|case| case.second.len()).sum(),
            n_fewest: fewest.unwrap_or_default(),
            table: cases.iter().map(|case| ChiSquare::of(&cells(&case.first, &case.second))).sum(),
        }
    }

    /// `false_alarm` is the probability with which it may fail although the laws are the same; `doubt` says why the samples
    /// would prove nothing.
    pub(super) fn check(self, name: &'static str, false_alarm: f64, doubt: Option<String>) -> Check {
        let Self { n_cases, n_first, n_second, n_fewest, table } = self;
        let (verdict, why) = match (table.p_value(), doubt) {
            (Some(p_value), _) if p_value < false_alarm => (
                Verdict::Failed,
                format!("so large a difference has a probability of {p_value:.1e} if the laws are the same"),
            ),
            (_, Some(doubt)) => (Verdict::NotJudged, doubt),
            (_, None) if n_fewest < LEAST_SAMPLES => {
                let why = format!("a case has {n_fewest} answers each way, at least {LEAST_SAMPLES} are needed");
                (Verdict::NotJudged, why)
            }
            (None, None) => {
                (Verdict::NotJudged, "all answers to a prompt begin alike, so there is no law to compare".to_owned())
            }
            (Some(_), None) => (Verdict::Passed, String::new()),
        };
        let p_value = table.p_value().unwrap_or(1.0);
        Check {
            name,
            compared: format!("{n_first} and {n_second} answers, {n_cases} cases"),
            figure: format!("chi-square {:.1} on {} degrees, p = {p_value:.2e}", table.statistic, table.degrees),
            limit: format!("p >= {false_alarm:.0e}"),
            verdict,
            why,
            numbers: [
                ("cases", n_cases as f64),
                ("first_answers", n_first as f64),
                ("second_answers", n_second as f64),
                ("chi_square", table.statistic),
                ("degrees_of_freedom", table.degrees as f64),
                ("p_value", p_value),
            ]
            .into(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A small generator: the test is of what is made of the draws.
    struct Draws(u64);

    impl Draws {
        fn uniform(&mut self) -> f64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 11) as f64 / (1_u64 << 53) as f64
        }

        /// An answer of three tokens; ids get rarer, the more so with a larger `slope`.
        fn answer(&mut self, slope: f64) -> Beginning {
            (0..3).map(|_| (-self.uniform().ln() / slope) as u32).collect()
        }

        fn answers(&mut self, n: usize, slope: f64) -> Vec<Beginning> {
            (0..n).map(|_| self.answer(slope)).collect()
        }

        fn finding(&mut self, n_cases: usize, n: usize, slopes: (f64, f64)) -> Finding {
            let case = |_| Case { first: self.answers(n, slopes.0), second: self.answers(n, slopes.1) };
            Finding::of(&(0..n_cases).map(case).collect::<Vec<_>>())
        }
    }

    /// The tree of cells is grown from the same answers that are then judged by it. It must not show.
    #[test]
    fn equal_laws_fail_as_seldom_as_promised() {
        let mut draws = Draws(1);
        let (mut at_one_in_10, mut at_one_in_100) = (0, 0);
        for _ in 0..2000 {
            let p_value = draws.finding(2, 150, (0.7, 0.7)).table.p_value().unwrap();
            at_one_in_10 += u32::from(p_value < 0.1);
            at_one_in_100 += u32::from(p_value < 0.01);
        }
        // Expected 200 and 20; five standard deviations are 67 and 22.
        assert!((133..=267).contains(&at_one_in_10), "{at_one_in_10}");
        assert!((1..=42).contains(&at_one_in_100), "{at_one_in_100}");
    }

    #[test]
    fn different_laws_fail() {
        let finding = Draws(2).finding(6, 400, (0.7, 0.9));
        assert_eq!(finding.check("law", 1e-6, None).verdict, Verdict::Failed, "{finding:?}");
        let in_doubt = finding.check("law", 1e-6, Some("drafts rested".to_owned()));
        assert_eq!(in_doubt.verdict, Verdict::Failed, "what is wrong is wrong");
    }

    #[test]
    fn what_cannot_be_judged_is_not_passed() {
        let finding = Draws(3).finding(6, 400, (0.7, 0.7));
        assert_eq!(finding.check("law", 1e-6, None).verdict, Verdict::Passed, "{finding:?}");
        let in_doubt = finding.check("law", 1e-6, Some("drafts rested".to_owned()));
        assert_eq!((in_doubt.verdict, in_doubt.why.as_str()), (Verdict::NotJudged, "drafts rested"));
        let few = Draws(3).finding(6, LEAST_SAMPLES - 1, (0.7, 0.7)).check("law", 1e-6, None);
        assert!(few.verdict == Verdict::NotJudged && few.why.contains("at least 40"), "{few:?}");
        let monotonous = Draws(3).finding(2, 400, (1e9, 1e9)).check("law", 1e-6, None);
        assert!(monotonous.verdict == Verdict::NotJudged && monotonous.why.contains("begin alike"), "{monotonous:?}");
    }
}
