//! The operators in libtorch's own terms: every device, every dtype, and plain enough to be the reference.

use tch::{Kind, Tensor};

use super::{Geometry, Operators, Result, RowPlan};
use crate::checkpoint::Values;

mod step;

pub(crate) use step::LibtorchStep;

/// The libtorch implementation.
#[derive(Debug)]
pub(crate) struct Libtorch {
    geometry: Geometry,
    /// Rotary factors of all positions, f32 `[positions, head_dim / 2]`.
    cos: Tensor,
    sin: Tensor,
}

/// A matrix as libtorch takes it: `[n_out, n_in]` in the model's dtype, bias f32 `[n_out]`.
#[derive(Debug)]
pub(crate) struct Matrix {
    weight: Tensor,
    bias: Option<Tensor>,
}

/// Norms of the heads, f32 `[head_dim]` each.
#[derive(Debug)]
pub(crate) struct HeadNorms {
    query: Tensor,
    key: Tensor,
}

impl Libtorch {
    /// Sets libtorch's own threads, which are the whole process's, to `n_threads`.
    pub(crate) fn new(geometry: Geometry, n_threads: usize) -> Result<Self, tch::TchError> {
        tch::set_num_threads(i32::try_from(n_threads).unwrap_or(i32::MAX));
        let half = (geometry.head_dim / 2) as i64;
        let table = |values: &[f32]| Tensor::f_from_slice(values)?.f_view([-1, half])?.f_to_device(geometry.device);
        let (cos, sin) = (table(&geometry.rotary.cos)?, table(&geometry.rotary.sin)?);
        Ok(Self { geometry, cos, sin })
    }
}

impl Operators for Libtorch {
    type Matrix = Matrix;
    type Table = Tensor;
    type HeadNorms = HeadNorms;
    type Step<'a> = LibtorchStep<'a>;

    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn name(&self) -> &'static str {
        "libtorch"
    }

    fn matrix(&self, parts: &[Values<'_>], n_in: usize, bias: Option<Vec<f32>>) -> Result<Matrix, tch::TchError> {
        let Geometry { kind, device, .. } = self.geometry;
        let parts = parts.iter().map(|part| weight_rows(part, n_in, kind)?.f_to_device(device));
        let weight = Tensor::f_cat(&parts.collect::<Result<Vec<_>, _>>()?, 0)?;
        let bias = bias.map(|bias| Tensor::f_from_slice(&bias)?.f_to_device(device)).transpose()?;
        Ok(Matrix { weight, bias })
    }

    fn matrix_bytes(&self, matrix: &Matrix) -> usize {
        let tensors = [Some(&matrix.weight), matrix.bias.as_ref()].into_iter().flatten();
        tensors.map(|tensor| tensor.numel() * tensor.kind().elt_size_in_bytes()).sum()
    }

    fn table(&self, rows: &Values<'_>, width: usize) -> Result<Tensor, tch::TchError> {
        weight_rows(rows, width, self.geometry.kind)?.f_to_device(self.geometry.device)
    }

    fn head_norms(&self, query: Vec<f32>, key: Vec<f32>) -> Result<HeadNorms, tch::TchError> {
        let norm = |values: Vec<f32>| Tensor::f_from_slice(&values)?.f_to_device(self.geometry.device);
        Ok(HeadNorms { query: norm(query)?, key: norm(key)? })
    }

    fn begin<'a>(&'a self, plan: &'a RowPlan) -> Result<LibtorchStep<'a>> {
        LibtorchStep::new(self, plan)
    }
}

/// `values` as `[rows, n_in]` in the model's dtype, on the host.
fn weight_rows(values: &Values<'_>, n_in: usize, kind: Kind) -> Result<Tensor, tch::TchError> {
    let shape = [(values.len() / n_in) as i64, n_in as i64];
    if kind == Kind::BFloat16 {
        Tensor::f_from_data_size(bytemuck::cast_slice(&values.to_bf16()), &shape, kind)
    } else {
        Tensor::f_from_data_size(bytemuck::cast_slice(&values.to_f32()), &shape, kind)
    }
}
