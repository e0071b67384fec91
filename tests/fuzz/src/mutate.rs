//! Random bytes never get past a magic number. So inputs are made from valid ones, by the mistakes that formats invite: a
//! length that claims too much, an end that comes too early, a part that is there twice or belongs to another file.

use crate::dice::Dice;

/// Longer inputs only take time.
const MOST_BYTES: usize = 256 << 10;

/// Bytes at the borders of what formats distinguish.
const BYTES: [u8; 8] = [0, 1, 0x7F, 0x80, 0xFF, b'"', b'{', b'\n'];
/// Numbers at the borders of their types, and lengths that no memory has.
const NUMBERS: [u64; 14] = [
    0,
    1,
    0x7F,
    0xFF,
    0xFFFF,
    0x7FFF_FFFF,
    0xFFFF_FFFF,
    1 << 32,
    1 << 40,
    1 << 47,
    1 << 62,
    i64::MAX as u64,
    1 << 63,
    u64::MAX,
];
/// What may stand where a text format has a value.
const VALUES: [&[u8]; 16] = [
    b"null",
    b"0",
    b"-1",
    b"1e999",
    b"-0.0",
    b"4294967295",
    b"4294967296",
    b"18446744073709551615",
    b"99999999999999999999999",
    b"1e-400",
    b"true",
    b"\"\"",
    b"\"\\ud800\"",
    b"[]",
    b"{}",
    b"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
];

/// One to eight mistakes in `input`. `others` are inputs of the same format, to take parts from.
pub fn mutate(input: &mut Vec<u8>, others: &[Vec<u8>], dice: &mut Dice) {
    // Most often one: several at once tend to be refused for the first of them.
    for _ in 0..1 << dice.below(4) {
        mistake(input, others, dice);
        if input.len() > MOST_BYTES || dice.below(2) == 0 {
            break;
        }
    }
    input.truncate(MOST_BYTES);
}

fn mistake(input: &mut Vec<u8>, others: &[Vec<u8>], dice: &mut Dice) {
    if input.is_empty() {
        input.extend(dice.bits().to_le_bytes());
        return;
    }
    let place = dice.early(input.len());
    match dice.below(10) {
        0 => input[place] ^= 1 << dice.below(8),
        1 => input[place] = *dice.pick(&BYTES),
        2 => input[place] = dice.bits() as u8,
        3 => overwrite_number(input, place, dice),
        4 => replace_varint(input, place, dice),
        5 => replace_value(input, place, dice),
        6 => input.truncate(place),
        7 => drop(input.drain(place..place + length(input.len() - place, dice))),
        8 => repeat(input, place, dice),
        _ => {
            let other: &Vec<u8> = dice.pick(others);
            splice(input, place, other, dice);
        }
    }
}

/// Mostly short.
fn length(most: usize, dice: &mut Dice) -> usize {
    dice.early(most + 1)
}

/// A fixed-width number, in either byte order.
fn overwrite_number(input: &mut [u8], place: usize, dice: &mut Dice) {
    let near_length = (input.len() as u64).wrapping_add_signed(dice.below(5) as i64 - 2);
    let number = if dice.below(4) == 0 { near_length } else { *dice.pick(&NUMBERS) };
    let width = *dice.pick(&[2, 4, 8]);
    let bytes = if dice.below(4) == 0 { number.swap_bytes() } else { number }.to_le_bytes();
    for (target, byte) in input[place..].iter_mut().zip(&bytes[..width]) {
        *target = *byte;
    }
}

/// A number of seven bits a byte, as protobuf writes tags, lengths and values.
fn replace_varint(input: &mut Vec<u8>, place: usize, dice: &mut Dice) {
    let old = input[place..].iter().take_while(|byte| **byte >= 0x80).count() + 1;
    let end = (place + old).min(input.len());
    let mut number = *dice.pick(&NUMBERS);
    let mut varint = Vec::new();
    while number >= 0x80 {
        varint.push(number as u8 | 0x80);
        number >>= 7;
    }
    varint.push(number as u8);
    input.splice(place..end, varint);
}

/// What stands between a colon or comma and the next one: a value of JSON, an argument of a template.
fn replace_value(input: &mut Vec<u8>, place: usize, dice: &mut Dice) {
    let is_border = |byte: &u8| matches!(byte, b':' | b',' | b'[' | b'{' | b'(' | b' ' | b'-' | b'=');
    let is_end = |byte: &u8| matches!(byte, b',' | b']' | b'}' | b')' | b'\n' | b'-' | b' ');
    let Some(start) = input[place..].iter().position(is_border).map(|border| place + border + 1) else { return };
    let end = input[start..].iter().skip(1).position(is_end).map_or(input.len(), |end| start + 1 + end);
    input.splice(start..end.min(input.len()), dice.pick(&VALUES).iter().copied());
}

fn repeat(input: &mut Vec<u8>, place: usize, dice: &mut Dice) {
    let part = input[place..place + length(input.len() - place, dice)].to_vec();
    let n_times = 1 << dice.below(8);
    input.splice(place..place, part.repeat(n_times).into_iter().take(MOST_BYTES));
}

fn splice(input: &mut Vec<u8>, place: usize, other: &[u8], dice: &mut Dice) {
    let from = dice.early(other.len().max(1)).min(other.len());
    let part = &other[from..from + length(other.len() - from, dice)];
    let end = if dice.below(2) == 0 { place } else { (place + part.len()).min(input.len()) };
    input.splice(place..end, part.iter().copied());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_input_can_be_mutated_and_most_change() {
        let others = [b"{\"a\": [1, 2]}".to_vec(), Vec::new(), vec![0xFF; 100]];
        let mut dice = Dice::new(1);
        let mut n_changed = 0;
        for round in 0..10_000 {
            let original = &others[round % 3];
            let mut input = original.clone();
            mutate(&mut input, &others, &mut dice);
            assert!(input.len() <= MOST_BYTES);
            n_changed += usize::from(input != *original);
        }
        assert!(n_changed > 8000, "{n_changed}");
    }
}
