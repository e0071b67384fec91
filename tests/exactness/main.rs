//! Is the output the target's?
//!
//! A fault in speculative decoding still writes fluent text, so nothing here looks at text. Models are tables whose laws
//! can be enumerated, behind the production services; their output is counted and judged, and tables with the figures
//! are printed. The proof of the rule itself, with fractions, is in `shared/speculation/tests/exactness`.
//!
//! - [`controls`]: would these tests notice a fault?
//! - [`draft_invariant`]: a seed gives one text, whatever drafts for it.
//! - [`equality`]: greedy text and the bits of its logits do not depend on how they came about.
//! - [`honesty`]: a draft that does not draw from what it reports is found out, and then cannot bend the output.
//! - [`sampling`]: many draws through both services have the law of the target.
//! - [`selection`]: nothing that follows from a token decides whether it is tested.
//! - [`structured_output`]: output that was asked to have a form always has it, and the law is the target's within it.
#![allow(clippy::unwrap_used)]

mod controls;
mod draft_invariant;
mod equality;
mod honesty;
mod sampling;
mod selection;
mod structured_output;
