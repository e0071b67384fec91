//! CPU kernels for decoding a few rows at a time.
//!
//! One decoding step of a language model reads every weight once and does almost no arithmetic
//! with it, so its speed limit is the memory's. General tensor libraries stay far below that
//! limit for one to a dozen rows: they dispatch hundreds of small operators, start threads for
//! each and re-arrange weights on the way. The kernels here do one thing: run a Llama-shaped
//! layer for few rows at the speed of the memory, on x86-64 with AVX-512 and its bf16 and 8-bit
//! dot products.
//!
//! # A row's bits
//!
//! **No result depends on what else is in the batch.** Every output element is accumulated in
//! one fixed order, whatever the number of rows, the row's place among them and the number of
//! threads. Speculative decoding rests on it: verifying five tokens in one pass gives the very
//! logits that five single steps would have given.
//!
//! # How to call it
//!
//! A [`WorkerPool`] exists only where the processor has the instructions ([`supported`]), and
//! every kernel takes one: having a pool is the proof that the kernels may run. A layer is
//!
//! ```text
//! residual ── rms_norm ── linear(q,k,v) ── rope_and_cache ── attention ── linear ──(+)── residual
//! residual ── rms_norm ── linear(gate,up) ── swiglu ── linear ──(+)── residual
//! ```
//!
//! with the residual, the products' results and all sums in f32, and with the inputs of products,
//! the weights and the KV cache in the element type: [`half::bf16`] or f32. Weights for bf16
//! inputs may also be 8-bit integers ([`Int8`]).
//!
//! Lengths are contracts between modules of one program, so the functions assert them.
#![cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "there are no inner loops to use it"))]

mod attention;
#[cfg_attr(not(target_arch = "x86_64"), path = "nowhere.rs")]
mod avx512;
pub mod bandwidth;
mod buffer;
mod disjoint;
mod element;
mod embedding;
mod int8;
mod isa;
mod linear;
mod norm;
mod packed;
pub mod pool;
mod rope;
mod segment;
mod split;
mod swiglu;
mod weight;

pub use attention::attention;
pub use buffer::AlignedBuffer;
pub use element::Element;
pub use embedding::embed;
pub use int8::Int8;
pub use isa::supported;
pub use linear::{Output, linear};
pub use norm::rms_norm;
pub use packed::PackedLinear;
pub use pool::WorkerPool;
pub use rope::{QkNorm, RopeTables, Rotation, rope_and_cache};
pub use segment::{AttentionShape, BLOCK, Segment};
pub use swiglu::swiglu;
pub use weight::Weight;
