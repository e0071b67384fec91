#![allow(clippy::unwrap_used)]

use super::*;

/// Golden blocks and the reference's values.
fn golden(name: &str, quantisation: Quantisation, n_values: usize) -> (Vec<u8>, Vec<f32>) {
    let path = format!("{}/tests/golden/dequantise/{name}.bin", env!("CARGO_MANIFEST_DIR"));
    let bytes = std::fs::read(path).unwrap();
    let (blocks, values) = bytes.split_at(quantisation.n_bytes(n_values, &[]).unwrap());
    let values: Vec<f32> = values.chunks_exact(4).map(|chunk| f32::from_le_bytes(chunk.try_into().unwrap())).collect();
    assert_eq!(values.len(), n_values, "{name}");
    (blocks.to_vec(), values)
}

#[test]
fn every_kind_agrees_with_the_reference() {
    for (name, number, n_values) in [
        ("F16", 1, 96),
        ("Q4_0", 2, 96),
        ("Q4_1", 3, 96),
        ("Q5_0", 6, 96),
        ("Q5_1", 7, 96),
        ("Q8_0", 8, 96),
        ("Q2_K", 10, 768),
        ("Q3_K", 11, 768),
        ("Q4_K", 12, 768),
        ("Q5_K", 13, 768),
        ("Q6_K", 14, 768),
        ("BF16", 30, 96),
    ] {
        let quantisation = Quantisation::from_ggml(number).unwrap();
        let (blocks, expected) = golden(name, quantisation, n_values);
        let mut values = vec![f32::NAN; n_values];
        quantisation.dequantise(&blocks, &mut values);
        for (i, (value, expected)) in values.iter().zip(&expected).enumerate() {
            assert_eq!(value, expected, "{name}, value {i}");
        }
    }
}

#[test]
fn single_precision_is_copied() {
    let mut values = [0.0; 2];
    Quantisation::F32.dequantise(&[0, 0, 128, 63, 0, 0, 0, 192], &mut values);
    assert_eq!(values, [1.0, -2.0]);
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    assert_eq!(Quantisation::Q4_0.n_bytes(33, &[2]), None, "a row is a whole number of blocks");
    assert_eq!(Quantisation::Q4_0.n_bytes(64, &[3]), Some(3 * 2 * 18));
    assert_eq!(Quantisation::F32.n_bytes(usize::MAX / 4, &[8]), None);
    assert_eq!(Quantisation::Q2K.n_bytes(1 << 40, &[1 << 30]), None, "values must be countable in f32 too");
}

#[test]
fn other_kinds_are_named() {
    assert_eq!(Quantisation::from_ggml(20), Err("IQ4_NL".to_owned()));
    assert_eq!(Quantisation::from_ggml(4096), Err("number 4096".to_owned()));
}
