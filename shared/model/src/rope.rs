//! Rotary position tables.
//!
//! A query or key at position `p` has its coordinates `i` and `i + head_dim / 2` rotated against each other
//! by the angle `p * inverse_frequency[i]` (Su et al., "RoFormer", 2021, section 3.4.2). Families and
//! long-context variants differ only in the frequencies, which the checkpoint's configuration gives; from
//! there on all are the same two tables.

/// Cosines and sines of every angle, f32 `[positions, head_dim / 2]`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RotaryTables {
    pub(crate) cos: Vec<f32>,
    pub(crate) sin: Vec<f32>,
}

impl RotaryTables {
    /// Tables for positions `0..n_positions`. Angles are products in f32, as in the models' training code:
    /// at large positions more precision would be another model.
    pub(crate) fn new(inverse_frequencies: &[f32], n_positions: usize) -> Self {
        let positions = (0..n_positions).map(|position| position as f32);
        let angles = positions.flat_map(|position| inverse_frequencies.iter().map(move |&turn| position * turn));
        let (sin, cos) = angles.map(f32::sin_cos).unzip();
        Self { cos, sin }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn position_zero_does_not_rotate_and_later_ones_turn_by_the_frequency() {
        let tables = RotaryTables::new(&[1.0, 0.5], 3);
        assert_eq!((tables.cos[..2].to_vec(), tables.sin[..2].to_vec()), (vec![1.0, 1.0], vec![0.0, 0.0]));
        assert_eq!(tables.cos[2..], [1f32.cos(), 0.5f32.cos(), 2f32.cos(), 1f32.cos()]);
        assert_eq!(tables.sin[2..], [1f32.sin(), 0.5f32.sin(), 2f32.sin(), 1f32.sin()]);
    }
}
