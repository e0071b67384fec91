//! The list of target ids that a reduced output head speaks for.

use std::path::Path;
use std::sync::Arc;

use specfleet_speculation::TokenId;

use super::error::Error;
use super::{DRAFT_VOCAB, Source};

/// Reads the list if the checkpoint has one, and checks it: ascending, every id within the vocabulary.
pub(super) fn read(source: &dyn Source, vocab_size: usize) -> Result<Option<Arc<[TokenId]>>, Error> {
    source.token_ids(DRAFT_VOCAB)?.map(|ids| check(&ids, vocab_size)).transpose()
}

/// Checks a list of ids and narrows it.
pub(crate) fn check(ids: &[i64], vocab_size: usize) -> Result<Arc<[TokenId]>, Error> {
    let damaged = |problem: String| Error::damaged(Path::new(DRAFT_VOCAB), problem);
    if ids.is_empty() {
        return Err(damaged("the list of head rows is empty".into()));
    }
    if let Some(pair) = ids.windows(2).find(|pair| pair[0] >= pair[1]) {
        return Err(damaged(format!("ids must ascend, but {} is followed by {}", pair[0], pair[1])));
    }
    ids.iter()
        .map(|id| {
            TokenId::try_from(*id)
                .ok()
                .filter(|id| (*id as usize) < vocab_size)
                .ok_or_else(|| damaged(format!("id {id} is outside the vocabulary of {vocab_size}")))
        })
        .collect()
}
