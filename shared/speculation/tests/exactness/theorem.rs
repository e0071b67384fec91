//! The theorem, as fractions, through the production round and the production rule.

use std::convert::Infallible;

use num_traits::One;
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use specfleet_speculation::TokenId;
use specfleet_speculation::accept::{Judge, Standard};
use specfleet_speculation::round::Round;

use crate::enumerate::{Branches, ExactLaw, ExactOutcomes, Fraction, explore};

/// Integer weights of the next token after a prefix.
type Rows = Box<dyn Fn(&[TokenId]) -> Vec<u32>>;

/// A sequence of rounds: two models and how they are run.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) n_vocab: usize,
    pub(crate) target: Rows,
    pub(crate) draft: Rows,
    /// Draft lengths of successive rounds, over and over.
    pub(crate) lengths: Vec<usize>,
    /// The budget of the whole sequence.
    pub(crate) n_tokens: usize,
    pub(crate) end: Option<TokenId>,
}

/// What a rule can get wrong: what is drafted and reported, which prefix a row of the target follows, and how a token
/// is judged.
pub(crate) trait Method {
    /// A draft token and the law that is reported for it, given what it should be drawn from. `None` ends the proposal.
    fn draft(&self, branches: &mut Branches, law: ExactLaw) -> Option<(TokenId, ExactLaw)> {
        Some((branches.draw_from(&law), law))
    }

    /// The prefix that the target's row follows, given the draft tokens before its position.
    fn prefix(&self, committed: &[TokenId], before: &[TokenId]) -> Vec<TokenId> {
        [committed, before].concat()
    }

    fn judge<'b>(&self, branches: &'b mut Branches) -> Box<dyn Judge<ExactLaw, ExactLaw> + 'b>;
}

/// What this crate does.
pub(crate) struct Production;

impl Method for Production {
    fn judge<'b>(&self, branches: &'b mut Branches) -> Box<dyn Judge<ExactLaw, ExactLaw> + 'b> {
        Box::new(Standard(branches))
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

    fn generate(&self, method: &impl Method, branches: &mut Branches) -> Vec<TokenId> {
        let mut committed: Vec<TokenId> = vec![];
        let mut lengths = self.lengths.iter().cycle();
        while !self.is_over(&committed) {
            let (tokens, laws) = self.propose(method, branches, &committed, *lengths.next().unwrap());
            let round = Round {
                tokens: &tokens,
                distributions: &laws,
                base_length: committed.len() as u64,
                is_end: &|token| self.end == Some(token),
                budget: self.n_tokens - committed.len(),
            };
            let target_row = |index: usize, before: &[TokenId]| {
                assert_eq!(before, &tokens[..index]);
                Ok::<_, Infallible>(ExactLaw::from_weights(&(self.target)(&method.prefix(&committed, before))))
            };
            let Ok(outcome) = round.decide(method.judge(branches).as_mut(), target_row);
            assert!(!outcome.committed.is_empty());
            committed.extend(outcome.committed.iter().map(|committed| committed.token));
        }
        committed
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
            let Some((token, law)) = method.draft(branches, law) else { break };
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
        let law = ExactLaw::from_weights(&(self.target)(prefix));
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

/// The same row after every prefix.
pub(crate) fn always<const N: usize>(weights: [u32; N]) -> Rows {
    Box::new(move |_| weights.to_vec())
}

/// A different row after every prefix, zeros included, from a seed.
fn scrambled(seed: u64, n_vocab: usize) -> Rows {
    Box::new(move |prefix| {
        let state = prefix
            .iter()
            .fold(seed, |state, token| state.wrapping_mul(0x9E37_79B9).wrapping_add(u64::from(*token) + 1));
        let mut random = ChaCha8Rng::seed_from_u64(state);
        let mut weights: Vec<u32> = (0..n_vocab).map(|_| random.random_range(0..6_u32).saturating_sub(1)).collect();
        weights[random.random_range(0..n_vocab)] += 1;
        weights
    })
}

pub(crate) fn case(name: &str, target: Rows, draft: Rows, lengths: &[usize], n_tokens: usize) -> Case {
    let n_vocab = target(&[]).len();
    Case { name: name.to_owned(), n_vocab, target, draft, lengths: lengths.to_vec(), n_tokens, end: None }
}

/// Vocabulary of four, p = [.1, .2, .3, .4], q = [.4, .3, .2, .1].
pub(crate) fn reversed_draft(lengths: &[usize], n_tokens: usize) -> Case {
    case("the draft is the target in reverse", always([1, 2, 3, 4]), always([4, 3, 2, 1]), lengths, n_tokens)
}

fn named_cases() -> Vec<Case> {
    let ended = |name: &str, lengths: &[usize], n_tokens| {
        let case = case(name, scrambled(5, 3), scrambled(6, 3), lengths, n_tokens);
        Case { end: Some(1), ..case }
    };
    vec![
        reversed_draft(&[1], 1),
        reversed_draft(&[2], 3),
        case("the draft never proposes what the target likes", always([0, 1, 9]), always([5, 5, 0]), &[2], 3),
        case("disjoint supports", always([0, 0, 2, 3]), always([1, 4, 0, 0]), &[2], 2),
        case("p = q", always([1, 2, 3]), always([1, 2, 3]), &[3], 3),
        case("p = q in other units", always([1, 2, 3]), always([10, 20, 30]), &[2], 3),
        case("a draft that is a point", always([1, 2, 3]), always([0, 1, 0]), &[3], 4),
        case("a target that is a point", always([0, 1, 0]), always([3, 2, 1]), &[2], 3),
        case("both points, equal", always([0, 1]), always([0, 1]), &[4], 5),
        case("both points, different", always([0, 1]), always([1, 0]), &[4], 5),
        case("zero weights on both sides", always([0, 3, 0, 1, 2]), always([2, 0, 0, 1, 1]), &[2], 2),
        case("one id", always([7]), always([2]), &[3], 4),
        case("no drafts: plain decoding", scrambled(1, 4), scrambled(2, 4), &[0], 3),
        case("a draft of length four, rows depend on the prefix", scrambled(1, 2), scrambled(2, 2), &[4], 5),
        case("lengths change from round to round", scrambled(3, 3), scrambled(4, 3), &[2, 0, 1, 3], 4),
        case("the budget ends inside the round", scrambled(7, 3), scrambled(8, 3), &[4], 2),
        case("a budget of one", scrambled(7, 4), scrambled(8, 4), &[3], 1),
        case("a draft that knows fewer ids", always([1, 2, 3, 2, 2, 0]), always([1, 1, 1, 1]), &[2], 2),
        case("a draft that knows more ids", always([1, 2, 3]), always([1, 1, 1, 2]), &[2], 2),
        ended("an end token inside the round", &[3], 4),
        ended("an end token and changing lengths", &[1, 3], 4),
        Case { end: Some(0), ..case("an end token with half the mass", always([1, 1]), always([0, 1]), &[4], 5) },
    ]
}

fn generated_cases(count: u64) -> Vec<Case> {
    let mut random = ChaCha8Rng::seed_from_u64(2023);
    let make = |seed: u64| {
        let n_vocab = random.random_range(2..=6_usize);
        // Wider vocabularies get shorter rounds, so that the tree of choices stays small.
        let (greatest_length, n_tokens) = [(4, 4), (3, 3), (2, 3), (2, 2), (2, 2)][n_vocab - 2];
        let lengths = (0..random.random_range(1..=3)).map(|_| random.random_range(0..=greatest_length)).collect();
        Case {
            name: format!("generated {seed}"),
            n_vocab,
            target: scrambled(2 * seed, n_vocab),
            draft: scrambled(2 * seed + 1, n_vocab),
            lengths,
            n_tokens: random.random_range(1..=n_tokens),
            end: random.random_bool(0.3).then(|| random.random_range(0..n_vocab as TokenId)),
        }
    };
    (0..count).map(make).collect()
}

/// Checks cases, prints a table of them, and fails if any law differs.
fn check(cases: &[Case]) {
    println!("{:<52} {:>5} {:>14} {:>6} {:>8}  equal", "case", "vocab", "draft lengths", "tokens", "paths");
    let mut unequal = vec![];
    for case in cases {
        let (found, n_paths) = case.outcomes(&Production);
        let equal = found == case.expected();
        let lengths = format!("{:?}", case.lengths);
        println!("{:<52} {:>5} {lengths:>14} {:>6} {n_paths:>8}  {equal}", case.name, case.n_vocab, case.n_tokens);
        if !equal {
            unequal.push(&case.name);
        }
    }
    assert!(unequal.is_empty(), "the output law is not the target's: {unequal:?}");
}

#[test]
fn the_output_law_is_the_targets_in_named_cases() {
    check(&named_cases());
}

#[test]
fn the_output_law_is_the_targets_in_generated_cases() {
    check(&generated_cases(300));
}

/// Rows after a rejection would be conditioned on a token that is not there.
#[test]
fn rows_after_a_rejection_are_never_asked_for() {
    let laws = vec![ExactLaw::from_weights(&[1, 0]); 3];
    explore(|branches| {
        let round = Round { tokens: &[0, 0, 0], distributions: &laws, base_length: 0, is_end: &|_| false, budget: 10 };
        let mut asked = vec![];
        let target_row = |index: usize, _: &[TokenId]| {
            asked.push(index);
            Ok::<_, Infallible>(ExactLaw::from_weights(if index == 1 { &[0, 1] } else { &[1, 0] }))
        };
        let Ok(outcome) = round.decide(&mut Standard(branches), target_row);
        assert_eq!((outcome.n_tested, outcome.n_accepted), (2, 1));
        assert_eq!(asked, [0, 1]);
    });
}
