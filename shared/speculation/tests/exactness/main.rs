//! Is the output really the target's distribution?
//!
//! By enumeration: every random choice of small cases is followed with its exact probability through the code that
//! serves requests, and the law of the output equals the target's, as fractions (`theorem`), for both rules. By sampling: the same with
//! the real number streams (`frequencies`, `draft_invariant`). By negative control: wrong rules that people have
//! shipped are put through the same checks and must fail them (`wrong_rules`). And by comparison with the Hugging Face
//! processors (`goldens`). `faults` holds faults that were reported in public, one small test each.

#![allow(clippy::unwrap_used)]

mod case;
mod cases;
mod draft_invariant;
mod enumerate;
mod faults;
mod frequencies;
mod goldens;
mod pair;
mod theorem;
mod tickets;
mod wrong_rules;
