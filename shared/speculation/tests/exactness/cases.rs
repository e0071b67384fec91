//! The cases of the theorem: those that have a name because something is special about them, and as many others as wanted.

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use specfleet_speculation::TokenId;

use crate::case::{Case, Lengths, Rows};
use crate::enumerate::{ExactLaw, Fraction};

/// The same row after every prefix.
pub(crate) fn always<const N: usize>(weights: [u32; N]) -> Rows {
    Box::new(move |_| weights.to_vec())
}

/// The same row after every prefix: these weights, and no others among `n_vocab` ids.
fn sparse<const N: usize>(n_vocab: usize, weights: [(TokenId, u32); N]) -> Rows {
    Box::new(move |_| {
        let mut row = vec![0; n_vocab];
        weights.iter().for_each(|(token, weight)| row[*token as usize] = *weight);
        row
    })
}

/// Ids that have occurred are less likely, the more often the less.
pub(crate) fn penalised(n_vocab: usize) -> Rows {
    Box::new(move |prefix| {
        let weight = |id| 12 / (1 + prefix.iter().filter(|token| **token == id).count() as u32);
        (0..n_vocab as TokenId).map(weight).collect()
    })
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
    let lengths = Lengths::cycle(lengths);
    Case { name: name.to_owned(), n_vocab, target, draft, lengths, stops_before: |_| false, n_tokens, end: None }
}

/// Vocabulary of four, p = [.1, .2, .3, .4], q = [.4, .3, .2, .1].
pub(crate) fn reversed_draft(lengths: &[usize], n_tokens: usize) -> Case {
    case("the draft is the target in reverse", always([1, 2, 3, 4]), always([4, 3, 2, 1]), lengths, n_tokens)
}

/// A draft that proposes only while it is sure: it looks at q, never at what came out of it.
pub(crate) fn sure_draft() -> Case {
    let target =
        Box::new(|prefix: &[TokenId]| if prefix.len().is_multiple_of(2) { vec![1, 2, 3] } else { vec![3, 1, 1] });
    let draft = Box::new(|prefix: &[TokenId]| if prefix.len() == 1 { vec![1, 1, 1] } else { vec![5, 1, 1] });
    let is_unsure = |law: &ExactLaw| law.probability(law.arg_max()) <= Fraction::new(1.into(), 2.into());
    let case = case("a draft that stops before a draw it is unsure of", target, draft, &[3], 3);
    Case { stops_before: is_unsure, ..case }
}

/// A [`Residual`](specfleet_speculation::accept::Residual) is summed in blocks of 64 ids, and those without q in another way.
fn ids_of_three_blocks() -> Case {
    let (target, draft) = (sparse(131, [(3, 1), (70, 3), (130, 2)]), sparse(131, [(3, 2), (70, 1)]));
    case("ids of three blocks, one of them without q", target, draft, &[2], 3)
}

pub(crate) fn named() -> Vec<Case> {
    let ended = |name: &str, lengths: &[usize], n_tokens| {
        let case = case(name, scrambled(5, 3), scrambled(6, 3), lengths, n_tokens);
        Case { end: Some(1), ..case }
    };
    let adaptive = |name: &str, target, draft| {
        let case = case(name, target, draft, &[0], 4);
        Case { lengths: Lengths::following_acceptance(), ..case }
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
        adaptive("the length follows earlier acceptance", scrambled(9, 3), scrambled(10, 3)),
        sure_draft(),
        case("penalties that depend on accepted tokens", penalised(3), always([3, 2, 1]), &[2], 4),
        case("penalties on both sides", penalised(3), penalised(3), &[2], 4),
        case("max_tokens inside the round", scrambled(7, 3), scrambled(8, 3), &[4], 2),
        case("max_tokens of one", scrambled(7, 4), scrambled(8, 4), &[3], 1),
        case("a draft that knows fewer ids", always([1, 2, 3, 2, 2, 0]), always([1, 1, 1, 1]), &[2], 2),
        case("a draft that knows more ids", always([1, 2, 3]), always([1, 1, 1, 2]), &[2], 2),
        ids_of_three_blocks(),
        case("six ids", scrambled(11, 6), scrambled(12, 6), &[2], 2),
        ended("an end token inside the round", &[3], 4),
        ended("an end token and changing lengths", &[1, 3], 4),
        Case { end: Some(0), ..case("an end token with half the mass", always([1, 1]), always([0, 1]), &[4], 5) },
    ]
}

pub(crate) fn generated(count: u64) -> Vec<Case> {
    let mut random = ChaCha8Rng::seed_from_u64(2023);
    let make = |seed: u64| {
        let n_vocab = random.random_range(2..=6_usize);
        // Wider vocabularies get shorter rounds, so that the tree of choices stays small.
        let (greatest_length, n_tokens) = [(4, 4), (3, 3), (2, 3), (2, 2), (2, 2)][n_vocab - 2];
        let n_lengths = random.random_range(1..=3);
        let lengths: Vec<usize> = (0..n_lengths).map(|_| random.random_range(0..=greatest_length)).collect();
        Case {
            n_tokens: random.random_range(1..=n_tokens),
            end: random.random_bool(0.3).then(|| random.random_range(0..n_vocab as TokenId)),
            ..case(
                &format!("generated {seed}"),
                scrambled(2 * seed, n_vocab),
                scrambled(2 * seed + 1, n_vocab),
                &lengths,
                0,
            )
        }
    };
    (0..count).map(make).collect()
}
