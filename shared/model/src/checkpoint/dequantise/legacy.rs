//! Blocks of 32 values with one scale, and one minimum in the `_1` kinds.
//!
//! The low nibbles of the 16 data bytes are values 0 to 15, the high nibbles 16 to 31.

use super::scale;

/// Scale, 32 signed bytes.
pub(super) fn q8_0(block: &[u8], out: &mut [f32]) {
    let step = scale(block, 0);
    for (value, byte) in out.iter_mut().zip(&block[2..34]) {
        *value = step * f32::from(*byte as i8);
    }
}

/// Scale, nibbles; a value is `scale * (nibble - 8)`.
pub(super) fn q4_0(block: &[u8], out: &mut [f32]) {
    let step = scale(block, 0);
    nibbles(&block[2..18], |i, nibble| out[i] = step * (f32::from(nibble) - 8.0));
}

/// Scale, minimum, nibbles.
pub(super) fn q4_1(block: &[u8], out: &mut [f32]) {
    let (step, minimum) = (scale(block, 0), scale(block, 2));
    nibbles(&block[4..20], |i, nibble| out[i] = step * f32::from(nibble) + minimum);
}

/// Scale, 32 fifth bits, nibbles; a value is `scale * (number - 16)`.
pub(super) fn q5_0(block: &[u8], out: &mut [f32]) {
    let step = scale(block, 0);
    let fifth = fifth_bits(&block[2..6]);
    nibbles(&block[6..22], |i, nibble| out[i] = step * (f32::from(nibble | fifth(i)) - 16.0));
}

/// Scale, minimum, 32 fifth bits, nibbles.
pub(super) fn q5_1(block: &[u8], out: &mut [f32]) {
    let (step, minimum) = (scale(block, 0), scale(block, 2));
    let fifth = fifth_bits(&block[4..8]);
    nibbles(&block[8..24], |i, nibble| out[i] = step * f32::from(nibble | fifth(i)) + minimum);
}

fn nibbles(data: &[u8], mut put: impl FnMut(usize, u8)) {
    for (i, byte) in data.iter().enumerate() {
        put(i, byte & 0xF);
        put(i + 16, byte >> 4);
    }
}

/// Value `i`'s fifth bit, at its place (16 or 0).
fn fifth_bits(bytes: &[u8]) -> impl Fn(usize) -> u8 {
    let bits = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    move |i| ((bits >> i & 1) << 4) as u8
}
