//! The orders in which a service may compute the same sequences.

use specfleet_model::batch::{LanguageModel, Logits, Segment, WantedLogits};
use specfleet_model::kv_cache::KvSequence;
use specfleet_speculation::TokenId;

pub(crate) type Model = dyn LanguageModel;

/// Logits of each position of each sequence; `None` where a way does not compute them.
pub(crate) type Rows = Vec<Vec<Option<Vec<f32>>>>;

/// A way and its name.
pub(crate) type Way = (&'static str, fn(&mut Model, &[&[TokenId]]) -> Rows);

pub(crate) const WAYS: [Way; 7] = [
    ("at once", at_once),
    ("in chunks", in_chunks),
    ("token by token", token_by_token),
    ("only the last row of each chunk", last_rows_only),
    ("in ragged batches", in_ragged_batches),
    ("with rollbacks", with_rollbacks),
    ("after a reused prefix", after_a_reused_prefix),
];

fn at_once(model: &mut Model, sequences: &[&[TokenId]]) -> Rows {
    alone(model, sequences, usize::MAX)
}

fn in_chunks(model: &mut Model, sequences: &[&[TokenId]]) -> Rows {
    alone(model, sequences, 7)
}

fn token_by_token(model: &mut Model, sequences: &[&[TokenId]]) -> Rows {
    alone(model, sequences, 1)
}

fn alone(model: &mut Model, sequences: &[&[TokenId]], chunk: usize) -> Rows {
    let one = |tokens: &&[TokenId]| {
        let mut kv = model.kv().start(&[]);
        let mut rows = Vec::new();
        for chunk in tokens.chunks(chunk.min(tokens.len())) {
            let logits = forward(model, &mut kv, chunk, WantedLogits::All);
            rows.extend((0..logits.n_rows()).map(|row| Some(logits.row(row).to_vec())));
        }
        model.kv().release(kv);
        rows
    };
    sequences.iter().map(one).collect()
}

/// Prompt chunks without logits, then one row.
fn last_rows_only(model: &mut Model, sequences: &[&[TokenId]]) -> Rows {
    let one = |tokens: &&[TokenId]| {
        let mut kv = model.kv().start(&[]);
        let (last, before) = tokens.split_last().unwrap();
        let mut rows = vec![None; before.len()];
        for chunk in before.chunks(19) {
            assert_eq!(forward(model, &mut kv, chunk, WantedLogits::None).n_rows(), 0);
        }
        let logits = forward(model, &mut kv, &[*last], WantedLogits::Last);
        rows.push(Some(logits.row(0).to_vec()));
        model.kv().release(kv);
        rows
    };
    sequences.iter().map(one).collect()
}

/// All sequences together: each joins one step after the one before, goes on in chunks of changing size, and
/// leaves when it is done.
fn in_ragged_batches(model: &mut Model, sequences: &[&[TokenId]]) -> Rows {
    const CHUNKS: [usize; 5] = [3, 1, 5, 16, 2];
    let mut rows: Rows = vec![Vec::new(); sequences.len()];
    let mut running: Vec<KvSequence> = sequences.iter().map(|_| model.kv().start(&[])).collect();
    for step in 0.. {
        let mut segments = Vec::new();
        let mut owners = Vec::new();
        for (index, (kv, tokens)) in running.iter_mut().zip(sequences).enumerate() {
            let left = &tokens[kv.len()..];
            if step < index || left.is_empty() {
                continue;
            }
            let tokens = &left[..left.len().min(CHUNKS[(step + 2 * index) % CHUNKS.len()])];
            model.kv().reserve(kv, kv.len() + tokens.len()).unwrap();
            owners.extend(std::iter::repeat_n(index, tokens.len()));
            segments.push(Segment { kv, tokens, logits: WantedLogits::All });
        }
        if segments.is_empty() && step >= sequences.len() {
            break;
        }
        let logits = model.forward(&mut segments).unwrap();
        assert_eq!(logits.n_rows(), owners.len());
        for (row, owner) in owners.into_iter().enumerate() {
            rows[owner].push(Some(logits.row(row).to_vec()));
        }
    }
    for kv in running {
        model.kv().release(kv);
    }
    rows
}

/// As a verifier goes on: the right token, three wrong ones, and back. The block after a rollback is often
/// another one, which a sequence of wrong tokens has just left.
fn with_rollbacks(model: &mut Model, sequences: &[&[TokenId]]) -> Rows {
    let one = |tokens: &&[TokenId]| {
        let mut kv = model.kv().start(&[]);
        let mut rows = Vec::new();
        for &token in *tokens {
            let committed = kv.len() + 1;
            let wrong = [token, token ^ 1, token ^ 3, token ^ 5];
            let logits = forward(model, &mut kv, &wrong, WantedLogits::All);
            rows.push(Some(logits.row(0).to_vec()));
            model.kv().truncate(&mut kv, committed);
            assert_eq!(kv.len(), committed);
        }
        model.kv().release(kv);
        rows
    };
    sequences.iter().map(one).collect()
}

fn after_a_reused_prefix(model: &mut Model, sequences: &[&[TokenId]]) -> Rows {
    let one = |tokens: &&[TokenId]| {
        let mut first = model.kv().start(&[]);
        forward(model, &mut first, tokens, WantedLogits::None);
        model.kv().publish(&first, tokens);
        let mut second = model.kv().start(tokens);
        assert_eq!(second.len(), (tokens.len() - 1) / 16 * 16);
        let mut rows = vec![None; second.len()];
        let left = &tokens[second.len()..];
        let logits = forward(model, &mut second, left, WantedLogits::All);
        rows.extend((0..logits.n_rows()).map(|row| Some(logits.row(row).to_vec())));
        model.kv().release(first);
        model.kv().release(second);
        rows
    };
    sequences.iter().map(one).collect()
}

pub(crate) fn forward(model: &mut Model, kv: &mut KvSequence, tokens: &[TokenId], logits: WantedLogits) -> Logits {
    model.kv().reserve(kv, kv.len() + tokens.len()).unwrap();
    model.forward(&mut [Segment { kv, tokens, logits }]).unwrap()
}
