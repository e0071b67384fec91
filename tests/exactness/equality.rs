//! Greedy text is plain decoding's, token for token, and the logits behind it are the same bit for bit.
//!
//! "Differences are only rounding" is how real faults hide. So wherever a device can keep a row's bits, this asks for
//! them: with speculation on or off, alone or in a batch, with any draft and any draft length, with the prompt computed
//! at once, in chunks, or found in the cache.
//!
//! - [`real`]: the real models, on every dtype and set of operators of the CPU, row by row.
//! - [`scripted`]: models that are tables, where a draft can be wrong exactly where it should.
//! - [`rollback`]: acceptance shows whether the draft's memory of the text is right, where the text itself does not.
//! - [`prefix`]: what a draft finds in its cache is worth as much as what it computes.

mod prefix;
mod real;
mod rollback;
mod scripted;
mod text;

pub(crate) use scripted::winding;
use text::Text;
