//! The K kinds: blocks of 256 values in groups of 16 or 32, whose scales are themselves quantised.

use super::scale;

/// Values in a block of every K kind.
pub(super) const BLOCK_LEN: usize = 256;

/// 16 bytes of group scales (low nibble) and minimums (high nibble), 64 bytes of 2-bit numbers, scale, minimum.
pub(super) fn q2_k(block: &[u8], out: &mut [f32]) {
    let (groups, numbers) = (&block[..16], &block[16..80]);
    let (step, minimum) = (scale(block, 80), scale(block, 82));
    for (group, out) in out.chunks_exact_mut(16).enumerate() {
        let group_step = step * f32::from(groups[group] & 0xF);
        let group_minimum = minimum * f32::from(groups[group] >> 4);
        let (start, shift) = crumbs(group);
        for (value, byte) in out.iter_mut().zip(&numbers[start..start + 16]) {
            *value = group_step * f32::from(byte >> shift & 3) - group_minimum;
        }
    }
}

/// 32 bytes of third bits, 64 bytes of 2-bit numbers, 12 bytes of 6-bit group scales, scale. A clear third bit
/// subtracts 4.
pub(super) fn q3_k(block: &[u8], out: &mut [f32]) {
    let (third, numbers, packed) = (&block[..32], &block[32..96], &block[96..108]);
    let step = scale(block, 108);
    for (group, out) in out.chunks_exact_mut(16).enumerate() {
        // Four low bits in the first eight bytes, two high bits in the last four.
        let low = packed[group % 8] >> (4 * (group / 8)) & 0xF;
        let high = packed[8 + group % 4] >> (2 * (group / 4)) & 3;
        let group_step = step * (f32::from(low | high << 4) - 32.0);
        let (start, shift) = crumbs(group);
        for (i, value) in out.iter_mut().enumerate() {
            let number = numbers[start + i] >> shift & 3;
            let is_set = third[16 * (group % 2) + i] >> (group / 2) & 1;
            *value = group_step * (f32::from(number) - if is_set == 1 { 0.0 } else { 4.0 });
        }
    }
}

/// Scale, minimum, 12 bytes of 6-bit group scales and minimums, 128 bytes of nibbles.
pub(super) fn q4_k(block: &[u8], out: &mut [f32]) {
    let (step, minimum) = (scale(block, 0), scale(block, 2));
    let (packed, nibbles) = (&block[4..16], &block[16..144]);
    for (group, out) in out.chunks_exact_mut(32).enumerate() {
        let (group_scale, group_minimum) = scale_and_minimum(packed, group);
        let (group_step, group_minimum) = (step * f32::from(group_scale), minimum * f32::from(group_minimum));
        let (start, shift) = (32 * (group / 2), 4 * (group % 2));
        for (value, byte) in out.iter_mut().zip(&nibbles[start..start + 32]) {
            *value = group_step * f32::from(byte >> shift & 0xF) - group_minimum;
        }
    }
}

/// As `q4_k`, with 32 bytes of fifth bits before the nibbles: bit `g` of byte `i` belongs to value `i` of group `g`.
pub(super) fn q5_k(block: &[u8], out: &mut [f32]) {
    let (step, minimum) = (scale(block, 0), scale(block, 2));
    let (packed, fifth, nibbles) = (&block[4..16], &block[16..48], &block[48..176]);
    for (group, out) in out.chunks_exact_mut(32).enumerate() {
        let (group_scale, group_minimum) = scale_and_minimum(packed, group);
        let (group_step, group_minimum) = (step * f32::from(group_scale), minimum * f32::from(group_minimum));
        let (start, shift) = (32 * (group / 2), 4 * (group % 2));
        for (i, value) in out.iter_mut().enumerate() {
            let nibble = nibbles[start + i] >> shift & 0xF;
            let number = nibble | (fifth[i] >> group & 1) << 4;
            *value = group_step * f32::from(number) - group_minimum;
        }
    }
}

/// 128 bytes of low nibbles, 64 bytes of high bit pairs, 16 signed group scales, scale. Numbers are offset by 32.
pub(super) fn q6_k(block: &[u8], out: &mut [f32]) {
    let (low, high, groups) = (&block[..128], &block[128..192], &block[192..208]);
    let step = scale(block, 208);
    for (group, out) in out.chunks_exact_mut(16).enumerate() {
        let group_step = step * f32::from(groups[group] as i8);
        // Each half of the block (128 values) is four quarters of 32 values: the low nibbles of 64 bytes are quarters
        // 0 and 1, the high nibbles quarters 2 and 3; a byte of bit pairs serves one value of each quarter.
        let (half, quarter, within) = (group / 8, group % 8 / 2, group % 2 * 16);
        let low_start = 64 * half + 32 * (quarter % 2) + within;
        let high_start = 32 * half + within;
        for (i, value) in out.iter_mut().enumerate() {
            let nibble = low[low_start + i] >> (4 * (quarter / 2)) & 0xF;
            let pair = high[high_start + i] >> (2 * quarter) & 3;
            *value = group_step * (f32::from(nibble | pair << 4) - 32.0);
        }
    }
}

/// Where a group's sixteen 2-bit numbers are: first byte, and shift within the bytes. Each half of the block (32 bytes)
/// holds eight groups; two bits serve two groups of 16 bytes each.
fn crumbs(group: usize) -> (usize, usize) {
    (32 * (group / 8) + 16 * (group % 2), 2 * (group % 8 / 2))
}

/// Eight 6-bit scales and eight 6-bit minimums in 12 bytes: those of groups 0 to 3 are the low six bits of bytes 0 to 7;
/// those of groups 4 to 7 take a nibble of bytes 8 to 11 and the two bits left over above the first ones.
fn scale_and_minimum(packed: &[u8], group: usize) -> (u8, u8) {
    if group < 4 {
        return (packed[group] & 63, packed[group + 4] & 63);
    }
    let nibbles = packed[group + 4];
    (nibbles & 0xF | packed[group - 4] >> 6 << 4, nibbles >> 4 | packed[group] >> 6 << 4)
}
