//! One draft token with the distribution it was drawn from.

use specfleet_speculation::{
    TokenId,
    distribution::{DenseWeights, DraftDistribution, SparseWeights},
};

use super::Error;
use crate::v1::{self, draft_token::Distribution};

pub(super) fn read(wire: v1::DraftToken, n_vocab: usize) -> Result<(TokenId, DraftDistribution), Error> {
    let distribution = match wire.distribution {
        Some(Distribution::Point(_)) => DraftDistribution::Point(wire.token_id),
        Some(Distribution::Sparse(sparse)) => read_sparse(sparse, n_vocab)?,
        Some(Distribution::Dense(dense)) => read_dense(&dense, n_vocab)?,
        None => {
            return Err(Error::Missing { field: "tokens.distribution" });
        }
    };
    Ok((wire.token_id, distribution))
}

pub(super) fn write(token_id: TokenId, distribution: &DraftDistribution) -> v1::DraftToken {
    let distribution = match distribution {
        DraftDistribution::Point(_) => Distribution::Point(v1::PointDistribution {}),
        DraftDistribution::Sparse(sparse) => Distribution::Sparse(write_sparse(sparse)),
        DraftDistribution::Dense(dense) => Distribution::Dense(write_dense(dense)),
    };
    v1::DraftToken { token_id, distribution: Some(distribution) }
}

fn read_sparse(wire: v1::SparseDistribution, n_vocab: usize) -> Result<DraftDistribution, Error> {
    // Ids ascend strictly, so there are never more of them than the vocabulary has.
    if wire.id_deltas.len() > n_vocab {
        return Err(Error::TooLong { field: "tokens.sparse.id_deltas", length: wire.id_deltas.len(), most: n_vocab });
    }
    if wire.weights.len() != wire.id_deltas.len() {
        return Err(Error::Length {
            field: "tokens.sparse.weights",
            length: wire.weights.len(),
            expected: wire.id_deltas.len(),
        });
    }
    let sum = wire.weights.iter().map(|&weight| u64::from(weight)).sum();
    if sum != wire.total {
        return Err(Error::Total { announced: wire.total, sum });
    }
    let ids = undo_deltas(wire.id_deltas)?;
    Ok(DraftDistribution::Sparse(SparseWeights::new(ids, wire.weights)?))
}

/// In place: the list of deltas becomes the list of ids.
fn undo_deltas(mut deltas: Vec<u32>) -> Result<Vec<TokenId>, Error> {
    let mut id: u32 = 0;
    for (index, delta) in deltas.iter_mut().enumerate() {
        id = id.checked_add(*delta).ok_or(Error::DeltaOverflow { index })?;
        *delta = id;
    }
    Ok(deltas)
}

fn write_sparse(sparse: &SparseWeights) -> v1::SparseDistribution {
    let mut before = 0;
    let id_deltas = sparse.ids().iter().map(|&id| id - std::mem::replace(&mut before, id)).collect();
    v1::SparseDistribution { id_deltas, weights: sparse.weights().to_vec(), total: sparse.total() }
}

fn read_dense(wire: &v1::DenseDistribution, n_vocab: usize) -> Result<DraftDistribution, Error> {
    let field = "tokens.dense.probabilities";
    let (values, rest) = wire.probabilities.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(Error::Length { field, length: wire.probabilities.len(), expected: size_of_val(values) });
    }
    // Fewer are no mistake: the draft's table may be the smaller one, and q is 0 beyond it.
    if values.len() > n_vocab {
        return Err(Error::TooLong { field, length: values.len(), most: n_vocab });
    }
    let values = values.iter().copied().map(f32::from_le_bytes).collect();
    Ok(DraftDistribution::Dense(DenseWeights::new(values)?))
}

fn write_dense(dense: &DenseWeights) -> v1::DenseDistribution {
    v1::DenseDistribution { probabilities: dense.values().iter().flat_map(|value| value.to_le_bytes()).collect() }
}
