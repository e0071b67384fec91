//! The angles of rotary positions, and the ways models stretch them to longer contexts.

use std::f32::consts::PI;

/// Rotary positions: pair `i` of a head turns by `position * inverse_frequency[i]` radians. The pair is made of
/// elements `i` and `i + head_dim / 2` (the rotate-half convention).
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// The base of the geometric series of wavelengths.
    pub theta: f64,
    /// How the series is stretched.
    pub scaling: RopeScaling,
}

/// How frequencies are changed for contexts longer than the model was first trained for.
#[derive(Clone, Debug, PartialEq)]
pub enum RopeScaling {
    /// Not at all.
    None,
    /// Every frequency divided by one factor (position interpolation).
    Linear {
        /// At least 1 in practice.
        factor: f32,
    },
    /// Llama 3.1: long wavelengths are stretched, short ones kept, those between blended.
    Llama3 {
        /// What long wavelengths are stretched by.
        factor: f32,
        /// Wavelengths above `original_context / low_freq_factor` are stretched in full.
        low_freq_factor: f32,
        /// Wavelengths below `original_context / high_freq_factor` are kept.
        high_freq_factor: f32,
        /// The context before stretching.
        original_context: f32,
    },
    /// A divisor for each pair, `head_dim / 2` of them: what GGUF files carry as `rope_freqs.weight`.
    Factors(Vec<f32>),
}

impl Rope {
    /// Radians per position for each of the `head_dim / 2` pairs. Computed in f32, in the same order of operations as
    /// the `transformers` library, so that long positions agree with it.
    pub fn inverse_frequencies(&self, head_dim: usize) -> Vec<f32> {
        (0..head_dim / 2)
            .map(|pair| {
                let exponent = (2 * pair) as f32 / head_dim as f32;
                // The power in f64, rounded once: correctly rounded f32 powers are what PyTorch gives here.
                let plain = 1.0 / (self.theta.powf(f64::from(exponent)) as f32);
                self.scaling.apply(pair, plain)
            })
            .collect()
    }

    pub(super) fn canonical(&self) -> String {
        match &self.scaling {
            RopeScaling::None => format!("theta {}", self.theta),
            RopeScaling::Linear { factor } => format!("theta {} linear {factor}", self.theta),
            RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_context } => {
                format!("theta {} llama3 {factor} {low_freq_factor} {high_freq_factor} {original_context}", self.theta)
            }
            RopeScaling::Factors(factors) => format!("theta {} factors {factors:?}", self.theta),
        }
    }

    pub(super) fn problems(&self, head_dim: usize) -> Vec<String> {
        let mut problems = Vec::new();
        if !(self.theta.is_finite() && self.theta > 0.0) {
            problems.push(format!("the rope base is {}, expected a positive number", self.theta));
        }
        let numbers: &[f32] = match &self.scaling {
            RopeScaling::None => &[],
            RopeScaling::Linear { factor } => &[*factor],
            RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_context } => {
                if low_freq_factor >= high_freq_factor {
                    problems.push(format!(
                        "rope scaling: low_freq_factor {low_freq_factor} must be below high_freq_factor {high_freq_factor}"
                    ));
                }
                &[*factor, *low_freq_factor, *high_freq_factor, *original_context]
            }
            RopeScaling::Factors(factors) => {
                if factors.len() != head_dim / 2 {
                    problems.push(format!(
                        "rope scaling has {} factors, expected one for each of the {} pairs of a head",
                        factors.len(),
                        head_dim / 2
                    ));
                }
                factors
            }
        };
        if let Some(number) = numbers.iter().find(|number| !(number.is_finite() && **number > 0.0)) {
            problems.push(format!("rope scaling holds {number}, expected positive numbers"));
        }
        problems
    }
}

impl RopeScaling {
    fn apply(&self, pair: usize, frequency: f32) -> f32 {
        match self {
            Self::None => frequency,
            Self::Linear { factor } => frequency / factor,
            Self::Factors(factors) => frequency / factors.get(pair).copied().unwrap_or(1.0),
            Self::Llama3 { factor, low_freq_factor, high_freq_factor, original_context } => {
                let wavelength = 2.0 * PI / frequency;
                if wavelength < original_context / high_freq_factor {
                    frequency
                } else if wavelength > original_context / low_freq_factor {
                    frequency / factor
                } else {
                    let blend =
                        (original_context / wavelength - low_freq_factor) / (high_freq_factor - low_freq_factor);
                    (1.0 - blend) * frequency / factor + blend * frequency
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_frequencies_are_a_geometric_series() {
        let rope = Rope { theta: 10_000.0, scaling: RopeScaling::None };
        assert_eq!(rope.inverse_frequencies(8), [1.0, 0.1, 0.01, 0.001]);
    }

    #[test]
    fn linear_scaling_and_factors_divide() {
        let linear = Rope { theta: 10_000.0, scaling: RopeScaling::Linear { factor: 4.0 } };
        assert_eq!(linear.inverse_frequencies(4), [0.25, 0.0025]);
        let factors = Rope { theta: 10_000.0, scaling: RopeScaling::Factors(vec![1.0, 8.0]) };
        assert_eq!(factors.inverse_frequencies(4), [1.0, 0.01 / 8.0]);
    }

    /// The published formula in NumPy single precision, with the Llama 3.2 parameters and head size 64. Pairs 15 to 17
    /// are the blended ones.
    #[test]
    fn llama3_scaling_keeps_short_waves_and_stretches_long_ones() {
        let scaling =
            RopeScaling::Llama3 { factor: 32.0, low_freq_factor: 1.0, high_freq_factor: 4.0, original_context: 8192.0 };
        let frequencies = Rope { theta: 500_000.0, scaling }.inverse_frequencies(64);
        let expected = [
            (0, 1.0_f32),
            (8, 3.760_603e-2),
            (15, 1.290_548e-3),
            (17, 9.708_286e-5),
            (24, 1.661_967_6e-6),
            (31, 9.418_307e-8),
        ];
        for (pair, value) in expected {
            let relative = (frequencies[pair] - value).abs() / value;
            assert!(relative < 1e-6, "pair {pair}: {} instead of {value}", frequencies[pair]);
        }
    }

    #[test]
    fn impossible_numbers_are_named() {
        let rope = Rope { theta: -1.0, scaling: RopeScaling::Factors(vec![1.0, f32::NAN, 1.0]) };
        let problems = rope.problems(8).join("; ");
        assert!(problems.contains("base is -1") && problems.contains("3 factors") && problems.contains("NaN"));
    }
}
