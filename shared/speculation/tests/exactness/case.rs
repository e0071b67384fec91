//! A sequence of rounds between two models that are small enough to follow every path.

use std::convert::Infallible;

use num_traits::One;
use specfleet_speculation::TokenId;
use specfleet_speculation::accept::{Judge, Standard};
use specfleet_speculation::coupled::{DraftInvariant, SharedChoice};
use specfleet_speculation::round::{Round, RoundOutcome};

use crate::enumerate::{Branches, ExactLaw, ExactOutcomes, Fraction, explore};

/// Integer weights of the next token after a prefix.
pub(crate) type Rows = Box<dyn Fn(&[TokenId]) -> Vec<u32>>;

/// Two models and how they are run.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) n_vocab: usize,
    pub(crate) target: Rows,
    pub(crate) draft: Rows,
    pub(crate) lengths: Lengths,
    /// Whether a proposal ends before a token is drawn from a law.
    pub(crate) stops_before: fn(&ExactLaw) -> bool,
    /// The budget of the whole sequence.
    pub(crate) n_tokens: usize,
    pub(crate) end: Option<TokenId>,
}

type NextLength = dyn Fn(&[RoundOutcome]) -> usize;

/// The draft length of the next round, given the rounds before.
pub(crate) struct Lengths {
    pub(crate) name: String,
    pub(crate) next: Box<NextLength>,
}

/// What a rule can get wrong: what is drafted and reported, which prefix a row of the target follows, and how a token
/// is judged.
pub(crate) trait Method {
    /// A draft token and the law that is reported for it, given what it should be drawn from. `None` ends the proposal.
    fn draft(&self, branches: &mut Branches, _position: u64, law: ExactLaw) -> Option<(TokenId, ExactLaw)> {
        Some((branches.draw_from(&law), law))
    }

    /// The prefix that the target's row follows, given the draft tokens before its position.
    fn prefix(&self, committed: &[TokenId], before: &[TokenId]) -> Vec<TokenId> {
        [committed, before].concat()
    }

    fn judge<'b>(&self, branches: &'b mut Branches) -> Box<dyn Judge<ExactLaw, ExactLaw> + 'b>;
}

/// The standard rule as it serves requests.
pub(crate) struct Production;

impl Method for Production {
    fn judge<'b>(&self, branches: &'b mut Branches) -> Box<dyn Judge<ExactLaw, ExactLaw> + 'b> {
        Box::new(Standard(branches))
    }
}

/// The draft-invariant rule as it serves requests: both sides choose under the same noise.
pub(crate) struct Coupled;

impl Method for Coupled {
    fn draft(&self, branches: &mut Branches, position: u64, law: ExactLaw) -> Option<(TokenId, ExactLaw)> {
        Some((branches.choose(position, &law), law))
    }

    fn judge<'b>(&self, branches: &'b mut Branches) -> Box<dyn Judge<ExactLaw, ExactLaw> + 'b> {
        Box::new(DraftInvariant(branches))
    }
}

impl Case {
    /// The exact law of the generated sequence, and the number of paths followed.
    pub(crate) fn outcomes(&self, method: &impl Method) -> (ExactOutcomes<Vec<TokenId>>, usize) {
        explore(|branches| self.generate(method, branches))
    }

    /// The law that plain sampling from the target gives.
    pub(crate) fn expected(&self) -> ExactOutcomes<Vec<TokenId>> {
        let mut outcomes = ExactOutcomes::new();
        self.expand(&mut vec![], Fraction::one(), &mut outcomes);
        outcomes
    }

    /// One path: rounds until the sequence is over.
    pub(crate) fn generate(&self, method: &impl Method, branches: &mut Branches) -> Vec<TokenId> {
        let mut committed: Vec<TokenId> = vec![];
        let mut rounds = vec![];
        while !self.is_over(&committed) {
            let (tokens, laws) = self.propose(method, branches, &committed, (self.lengths.next)(&rounds));
            let round = Round {
                tokens: &tokens,
                distributions: &laws,
                base_length: committed.len() as u64,
                is_end: &|token| self.end == Some(token),
                budget: self.n_tokens - committed.len(),
            };
            let target_row = |index: usize, before: &[TokenId]| {
                assert_eq!(before, &tokens[..index]);
                Ok::<_, Infallible>(self.target_law(&method.prefix(&committed, before)))
            };
            let Ok(outcome) = round.decide(method.judge(branches).as_mut(), target_row);
            assert!(!outcome.committed.is_empty());
            committed.extend(outcome.committed.iter().map(|committed| committed.token));
            rounds.push(outcome);
        }
        committed
    }

    /// The target's law of the next token.
    pub(crate) fn target_law(&self, prefix: &[TokenId]) -> ExactLaw {
        ExactLaw::from_weights(&(self.target)(prefix))
    }

    fn propose(
        &self,
        method: &impl Method,
        branches: &mut Branches,
        committed: &[TokenId],
        length: usize,
    ) -> (Vec<TokenId>, Vec<ExactLaw>) {
        let (mut tokens, mut laws) = (vec![], vec![]);
        while tokens.len() < length {
            let law = ExactLaw::from_weights(&(self.draft)(&[committed, &tokens].concat()));
            if (self.stops_before)(&law) {
                break;
            }
            let position = (committed.len() + tokens.len()) as u64;
            let Some((token, law)) = method.draft(branches, position, law) else { break };
            tokens.push(token);
            laws.push(law);
        }
        (tokens, laws)
    }

    fn is_over(&self, committed: &[TokenId]) -> bool {
        committed.len() == self.n_tokens || committed.last().is_some_and(|token| self.end == Some(*token))
    }

    fn expand(&self, prefix: &mut Vec<TokenId>, probability: Fraction, outcomes: &mut ExactOutcomes<Vec<TokenId>>) {
        if self.is_over(prefix) {
            outcomes.insert(prefix.clone(), probability);
            return;
        }
        let law = self.target_law(prefix);
        for token in 0..self.n_vocab as TokenId {
            let chance = law.probability(token);
            if chance > Fraction::default() {
                prefix.push(token);
                self.expand(prefix, &probability * chance, outcomes);
                prefix.pop();
            }
        }
    }
}

impl Lengths {
    /// These, over and over.
    pub(crate) fn cycle(lengths: &[usize]) -> Self {
        let lengths = lengths.to_vec();
        let name = format!("{lengths:?}");
        Self { name, next: Box::new(move |rounds| lengths[rounds.len() % lengths.len()]) }
    }

    /// One more after a round that passed, one less after a rejection: the length follows what became of earlier draft
    /// tokens, which is known before the next one is drawn.
    pub(crate) fn following_acceptance() -> Self {
        let step = |length: usize, round: &RoundOutcome| match round.n_accepted == round.n_tested {
            true => (length + 1).min(3),
            false => length.saturating_sub(1),
        };
        Self { name: "adaptive".to_owned(), next: Box::new(move |rounds| rounds.iter().fold(1, step)) }
    }
}
