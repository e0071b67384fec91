//! What is drawn and what is reported.

use half::bf16;
use specfleet_speculation::{
    TokenId,
    distribution::{DraftDistribution, SparseWeights},
    law,
    propose::{Drafted, draft_token},
    random::SharedNoise,
    transform::{self, SamplingParams, Transforms, Vocabulary},
};

use super::session::Session;

/// How a draft breaks its promise that tokens are drawn from what it reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lie {
    /// Not at all.
    None,
    /// Draws from logits rounded to bf16, reports the f32 ones.
    BeliefInBf16,
    /// Draws from everything, then reports the likelier half of the ids, and the token, as if the others had not been
    /// there.
    TruncatesAfterDraw,
    /// Draws, and ends the proposal before a token that is less than half as likely as the likeliest.
    DropsUnlikely,
    /// Draws at 0.7 of the temperature that it reports.
    TemperatureOnOneSide,
    /// Takes the likeliest token, reports the distribution.
    GreedyReportsSoftmax,
    /// Draws after top-k (the client's, or 4), reports the distribution before any cut.
    ReportsRawAfterTopK,
    /// Never draws an end token, reports that it could.
    SuppressesEnd,
    /// Draws without the client's penalties, reports the distribution with them.
    PenaltiesOnOneSide,
    /// Draws all tokens of a proposal with one random number.
    OneNumberForAll,
    /// Draws with numbers that the verifier knows as well ([`known_number`]). No lie, and exact: unless the verifier uses
    /// them for a decision of its own.
    KnownNumbers,
}

/// A uniform number of a position that both sides can compute.
pub fn known_number(noise: &SharedNoise, position: u64) -> f64 {
    -(-noise.waiting_time(position, 0)).exp_m1()
}

impl Lie {
    /// Every habit that breaks the promise.
    pub const ALL: [Self; 9] = [
        Self::BeliefInBf16,
        Self::TruncatesAfterDraw,
        Self::DropsUnlikely,
        Self::TemperatureOnOneSide,
        Self::GreedyReportsSoftmax,
        Self::ReportsRawAfterTopK,
        Self::SuppressesEnd,
        Self::PenaltiesOnOneSide,
        Self::OneNumberForAll,
    ];

    /// The next token of a proposal, after `drafted`, with what is reported for it; `None` ends the proposal.
    pub(super) fn draft(
        self,
        session: &Session,
        row: &mut [f32],
        drafted: &[TokenId],
    ) -> Result<Option<Drafted>, transform::Error> {
        let base = session.committed().len() as u64;
        let position = if self == Self::OneNumberForAll { base } else { base + drafted.len() as u64 };
        let draw = |sampling: SamplingParams, row: &mut [f32]| {
            let transforms =
                Transforms::new(sampling, session.n_vocab).expect("the verifier has checked the parameters");
            let shaped = transforms.shape(row, Vocabulary::Full, &session.counts, drafted, None)?;
            Ok(draft_token(&shaped, session.support, session.rule, &session.randomness, position))
        };
        let mut believed = row.to_vec();
        self.misread(&mut believed, &session.sampling);
        let Drafted { token, .. } = draw(self.drawn(session.sampling.clone()), &mut believed)?;
        let Drafted { distribution, .. } = draw(self.reported(session.sampling.clone()), row)?;
        Ok(match self {
            Self::KnownNumbers => Some(drawn_with(known_number(&session.randomness.noise, position), distribution)),
            Self::DropsUnlikely if is_unlikely(token, &distribution) => None,
            Self::TruncatesAfterDraw => Some(Drafted { token, distribution: likelier_half(&distribution, token) }),
            // A point says all there is to say: under the draft-invariant rule and in greedy decoding nobody reads q.
            _ if matches!(distribution, DraftDistribution::Point(_)) => {
                Some(Drafted { token, distribution: DraftDistribution::Point(token) })
            }
            _ => Some(Drafted { token, distribution }),
        })
    }

    /// The logits that the draw believes in.
    fn misread(self, row: &mut [f32], sampling: &SamplingParams) {
        match self {
            Self::BeliefInBf16 => row.iter_mut().for_each(|logit| *logit = bf16::from_f32(*logit).to_f32()),
            Self::SuppressesEnd => {
                for end in &sampling.end_tokens {
                    row[*end as usize] = f32::NEG_INFINITY;
                }
            }
            _ => {}
        }
    }

    /// The parameters that the draw uses.
    fn drawn(self, client: SamplingParams) -> SamplingParams {
        match self {
            Self::TemperatureOnOneSide => SamplingParams { temperature: 0.7 * client.temperature, ..client },
            Self::GreedyReportsSoftmax => SamplingParams { temperature: 0.0, ..client },
            Self::ReportsRawAfterTopK if client.top_k == 0 => SamplingParams { top_k: 4, ..client },
            Self::PenaltiesOnOneSide => {
                SamplingParams { repetition_penalty: 1.0, presence_penalty: 0.0, frequency_penalty: 0.0, ..client }
            }
            _ => client,
        }
    }

    /// The parameters that the report uses.
    fn reported(self, client: SamplingParams) -> SamplingParams {
        match self {
            Self::ReportsRawAfterTopK => SamplingParams { top_k: 0, top_p: 1.0, min_p: 0.0, ..client },
            _ => client,
        }
    }
}

fn drawn_with(number: f64, distribution: DraftDistribution) -> Drafted {
    Drafted { token: law::sample(&distribution, number), distribution }
}

fn is_unlikely(token: TokenId, distribution: &DraftDistribution) -> bool {
    let ids = supported(distribution);
    let likeliest = ids.iter().map(|id| distribution.probability(*id)).fold(0.0, f64::max);
    distribution.probability(token) < 0.5 * likeliest
}

/// The likelier half of the ids and `token`.
fn likelier_half(distribution: &DraftDistribution, token: TokenId) -> DraftDistribution {
    let DraftDistribution::Sparse(sparse) = distribution else { return distribution.clone() };
    let mut weights: Vec<(TokenId, u32)> = sparse.ids().iter().copied().zip(sparse.weights().iter().copied()).collect();
    let n_kept = weights.len().div_ceil(2);
    weights.sort_by_key(|(id, weight)| (std::cmp::Reverse(*weight), *id));
    let mut kept: Vec<(TokenId, u32)> = weights.iter().take(n_kept).copied().collect();
    kept.extend(weights.iter().skip(n_kept).filter(|(id, _)| *id == token));
    kept.sort_unstable();
    let (ids, weights) = kept.into_iter().unzip();
    DraftDistribution::Sparse(
        SparseWeights::new(ids, weights).expect("a part of a distribution with its greatest weight"),
    )
}

fn supported(distribution: &DraftDistribution) -> Vec<TokenId> {
    match distribution {
        DraftDistribution::Point(token) => vec![*token],
        DraftDistribution::Sparse(sparse) => sparse.ids().to_vec(),
        DraftDistribution::Dense(dense) => (0..dense.values().len() as TokenId).collect(),
    }
}
