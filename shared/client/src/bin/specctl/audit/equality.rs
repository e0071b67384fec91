//! Answers that must be equal, token for token: with speculation and without.
//!
//! That holds for greedy decoding, and for requests with a seed under the draft-invariant rule: there the noise of a
//! position is the same whoever proposes. It needs a target whose rows do not change their bits with the company they have
//! in a forward pass. Where the device does not promise that, two tokens that nearly tie can change places now and then:
//! a difference is then reported and proves nothing, either way.

use specfleet_client::Answer;

use crate::acceptance::Acceptance;
use crate::audit::check::{Check, Verdict};
use crate::audit::evidence;
use crate::text::count;

/// What was compared so far.
#[derive(Debug, Default)]
pub(super) struct Equality {
    n_answers: usize,
    n_tokens: usize,
    n_different: usize,
    /// The first difference, in words.
    first: Option<String>,
    /// Of the answers with speculation.
    acceptance: Acceptance,
}

impl Equality {
    /// Takes in what a prompt was answered with, each way: as many answers here as there, in order.
    pub(super) fn see(&mut self, prompt: &str, plain: &[Answer], speculative: &[Answer]) {
        let reports = speculative.iter().filter_map(|answer| answer.finished.speculation.as_ref());
        self.acceptance.add_all(reports);
        for (plain, speculative) in plain.iter().zip(speculative) {
            let (plain, speculative) = (plain.token_ids(), speculative.token_ids());
            self.n_answers += 1;
            self.n_tokens += speculative.len();
            if let Some(difference) = first_difference(&plain, &speculative) {
                self.n_different += 1;
                self.first.get_or_insert_with(|| format!("prompt {prompt:?}: {difference}"));
            }
        }
    }

    /// `is_promised`: whether the target's device promises equal bits.
    pub(super) fn check(self, name: &'static str, is_promised: bool) -> Check {
        let Self { n_answers, n_tokens, n_different, first, acceptance } = self;
        let doubt = evidence::too_little(&acceptance);
        let verdict = match (n_different, &doubt) {
            (0, None) => Verdict::Passed,
            (0, Some(_)) => Verdict::NotJudged,
            _ if is_promised => Verdict::Failed,
            _ => Verdict::Noted,
        };
        let first = first.unwrap_or_default();
        let why = match verdict {
            Verdict::Passed => String::new(),
            Verdict::NotJudged => doubt.unwrap_or_default(),
            Verdict::Failed => first,
            Verdict::Noted => format!(
                "{first}. The target's device does not promise equal bits for a row in any company, so near ties may \
                 fall either way; whether the text is right is for the laws below to say"
            ),
        };
        Check {
            name,
            compared: format!(
                "{}, {}; {}",
                count(n_answers as u64, "answer"),
                count(n_tokens as u64, "token"),
                evidence::words(&acceptance)
            ),
            figure: format!("{n_different} differ"),
            limit: "0".to_owned(),
            verdict,
            why,
            numbers: evidence::numbers(&acceptance)
                .into_iter()
                .chain([
                    ("answers", n_answers as f64),
                    ("tokens", n_tokens as f64),
                    ("different_answers", n_different as f64),
                ])
                .collect(),
        }
    }
}

fn first_difference(plain: &[u32], speculative: &[u32]) -> Option<String> {
    let position = (0..plain.len().max(speculative.len())).find(|&index| plain.get(index) != speculative.get(index))?;
    let token = |tokens: &[u32]| tokens.get(position).map_or("the end".to_owned(), |id| format!("id {id}"));
    let (with, without) = (token(speculative), token(plain));
    Some(format!("token {} is {with} with speculation and {without} without", position + 1))
}

#[cfg(test)]
mod tests {
    use specfleet_client::v1::{CommittedToken, Finished, SpeculationReport};

    use super::*;

    fn answer(token_ids: &[u32], n_rounds: u32) -> Answer {
        let token = |&token_id| CommittedToken { token_id, ..CommittedToken::default() };
        let report = SpeculationReport {
            tested_per_position: vec![n_rounds],
            accepted_per_position: vec![n_rounds / 2],
            ..SpeculationReport::default()
        };
        Answer {
            tokens: token_ids.iter().map(token).collect(),
            finished: Finished { speculation: Some(report), ..Finished::default() },
        }
    }

    fn check(plain: &[u32], speculative: &[u32], n_rounds: u32, is_promised: bool) -> Check {
        let mut equality = Equality::default();
        equality.see("same", &[answer(&[1, 2, 3], 0)], &[answer(&[1, 2, 3], n_rounds)]);
        equality.see("a", &[answer(plain, 0)], &[answer(speculative, n_rounds)]);
        equality.check("greedy", is_promised)
    }

    #[test]
    fn equal_answers_pass_if_there_was_speculation() {
        assert_eq!(check(&[1, 2], &[1, 2], 50, true).verdict, Verdict::Passed);
        let idle = check(&[1, 2], &[1, 2], 0, true);
        assert_eq!(idle.verdict, Verdict::NotJudged);
        assert!(!idle.why.is_empty());
    }

    #[test]
    fn one_different_token_fails_even_with_little_speculation() {
        for n_rounds in [50, 1] {
            let check = check(&[1, 2, 3], &[1, 9, 3], n_rounds, true);
            assert_eq!((check.verdict, check.figure.as_str()), (Verdict::Failed, "1 differ"));
            assert_eq!(check.why, "prompt \"a\": token 2 is id 9 with speculation and id 2 without");
        }
    }

    #[test]
    fn an_answer_that_ends_early_is_different() {
        assert_eq!(
            check(&[1, 2], &[1], 50, true).why,
            "prompt \"a\": token 2 is the end with speculation and id 2 without"
        );
        assert_eq!(check(&[1], &[1, 2], 50, true).verdict, Verdict::Failed);
    }

    #[test]
    fn where_equality_is_not_promised_a_difference_is_noted() {
        let check = check(&[1, 2, 3], &[1, 9, 3], 50, false);
        assert_eq!(check.verdict, Verdict::Noted);
        assert!(check.why.contains("does not promise"), "{}", check.why);
    }
}
