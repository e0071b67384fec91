//! The targets under libFuzzer: it sees which code an input reaches, and keeps those that reach more.
//!
//! `tests/fuzz/guided` builds this with the instrumentation and says which target, and where its corpus is.
#![no_main]

use std::{cell::RefCell, fs, path::PathBuf, sync::LazyLock};

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use specfleet_fuzz::{Decode, Target, dice::Dice, memory::Measurement, mutate::mutate, targets};

static TARGET: LazyLock<&'static Target> = LazyLock::new(|| {
    let name = std::env::var("SPECFLEET_FUZZ_TARGET").unwrap_or_default();
    targets::find(&name).unwrap_or_else(|| panic!("no target {name:?}"))
});
static SEEDS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| (TARGET.seeds)());

thread_local! {
    static DECODE: RefCell<Decode> = RefCell::new((TARGET.start)());
}

/// Before libFuzzer reads its corpus.
fn begin() {
    // libFuzzer's own hook ends the process at any panic, also at one that a decoder contains.
    drop(std::panic::take_hook());
    let folder = PathBuf::from(std::env::var_os("SPECFLEET_FUZZ_CORPUS").unwrap_or_default());
    for (index, seed) in SEEDS.iter().enumerate() {
        fs::write(folder.join(format!("seed-{index}")), seed).expect("the corpus can be written");
    }
}

fuzz_target!(init: begin(), |bytes: &[u8]| {
    let (_, peak) = DECODE.with_borrow_mut(|decode| Measurement::start().of(|| decode(bytes)));
    let allowed = TARGET.allowance.of(bytes.len());
    assert!(peak <= allowed, "{} bytes take {peak} bytes of memory, allowed are {allowed}", bytes.len());
});

// Half of the mutations are those that formats invite, half are libFuzzer's, which uses what the code compares with.
fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    if seed.is_multiple_of(2) {
        return fuzzer_mutate(data, size, max_size);
    }
    let mut input = data[..size].to_vec();
    mutate(&mut input, &SEEDS, &mut Dice::new(seed.into()));
    let new_size = input.len().min(max_size);
    data[..new_size].copy_from_slice(&input[..new_size]);
    new_size
});
