use half::bf16;
use specfleet_kernels::{Element, rms_norm, swiglu};

use crate::{
    pool,
    reference::{self, Numbers, assert_near, element_bits, epsilon},
};

const WIDTHS: [usize; 6] = [1, 15, 16, 17, 576, 1536];

#[test]
fn rms_norm_matches_the_formula() {
    rms_norm_matches::<bf16>();
    rms_norm_matches::<f32>();
}

fn rms_norm_matches<E: Element>() {
    let Some(pool) = pool(2) else { return };
    let mut numbers = Numbers(1);
    for width in WIDTHS {
        let (x, weight) = (numbers.floats(70 * width), numbers.floats(width));
        let mut out = vec![E::default(); x.len()];
        rms_norm(&pool, &x, &weight, 1e-5, &mut out);
        for (x, out) in x.chunks(width).zip(out.chunks(width)) {
            let x: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
            for (out, wanted) in out.iter().zip(reference::rms_norm(&x, &weight, 1e-5)) {
                let tolerance = (epsilon::<E>() + 1e-6) * wanted.abs() + 1e-9;
                assert_near(out.to_f32().into(), wanted, tolerance, "rms_norm");
            }
        }
    }
}

#[test]
fn swiglu_matches_the_formula() {
    swiglu_matches::<bf16>();
    swiglu_matches::<f32>();
}

fn swiglu_matches<E: Element>() {
    let Some(pool) = pool(2) else { return };
    let mut numbers = Numbers(2);
    for width in WIDTHS {
        let gate_up: Vec<f32> = numbers.floats(20 * 2 * width).iter().map(|x| x * 30.0).collect();
        let mut out = vec![E::default(); 20 * width];
        swiglu(&pool, &gate_up, width, &mut out);
        for (row, out) in gate_up.chunks(2 * width).zip(out.chunks(width)) {
            for (index, out) in out.iter().enumerate() {
                let (gate, up) = (f64::from(row[index]), f64::from(row[width + index]));
                let wanted = gate / (1.0 + (-gate).exp()) * up;
                let tolerance = (epsilon::<E>() + 1e-6) * wanted.abs() + 1e-30;
                assert_near(out.to_f32().into(), wanted, tolerance, "swiglu");
            }
        }
    }
}

#[test]
fn swiglu_is_right_at_the_ends_of_the_scale() {
    let Some(pool) = pool(1) else { return };
    let gates = [0.0, 88.0, -88.0, 200.0, -200.0, 1e30, -1e30, f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
    let gate_up: Vec<f32> = gates.into_iter().chain([1.0; 10]).collect();
    let mut out = [0.0f32; 10];
    swiglu(&pool, &gate_up, 10, &mut out);
    assert_eq!(out[0], 0.0);
    assert_eq!(out[1], 88.0);
    assert!(out[2].abs() < 1e-30);
    assert_eq!(out[3], 200.0);
    assert_eq!(out[4].abs(), 0.0);
    assert_eq!(out[5], 1e30);
    assert_eq!(out[6].abs(), 0.0);
    assert!(out[7].is_nan());
    assert_eq!(out[8], f32::INFINITY);
    assert!(out[9].is_nan(), "no finite result hides an infinite gate");
}

#[test]
fn rows_have_the_same_bits_in_any_company() {
    const ROWS: usize = 100;
    const WIDTH: usize = 77;
    let Some(single) = pool(1) else { return };
    let x = Numbers(3).floats(ROWS * 2 * WIDTH);
    let weight = Numbers(4).floats(2 * WIDTH);
    let run = |pool: &specfleet_kernels::WorkerPool, x: &[f32]| {
        let mut normed = vec![bf16::ZERO; x.len()];
        rms_norm(pool, x, &weight, 1e-6, &mut normed);
        let mut gated = vec![0.0f32; x.len() / 2];
        swiglu(pool, x, WIDTH, &mut gated);
        (element_bits(&normed), element_bits(&gated))
    };
    let alone: Vec<_> = x.chunks(2 * WIDTH).map(|row| run(&single, row)).collect();
    for n_threads in 1..=4 {
        let (normed, gated) = run(&pool(n_threads).unwrap(), &x);
        for (row, alone) in alone.iter().enumerate() {
            assert_eq!(normed[row * 2 * WIDTH..][..2 * WIDTH], alone.0);
            assert_eq!(gated[row * WIDTH..][..WIDTH], alone.1);
        }
    }
}
