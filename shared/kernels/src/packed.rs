//! Weights re-arranged once, so that a product only ever reads forward.
//!
//! Layout `[n_out / 64][n_in / PAIR][64][PAIR]`: a panel of 64 outputs is one stream of memory, of
//! which each 64-byte line holds, for sixteen outputs, the weights of the next pair of inputs (of
//! one input for f32). A kernel loads a line, broadcasts the input pair and has advanced sixteen
//! sums at once, with no horizontal addition ever. The last panel may be narrower; outputs are
//! padded with zeros to a multiple of 16, inputs to a whole pair.

use crate::{AlignedBuffer, Element, WorkerPool};

/// Outputs per line of weights: the f32 lanes of a register.
pub(crate) const LANES: usize = 16;

/// Outputs of a full panel: four lines beside each other.
pub(crate) const PANEL: usize = 4 * LANES;

/// One matrix `[n_out, n_in]`, or several that share their input stacked on each other, and a bias.
#[derive(Debug)]
pub struct PackedLinear<E> {
    n_out: usize,
    n_in: usize,
    weights: AlignedBuffer<E>,
    /// Padded to whole blocks.
    bias: Option<Vec<f32>>,
}

impl<E: Element> PackedLinear<E> {
    /// Packs `parts`, each row-major `[n_out of the part, n_in]`, below each other: one product
    /// then gives query, key and value, or gate and up, at once. `bias` is `[n_out]`.
    ///
    /// # Panics
    /// When `n_in` is 0, a part is not whole rows, or the bias has another length than the output.
    #[must_use]
    pub fn pack(pool: &WorkerPool, parts: &[&[E]], n_in: usize, bias: Option<Vec<f32>>) -> Self {
        assert!(n_in > 0, "a product needs inputs");
        for part in parts {
            let n = part.len();
            assert!(n.is_multiple_of(n_in), "{n} weights, rows of {n_in}");
        }
        let rows: Vec<&[E]> = parts.iter().flat_map(|p| p.chunks_exact(n_in)).collect();
        let n_out = rows.len();
        assert!(n_out > 0, "a product needs outputs");
        let n_padded = n_out.next_multiple_of(LANES);
        let bias = bias.map(|mut bias| {
            assert_eq!(bias.len(), n_out, "one bias per output");
            bias.resize(n_padded, 0.0);
            bias
        });
        let n_in_padded = n_in.next_multiple_of(E::PAIR);
        let mut weights = AlignedBuffer::zeroed(n_padded * n_in_padded);
        pool.over_rows(&mut weights, PANEL * n_in_padded, 4, |first, panels| {
            let rows = rows[first * PANEL..].chunks(PANEL);
            for (panel, rows) in panels.chunks_mut(PANEL * n_in_padded).zip(rows) {
                pack_panel(rows, panel.len() / n_in_padded, panel);
            }
        });
        Self { n_out, n_in, weights, bias }
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

    /// Bytes that one product reads.
    #[must_use]
    pub fn n_bytes(&self) -> usize {
        self.weights.len() * size_of::<E>()
    }

    /// Panels of 64 outputs, the last perhaps of fewer.
    pub(crate) fn n_panels(&self) -> usize {
        self.n_out.div_ceil(PANEL)
    }

    /// Packed weights of a panel, all outputs of a pair of inputs beside each other.
    pub(crate) fn panel(&self, panel: usize) -> &[E] {
        let panel_len = PANEL * self.n_in.next_multiple_of(E::PAIR);
        let end = self.weights.len().min((panel + 1) * panel_len);
        &self.weights[panel * panel_len..end]
    }

    /// Padded biases of a panel.
    pub(crate) fn panel_bias(&self, panel: usize) -> Option<&[f32]> {
        let bias = self.bias.as_ref()?;
        Some(&bias[panel * PANEL..bias.len().min((panel + 1) * PANEL)])
    }

    /// Row `row` of the matrix as it was before packing.
    pub(crate) fn copy_row(&self, row: usize, out: &mut [f32]) {
        let panel = self.panel(row / PANEL);
        let width = panel.len() / self.n_in.next_multiple_of(E::PAIR);
        let pairs = panel[row % PANEL * E::PAIR..].chunks(width * E::PAIR);
        for (out, pair) in out.chunks_mut(E::PAIR).zip(pairs) {
            for (out, weight) in out.iter_mut().zip(pair) {
                *out = weight.to_f32();
            }
        }
    }
}

/// `width` is the number of outputs the panel has room for.
fn pack_panel<E: Element>(rows: &[&[E]], width: usize, panel: &mut [E]) {
    for (lane, row) in rows.iter().enumerate() {
        let pairs = panel.chunks_exact_mut(width * E::PAIR);
        for (to, pair) in pairs.zip(row.chunks(E::PAIR)) {
            to[lane * E::PAIR..][..pair.len()].copy_from_slice(pair);
        }
    }
}
