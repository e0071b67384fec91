//! How do two processes know that they speak about the same prefix without sending it every round?
//!
//! Each keeps a running hash of its committed tokens. A message that carries length and digest can then be checked
//! against tens of thousands of tokens by comparing two numbers.

use specfleet_speculation::TokenId;

/// A running digest of a committed prefix: the first 8 bytes, as a little-endian number, of BLAKE3 over the token ids,
/// each as 4 little-endian bytes.
///
/// How the ids arrived does not matter, only their order:
///
/// ```
/// use specfleet_protocol::PrefixDigest;
///
/// let mut at_once = PrefixDigest::new();
/// at_once.extend(&[7, 8, 9]);
/// let mut in_parts = PrefixDigest::new();
/// in_parts.extend(&[7]);
/// in_parts.extend(&[8, 9]);
/// assert_eq!(at_once.value(), in_parts.value());
/// ```
#[derive(Clone, Debug, Default)]
pub struct PrefixDigest {
    hasher: blake3::Hasher,
}

impl PrefixDigest {
    /// The digest of the empty prefix.
    pub fn new() -> Self {
        Self::default()
    }

    /// The digest of `tokens`.
    pub fn of(tokens: &[TokenId]) -> Self {
        let mut digest = Self::new();
        digest.extend(tokens);
        digest
    }

    /// Appends tokens to the prefix.
    pub fn extend(&mut self, tokens: &[TokenId]) {
        for token in tokens {
            self.hasher.update(&token.to_le_bytes());
        }
    }

    /// What goes into `base_digest` for the prefix so far. The prefix can still be extended.
    pub fn value(&self) -> u64 {
        let hash = self.hasher.finalize();
        let mut first = [0; 8];
        first.copy_from_slice(&hash.as_bytes()[..8]);
        u64::from_le_bytes(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Pins the wire format: services of different releases must agree on these numbers.
    #[test]
    fn values_are_those_of_plain_blake3_over_the_ids() {
        // BLAKE3 of no bytes begins with af1349b9f5f9a1a6, as its specification's test vectors say.
        assert_eq!(PrefixDigest::new().value(), 0xa6a1_f9f5_b949_13af);
        // Ids 0x03020100 and 0x07060504 are the bytes 0, 1, 2 ... 7.
        let by_ids = PrefixDigest::of(&[0x0302_0100, 0x0706_0504]).value();
        let by_bytes = blake3::hash(&[0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(by_ids.to_le_bytes(), by_bytes.as_bytes()[..8]);
    }

    proptest! {
        #[test]
        fn depends_on_the_order_of_ids_and_not_on_the_cuts(
            tokens in prop::collection::vec(any::<u32>(), 0..50),
            cut in 0_usize..50,
        ) {
            let cut = cut.min(tokens.len());
            let mut in_parts = PrefixDigest::of(&tokens[..cut]);
            let _ = in_parts.value();
            in_parts.extend(&tokens[cut..]);
            prop_assert_eq!(in_parts.value(), PrefixDigest::of(&tokens).value());

            let mut swapped = tokens.clone();
            swapped.reverse();
            prop_assert_eq!(
                PrefixDigest::of(&swapped).value() == PrefixDigest::of(&tokens).value(),
                swapped == tokens
            );
        }
    }
}
