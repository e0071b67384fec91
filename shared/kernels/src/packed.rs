//! Weights re-arranged once, so that a product only ever reads forward.
//!
//! Layout `[n_out / 64][n_in / RUN][64][RUN]`: a panel of 64 outputs is one stream of memory, of
//! which each 64-byte line holds, for sixteen outputs, the weights of the next run of inputs (one
//! for f32, two for bf16, four for 8-bit integers). A kernel loads a line, broadcasts the run of
//! inputs and has advanced sixteen sums at once, with no horizontal addition ever. The last panel
//! may be narrower; outputs are padded to a multiple of 16, inputs to a whole run.

use crate::{AlignedBuffer, Weight, WorkerPool};

/// Outputs per line of weights: the f32 lanes of a register.
pub(crate) const LANES: usize = 16;

/// Outputs of a full panel: four lines beside each other.
pub(crate) const PANEL: usize = 4 * LANES;

/// One matrix `[n_out, n_in]`, or several that share their input stacked on each other, and a bias.
#[derive(Debug)]
pub struct PackedLinear<W> {
    n_out: usize,
    n_in: usize,
    weights: AlignedBuffer<W>,
    /// What the weights of an output are multiplied with; padded to whole lines.
    scales: Option<Vec<f32>>,
    /// Padded to whole lines.
    bias: Option<Vec<f32>>,
}

impl<W: Weight> PackedLinear<W> {
    /// Packs `parts`, each row-major `[n_out of the part, n_in]`, below each other: one product
    /// then gives query, key and value, or gate and up, at once. `bias` is `[n_out]`.
    ///
    /// # Panics
    /// When `n_in` is 0, a part is not whole rows, or the bias has another length than the output.
    #[must_use]
    pub fn pack(pool: &WorkerPool, parts: &[&[W::Input]], n_in: usize, bias: Option<Vec<f32>>) -> Self {
        assert!(n_in > 0, "a product needs inputs");
        for part in parts {
            let n = part.len();
            assert!(n.is_multiple_of(n_in), "{n} weights, rows of {n_in}");
        }
        let rows: Vec<&[W::Input]> = parts.iter().flat_map(|p| p.chunks_exact(n_in)).collect();
        let n_out = rows.len();
        assert!(n_out > 0, "a product needs outputs");
        let n_padded = n_out.next_multiple_of(LANES);
        let bias = bias.map(|mut bias| {
            assert_eq!(bias.len(), n_out, "one bias per output");
            bias.resize(n_padded, 0.0);
            bias
        });
        let scales: Option<Vec<f32>> = rows.iter().map(|row| W::scale(row)).collect();
        let n_in_padded = n_in.next_multiple_of(W::RUN);
        let mut weights = AlignedBuffer::zeroed(n_padded * n_in_padded);
        pool.over_rows(&mut weights, PANEL * n_in_padded, 4, |first, panels| {
            for (index, panel) in panels.chunks_mut(PANEL * n_in_padded).enumerate() {
                let first = (first + index) * PANEL;
                let width = panel.len() / n_in_padded;
                for (lane, row) in rows[first..].iter().take(width).enumerate() {
                    let scale = scales.as_ref().map_or(1.0, |scales| scales[first + lane]);
                    pack_row(row, scale, panel, width, lane);
                }
            }
        });
        let scales = scales.map(|mut scales| {
            scales.resize(n_padded, 0.0);
            scales
        });
        Self { n_out, n_in, weights, scales, bias }
    }

    /// Outputs: rows of the matrix.
    #[must_use]
    pub fn n_out(&self) -> usize {
        self.n_out
    }

    /// Inputs: columns of the matrix.
    #[must_use]
    pub fn n_in(&self) -> usize {
        self.n_in
    }

    /// Bytes that one product reads: weights, scales and biases.
    #[must_use]
    pub fn n_bytes(&self) -> usize {
        let n_floats = [&self.scales, &self.bias].into_iter().flatten().map(Vec::len).sum::<usize>();
        self.weights.len() * size_of::<W>() + n_floats * size_of::<f32>()
    }

    /// Panels of 64 outputs, the last perhaps of fewer.
    pub(crate) fn n_panels(&self) -> usize {
        self.n_out.div_ceil(PANEL)
    }

    /// Packed weights of a panel, all outputs of a run of inputs beside each other.
    pub(crate) fn panel(&self, panel: usize) -> &[W] {
        let panel_len = PANEL * self.n_in.next_multiple_of(W::RUN);
        let end = self.weights.len().min((panel + 1) * panel_len);
        &self.weights[panel * panel_len..end]
    }

    /// Padded scales of a panel.
    pub(crate) fn panel_scales(&self, panel: usize) -> Option<&[f32]> {
        self.scales.as_ref().map(|scales| of_panel(scales, panel))
    }

    /// Padded biases of a panel.
    pub(crate) fn panel_bias(&self, panel: usize) -> Option<&[f32]> {
        self.bias.as_ref().map(|bias| of_panel(bias, panel))
    }

    /// Row `row` of the matrix, with what packing has left of its digits.
    pub(crate) fn copy_row(&self, row: usize, out: &mut [f32]) {
        let panel = self.panel(row / PANEL);
        let width = panel.len() / self.n_in.next_multiple_of(W::RUN);
        let scale = self.scales.as_ref().map_or(1.0, |scales| scales[row]);
        let runs = panel[row % PANEL * W::RUN..].chunks(width * W::RUN);
        for (out, run) in out.chunks_mut(W::RUN).zip(runs) {
            for (out, weight) in out.iter_mut().zip(run) {
                *out = weight.unpack(scale);
            }
        }
    }
}

/// The panel's part of an array that has one number per output.
fn of_panel(numbers: &[f32], panel: usize) -> &[f32] {
    &numbers[panel * PANEL..numbers.len().min((panel + 1) * PANEL)]
}

/// Packs a row as output `lane` of a panel that has room for `width` outputs.
fn pack_row<W: Weight>(row: &[W::Input], scale: f32, panel: &mut [W], width: usize, lane: usize) {
    let runs = panel.chunks_exact_mut(width * W::RUN);
    for (to, run) in runs.zip(row.chunks(W::RUN)) {
        for (to, weight) in to[lane * W::RUN..].iter_mut().zip(run) {
            *to = W::pack(*weight, scale);
        }
    }
}
