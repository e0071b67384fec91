//! Where did these tokens last occur? Answered without reading the prefix again in every round.
//!
//! An index is kept beside the KV memory and is not counted in it, so it must be small: it holds 64 bits of an n-gram and
//! where it ends, from 20 to 40 bytes with all that a hash table needs, and no token. So for each size of n-grams an index
//! takes at most 40 bytes for each token of its sequence, and all of them at most that for each token that the sessions may
//! have. Whether the n-gram found there is the one that was looked for, the sequence itself says. And a prompt of any length
//! must not hold up the other sessions of the engine: it is taken in over as many rounds as that takes. Until then an index
//! knows the beginning of its sequence.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    ops::RangeInclusive,
};

use specfleet_speculation::TokenId;

/// The longest n-gram that an index can be asked for.
pub(crate) const LONGEST_NGRAM: usize = 4;

/// Tokens that are taken in at a time: half a millisecond's work.
const MOST_AT_ONCE: usize = 2048;

/// For every n-gram of a growing sequence, up to a length: where its most recent occurrence that has a continuation ends.
pub(crate) struct NgramIndex {
    /// By a hash of the n-gram. Of two with the same hash the later one is kept.
    continuations: HashMap<u64, u32>,
    /// Of its own, so that nobody can write text whose n-grams collide.
    hasher: RandomState,
    sizes: RangeInclusive<usize>,
    n_indexed: usize,
}

impl NgramIndex {
    /// An index of nothing, for n-grams of so many tokens, from 1 to [`LONGEST_NGRAM`].
    pub(crate) fn new(sizes: RangeInclusive<usize>) -> Self {
        Self { continuations: HashMap::new(), hasher: RandomState::new(), sizes, n_indexed: 0 }
    }

    /// Takes in the tokens of `sequence` that came since the last time, or the first of them if they are very many.
    pub(crate) fn extend(&mut self, sequence: &[TokenId]) {
        let end_of_new = sequence.len().min(self.n_indexed + MOST_AT_ONCE);
        // An n-gram is entered only once a token follows it, so the one at the very end is never its own occurrence.
        for end in self.n_indexed.max(1)..end_of_new {
            // No sequence is longer: lengths have 32 bits on the wire.
            let Ok(position) = u32::try_from(end) else { return };
            for n in self.sizes_within(end) {
                self.continuations.insert(self.hasher.hash_one(&sequence[end - n..end]), position);
            }
        }
        self.n_indexed = end_of_new;
    }

    /// At most `length` tokens that may follow `sequence`, which must be what the index was last extended with. Where the
    /// earlier occurrence is so near that its continuation runs into the end, the repetition goes on.
    pub(crate) fn continuation(&self, sequence: &[TokenId], length: usize) -> Vec<TokenId> {
        let found = self.sizes_within(sequence.len()).rev().find_map(|n| {
            let last = &sequence[sequence.len() - n..];
            let end = *self.continuations.get(&self.hasher.hash_one(last))? as usize;
            (sequence.get(end.checked_sub(n)?..end)? == last).then_some(end)
        });
        let Some(begin) = found else { return Vec::new() };
        sequence[begin..].iter().copied().cycle().take(length).collect()
    }

    fn sizes_within(&self, length: usize) -> RangeInclusive<usize> {
        *self.sizes.start()..=length.min(*self.sizes.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn continuation(sequence: &[TokenId], length: usize) -> Vec<TokenId> {
        let mut index = NgramIndex::new(1..=3);
        index.extend(sequence);
        index.continuation(sequence, length)
    }

    #[test]
    fn continuations() {
        let cases: [(&str, &[TokenId], &[TokenId]); 8] = [
            ("one token has no past", &[1], &[]),
            ("nothing repeats", &[1, 2, 3, 4], &[]),
            ("the last token occurred", &[7, 8, 9, 7], &[8, 9, 7, 8]),
            ("the longest n-gram wins", &[1, 2, 3, 4, 9, 3, 5, 5, 1, 2, 3], &[4, 9, 3, 5]),
            ("the most recent occurrence wins", &[1, 2, 8, 1, 2, 9, 6, 6, 1, 2], &[9, 6, 6, 1]),
            ("a shorter n-gram where no longer one occurred", &[3, 4, 5, 6, 9, 3], &[4, 5, 6, 9]),
            ("a loop goes on", &[1, 2, 1, 2, 1], &[2, 1, 2, 1]),
            ("a run goes on", &[5, 5], &[5, 5, 5, 5]),
        ];
        for (name, sequence, expected) in cases {
            assert_eq!(continuation(sequence, 4), expected, "{name}");
        }
    }

    #[test]
    fn nothing_shorter_is_found_than_what_is_asked_for() {
        let sequence = [1, 2, 3, 4, 9, 2, 3, 4];
        let mut index = NgramIndex::new(3..=3);
        index.extend(&sequence);
        assert_eq!(index.continuation(&sequence, 2), [9, 2]);
        let longer = [1, 2, 3, 4, 9, 2, 3, 4, 7, 4];
        index.extend(&longer);
        assert!(index.continuation(&longer, 2).is_empty());
    }

    #[test]
    fn growing_in_pieces_finds_what_reading_at_once_finds() {
        // A sequence with many repetitions: a linear congruential walk over 5 ids.
        let mut state = 7_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) % 5
        };
        let sequence: Vec<TokenId> = (0..300).map(|_| next()).collect();
        let mut index = NgramIndex::new(1..=3);
        let mut len = 0;
        while len < sequence.len() {
            len = (len + 1 + next() as usize).min(sequence.len());
            index.extend(&sequence[..len]);
            assert_eq!(index.continuation(&sequence[..len], 6), continuation(&sequence[..len], 6), "at {len}");
        }
    }

    #[test]
    fn a_long_sequence_is_taken_in_piece_by_piece_and_then_known_to_its_end() {
        let mut sequence: Vec<TokenId> = (0..3 * MOST_AT_ONCE as TokenId).collect();
        let n_pieces = sequence.len() / MOST_AT_ONCE;
        for (position, n_calls) in [(10, 1), (2 * MOST_AT_ONCE + 10, n_pieces)] {
            let repeated = sequence[position - 3..position].to_vec();
            sequence.extend(&repeated);
            let mut index = NgramIndex::new(1..=3);
            for call in 1..=n_calls {
                index.extend(&sequence);
                assert!(index.continuations.len() <= 3 * call * MOST_AT_ONCE, "so much work, and no more");
            }
            assert_eq!(index.continuation(&sequence, 2), [position as TokenId, position as TokenId + 1]);
            sequence.truncate(sequence.len() - repeated.len());
        }
    }

    /// The table's entries, each with a byte beside it; seven in eight may be used.
    fn n_bytes(index: &NgramIndex) -> usize {
        index.continuations.capacity() * 8 / 7 * (size_of::<(u64, u32)>() + 1)
    }

    #[test]
    fn an_index_takes_a_fixed_multiple_of_its_sequence() {
        // Nothing repeats, which is the worst.
        let sequence: Vec<TokenId> = (0..40_000).collect();
        for sizes in [1..=1, 3..=3, 1..=LONGEST_NGRAM] {
            let n_sizes = sizes.clone().count();
            let mut index = NgramIndex::new(sizes);
            for len in (64..sequence.len()).step_by(61) {
                index.extend(&sequence[..len]);
                assert!(n_bytes(&index) <= 40 * n_sizes * len, "{} bytes for {len} tokens", n_bytes(&index));
            }
            assert!(n_bytes(&index) > 17 * n_sizes * sequence.len() * 9 / 10, "it is all there");
        }
        // Repetitions cost nothing.
        let mut index = NgramIndex::new(1..=LONGEST_NGRAM);
        (0..10).for_each(|_| index.extend(&[7; 20_000]));
        assert!(n_bytes(&index) < 1000);
    }

    #[test]
    fn agrees_with_searching_the_text() {
        let search = |sequence: &[TokenId]| {
            (1..=3.min(sequence.len())).rev().find_map(|n| {
                let last = &sequence[sequence.len() - n..];
                let earlier = &sequence[..sequence.len() - 1];
                let start = earlier.windows(n).rposition(|window| window == last)?;
                Some(sequence[start + n])
            })
        };
        // All sequences of 7 tokens over 3 ids.
        for number in 0..3_u32.pow(7) {
            let sequence: Vec<TokenId> = (0..7).map(|digit| number / 3_u32.pow(digit) % 3).collect();
            assert_eq!(continuation(&sequence, 1).first().copied(), search(&sequence), "{sequence:?}");
        }
    }
}
