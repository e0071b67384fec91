//! The inner loops' signatures on architectures that have none: no [`Isa`] exists there, so none
//! of these is ever called.
#![allow(unsafe_code)]

use std::ops::Range;

use half::bf16;

use crate::{AttentionShape, Element, Int8, Output, PackedLinear, Weight, disjoint::Disjoint, int8::Group, isa::Isa};

const NO_ISA: &str = "an Isa is never detected on this architecture";

pub(crate) const MAX_QUERIES: usize = 1;

/// Keeps [`Element`] closed.
pub trait Lanes: Copy + 'static {}
impl Lanes for bf16 {}
impl Lanes for f32 {}

/// Keeps [`Weight`] closed.
pub trait Multiply: Copy + 'static {
    type Operand: Clone + Send + Sync;
}
impl<E: Element> Multiply for E {
    type Operand = E;
}
impl Multiply for Int8 {
    type Operand = Group;
}

pub(crate) struct Product<'a, W: Weight> {
    pub(crate) weights: &'a PackedLinear<W>,
    pub(crate) x: &'a [W::Operand],
    pub(crate) y: &'a Disjoint<'a, f32>,
    pub(crate) n_rows: usize,
    pub(crate) output: Output,
}

pub(crate) struct Tiles<'a, E> {
    pub(crate) shape: AttentionShape,
    pub(crate) kv_head: usize,
    pub(crate) blocks: &'a [u32],
    pub(crate) keys: &'a [E],
    pub(crate) values: &'a [E],
}

pub(crate) unsafe fn multiply<W: Weight>(_: Isa, _: &Product<'_, W>, _: Range<usize>) {
    unreachable!("{NO_ISA}")
}

pub(crate) fn attend<E>(_: Isa, _: &Tiles<'_, E>, _: &[E], _: &[usize], _: &mut [E]) {
    unreachable!("{NO_ISA}")
}

pub(crate) fn rms_norm<E>(_: Isa, _: &[f32], _: &[f32], _: f32, _: &mut [E]) {
    unreachable!("{NO_ISA}")
}

pub(crate) fn swiglu<E>(_: Isa, _: &[f32], _: &[f32], _: &mut [E]) {
    unreachable!("{NO_ISA}")
}

pub(crate) fn round<E>(_: Isa, _: &[f32], _: &mut [E]) {
    unreachable!("{NO_ISA}")
}

pub(crate) fn round_to_int8(_: Isa, _: &[bf16], _: &mut [Group]) {
    unreachable!("{NO_ISA}")
}

pub(crate) fn read(_: Isa, _: &[f32]) -> f32 {
    unreachable!("{NO_ISA}")
}
