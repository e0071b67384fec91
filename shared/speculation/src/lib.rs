//! The mathematics of speculative decoding, and nothing else: no tensors, no sockets, no clock. Random numbers are
//! functions of a seed.
//!
//! # The theorem
//!
//! A small model *drafts* a token x from its distribution q. A large one, the *target*, has the distribution p at the
//! same place. Then
//!
//! 1. accept x with probability min(1, p(x) / q(x));
//! 2. otherwise draw from the normalised positive part of p - q.
//!
//! The outcome is distributed exactly like p, **whatever q is**. Over several positions: test in order, stop at the first
//! rejection, and if every position passed, draw one more token from p.
//!
//! *Proof sketch.* The token y comes out in two ways. Drafted and accepted: q(y) min(1, p(y)/q(y)) = min(p(y), q(y)).
//! By correction: a rejection happens with probability 1 - Σ min(p, q) = Σ max(p - q, 0), and then y is drawn with
//! probability max(p(y) - q(y), 0) / Σ max(p - q, 0); the product is p(y) - min(p(y), q(y)). The sum of both is p(y).
//! Rows of later positions are conditioned on accepted tokens only, so the argument repeats position by position. ∎
//!
//! The proof uses that x *really* was drawn from q, that nothing but the draw decided whether x is tested, and that the
//! numbers behind draw, test and correction are independent. Code that breaks one of these still writes fluent text. The
//! modules are cut so that each of them is visible in one place:
//!
//! | module | what it is for |
//! |---|---|
//! | [`transform`] | logits become the distribution the client asked for; one function for target and draft |
//! | [`propose`] | the draft truncates and rounds *first*, then draws from exactly what it reports |
//! | [`distribution`] | what a draft reports, checked |
//! | [`accept`] | the rule for one position |
//! | [`round`] | a whole proposal becomes committed tokens |
//! | [`coupled`] | the draft-invariant rule: text that depends on seed and target alone |
//! | [`random`] | numbers keyed by seed, position and purpose |
//! | [`law`] | distributions as the rule sees them, in any number type, so that tests prove it with fractions |
//! | [`draft_length`] | what a proposal of some length is worth |
//! | [`honesty`] | whether tokens really are drawn from the reported q, tested while serving |
//!
//! # Words
//!
//! | word | meaning |
//! |---|---|
//! | target, draft | the large and the small model; p and q in formulas |
//! | committed prefix | prompt and verified tokens |
//! | round | one proposal and its verification |
//! | draft length | how many tokens a round proposes |
//! | accepted | a draft token that passed |
//! | corrected | the token drawn from the residual at the first rejection |
//! | bonus | the extra token after all draft tokens passed |
//! | plain step | a round without a proposal: one token |
//! | residual | the positive part of p - q |
//! | position | index of a token in its sequence, prompt included |
//!
//! # Example
//!
//! One round with a proposal of one token, over a vocabulary of four.
//!
//! ```
//! use specfleet_speculation::distribution::Proposal;
//! use specfleet_speculation::propose::{self, Rule, Support};
//! use specfleet_speculation::random::{DraftRandomness, RequestSeed, VerifyRandomness};
//! use specfleet_speculation::round::{self, RoundInput};
//! use specfleet_speculation::transform::{SamplingParams, TokenCounts, Transforms, Vocabulary};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let params = SamplingParams { temperature: 0.8, top_k: 3, ..SamplingParams::default() };
//! let transforms = Transforms::new(params, 4)?;
//! let committed = TokenCounts::new(&[2, 0]);
//! let seed = RequestSeed::from_u64(7);
//!
//! // The draft's side.
//! let mut logits = [1.0, 0.5, 0.0, -1.0];
//! let shaped = transforms.shape(&mut logits, Vocabulary::Full, &committed, &[], None)?;
//! let randomness = DraftRandomness::new(&seed.draft_seed());
//! let drafted = propose::draft_token(&shaped, Support::default(), Rule::Standard, &randomness, 2);
//! let proposal = Proposal::new(vec![drafted.token], vec![drafted.distribution], 4)?;
//!
//! // The verifier's side.
//! let rows = [[0.2, 0.1, 1.5, 0.0], [2.0, 0.0, 0.0, 0.0]];
//! let input = RoundInput {
//!     proposal: Some(&proposal),
//!     base_length: 2,
//!     rule: Rule::Standard,
//!     randomness: &VerifyRandomness::new(&seed),
//!     is_end: &|_| false,
//!     budget: 10,
//! };
//! let outcome = round::decide(input, |index, accepted| {
//!     transforms.shape(&mut rows[index].clone(), Vocabulary::Full, &committed, accepted, None)
//! })?;
//! assert!((1..=2).contains(&outcome.committed.len()));
//! # Ok(())
//! # }
//! ```

pub mod accept;
pub mod coupled;
pub mod distribution;
pub mod draft_length;
pub mod honesty;
mod lanes;
pub mod law;
pub mod propose;
pub mod random;
pub mod round;
mod select;
pub mod transform;

/// Index of a token in the target's vocabulary.
pub type TokenId = u32;
