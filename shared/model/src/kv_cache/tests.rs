#![allow(clippy::unwrap_used)]

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::*;

fn tokens(n: usize) -> Vec<TokenId> {
    (0..n as TokenId).collect()
}

/// Reserves and "computes" up to `len` tokens.
fn compute(cache: &mut KvCache, sequence: &mut KvSequence, len: usize) {
    cache.reserve(sequence, len).unwrap();
    sequence.advance(len - sequence.len());
}

#[test]
fn a_reservation_takes_whole_blocks_and_release_returns_them() {
    let mut cache = KvCache::new(4);
    let mut sequence = cache.start(&tokens(20));
    assert_eq!(sequence.len(), 0);
    compute(&mut cache, &mut sequence, 17);
    assert_eq!((sequence.blocks().len(), cache.n_available()), (2, 2));
    cache.release(sequence);
    assert_eq!(cache.n_available(), 4);
}

#[test]
fn a_reservation_that_does_not_fit_changes_nothing() {
    let mut cache = KvCache::new(2);
    let mut sequence = cache.start(&[]);
    compute(&mut cache, &mut sequence, 10);
    assert_eq!(cache.reserve(&mut sequence, 40), Err(OutOfBlocks { needed: 2, available: 1 }));
    assert_eq!((sequence.blocks().len(), sequence.len(), cache.n_available()), (1, 10, 1));
    cache.release(sequence);
}

#[test]
fn a_published_prefix_is_reused_but_never_the_last_token() {
    let mut cache = KvCache::new(8);
    let prompt = tokens(32);
    let mut first = cache.start(&prompt);
    compute(&mut cache, &mut first, 32);
    cache.publish(&first, &prompt);

    let second = cache.start(&prompt);
    assert_eq!((second.len(), second.blocks()), (16, &first.blocks()[..1]));
    let third = cache.start(&tokens(33));
    assert_eq!((third.len(), third.blocks()), (32, first.blocks()));

    for sequence in [first, second, third] {
        cache.release(sequence);
    }
    assert_eq!(cache.n_available(), 8);
}

#[test]
fn equal_blocks_after_different_beginnings_are_not_confused() {
    let mut cache = KvCache::new(8);
    let mut prompt = tokens(32);
    let mut first = cache.start(&prompt);
    compute(&mut cache, &mut first, 32);
    cache.publish(&first, &prompt);

    prompt[0] = 99; // the second block's tokens are the same, its keys and values are not
    let other = cache.start(&[prompt.as_slice(), &[1]].concat());
    assert_eq!(other.len(), 0);
    cache.release(first);
    cache.release(other);
}

#[test]
fn only_computed_whole_blocks_are_published() {
    let mut cache = KvCache::new(8);
    let mut first = cache.start(&[]);
    compute(&mut cache, &mut first, 31);
    cache.publish(&first, &tokens(64));
    let second = cache.start(&tokens(64));
    assert_eq!(second.len(), 16);
    cache.release(first);
    cache.release(second);
}

#[test]
fn the_longest_unused_prefix_is_evicted_first_and_tails_before_heads() {
    let mut cache = KvCache::new(4);
    for first_token in [100, 200] {
        let prompt: Vec<TokenId> = (first_token..first_token + 32).collect();
        let mut sequence = cache.start(&prompt);
        compute(&mut cache, &mut sequence, 32);
        cache.publish(&sequence, &prompt);
        cache.release(sequence);
    }
    assert_eq!(cache.n_available(), 4);

    let mut intruder = cache.start(&[]);
    compute(&mut cache, &mut intruder, 16);
    let old = cache.start(&(100..133).collect::<Vec<_>>());
    let recent = cache.start(&(200..233).collect::<Vec<_>>());
    assert_eq!((old.len(), recent.len()), (16, 32));
    for sequence in [intruder, old, recent] {
        cache.release(sequence);
    }
}

#[test]
fn rollback_returns_spare_blocks() {
    let mut cache = KvCache::new(4);
    let mut sequence = cache.start(&[]);
    compute(&mut cache, &mut sequence, 40);
    cache.truncate(&mut sequence, 33);
    assert_eq!((sequence.len(), cache.n_available()), (33, 1));
    cache.truncate(&mut sequence, 32);
    assert_eq!((sequence.len(), cache.n_available()), (32, 2));
    cache.truncate(&mut sequence, 50);
    assert_eq!(sequence.len(), 32);
    cache.release(sequence);
}

#[test]
fn rollback_into_a_shared_block_stops_at_its_start() {
    let mut cache = KvCache::new(4);
    let prompt = tokens(33);
    let mut first = cache.start(&prompt);
    compute(&mut cache, &mut first, 33);
    cache.publish(&first, &prompt);
    let mut second = cache.start(&prompt);
    assert_eq!(second.len(), 32);
    cache.truncate(&mut second, 20);
    assert_eq!(second.len(), 16);
    cache.release(second);

    cache.truncate(&mut first, 20); // alone now: the block is withdrawn and may be overwritten
    assert_eq!(first.len(), 20);
    let third = cache.start(&prompt);
    assert_eq!(third.len(), 16);
    cache.release(first);
    cache.release(third);
    assert_eq!(cache.n_available(), 4);
}

/// What a user of the cache can do.
#[derive(Debug, Clone)]
enum Action {
    Start { stem: u8, len: usize },
    Extend { which: usize, by: usize },
    Truncate { which: usize, by: usize },
    Publish { which: usize },
    Release { which: usize },
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        (0..3u8, 1..90usize).prop_map(|(stem, len)| Action::Start { stem, len }),
        (0..8usize, 1..40usize).prop_map(|(which, by)| Action::Extend { which, by }),
        (0..8usize, 1..40usize).prop_map(|(which, by)| Action::Truncate { which, by }),
        (0..8usize).prop_map(|which| Action::Publish { which }),
        (0..8usize).prop_map(|which| Action::Release { which }),
    ]
}

/// A running sequence and the tokens that it is made of.
struct Running {
    kv: KvSequence,
    tokens: Vec<TokenId>,
}

/// The simple model: a memory that really stores the token at each (block, slot) together with the whole
/// prefix that it was computed from, which is what a key or value depends on.
#[derive(Default)]
struct Memory(HashMap<(u32, usize), Vec<TokenId>>);

impl Memory {
    fn write(&mut self, running: &mut Running, upto: usize) {
        for position in running.kv.len()..upto {
            let block = running.kv.blocks()[position / BLOCK_TOKENS];
            let prefix = running.tokens[..=position].to_vec();
            self.0.insert((block, position % BLOCK_TOKENS), prefix);
        }
        running.kv.advance(upto - running.kv.len());
    }

    fn check(&self, running: &Running) {
        for position in 0..running.kv.len() {
            let block = running.kv.blocks()[position / BLOCK_TOKENS];
            assert_eq!(self.0[&(block, position % BLOCK_TOKENS)], running.tokens[..=position]);
        }
    }
}

proptest! {
    #[test]
    fn every_sequence_always_finds_exactly_its_own_prefix(actions in prop::collection::vec(action(), 1..120)) {
        let mut cache = KvCache::new(12);
        let mut memory = Memory::default();
        let mut all: Vec<Running> = Vec::new();
        for (step, action) in actions.into_iter().enumerate() {
            match action {
                Action::Start { stem, len } => {
                    // Three stems that agree for 0, 20 or 40 tokens, so that prefixes are partly shared.
                    let tokens: Vec<TokenId> =
                        (0..len).map(|i| if i < 20 * stem as usize { 7 } else { stem as TokenId + 10 }).collect();
                    let kv = cache.start(&tokens);
                    prop_assert!(kv.len() < tokens.len());
                    all.push(Running { kv, tokens });
                }
                Action::Extend { which, by } if which < all.len() => {
                    let running = &mut all[which];
                    let upto = running.kv.len() + by;
                    while running.tokens.len() < upto {
                        running.tokens.push((step % 3) as TokenId);
                    }
                    let available = cache.n_available();
                    match cache.reserve(&mut running.kv, upto) {
                        Ok(()) => memory.write(running, upto),
                        Err(error) => prop_assert!(error.needed > available),
                    }
                }
                Action::Truncate { which, by } if which < all.len() => {
                    let running = &mut all[which];
                    let len = running.kv.len().saturating_sub(by);
                    cache.truncate(&mut running.kv, len);
                    prop_assert!(running.kv.len() <= len && len - running.kv.len() < BLOCK_TOKENS);
                    running.tokens.truncate(running.kv.len());
                }
                Action::Publish { which } if which < all.len() => {
                    cache.publish(&all[which].kv, &all[which].tokens);
                }
                Action::Release { which } if which < all.len() => {
                    cache.release(all.swap_remove(which).kv);
                }
                _ => {}
            }
            for running in &all {
                memory.check(running);
            }
            let in_use: HashSet<u32> = all.iter().flat_map(|running| running.kv.blocks()).copied().collect();
            prop_assert_eq!(cache.n_available() + in_use.len(), cache.n_blocks());
        }
        for running in all {
            cache.release(running.kv);
        }
        prop_assert_eq!(cache.n_available(), cache.n_blocks());
    }
}
