#![allow(clippy::unwrap_used)]

use super::*;
use crate::batch::WantedLogits;

const TABLE: &str = "
    *   -> 0:1 1:3
    2   -> 3:1     # after 2
    1 2 -> 0:1
    3   -> nan
";

fn model() -> ScriptedModel {
    ScriptedModel::from_table(TABLE, 4).unwrap()
}

fn forward(model: &mut ScriptedModel, kv: &mut crate::kv_cache::KvSequence, tokens: &[TokenId]) -> Logits {
    model.kv().reserve(kv, kv.len() + tokens.len()).unwrap();
    model.forward(&mut [Segment { kv, tokens, logits: WantedLogits::All }]).unwrap()
}

fn arg_max(row: &[f32]) -> usize {
    (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap()
}

#[test]
fn the_longest_matching_rule_counts() {
    let mut model = model();
    let mut kv = model.kv().start(&[]);
    let logits = forward(&mut model, &mut kv, &[0, 2, 1, 2, 3]);
    assert_eq!((0..4).map(|row| arg_max(logits.row(row))).collect::<Vec<_>>(), [1, 3, 1, 0]);
    assert_eq!(logits.row(0)[..2], [0.0, 3f32.ln()]);
    assert!(logits.row(4).iter().all(|logit| logit.is_nan()));
    model.kv().release(kv);
}

#[test]
fn a_forgotten_rollback_changes_the_output() {
    let mut model = model();
    let mut kv = model.kv().start(&[]);
    forward(&mut model, &mut kv, &[1, 0]);
    let without = forward(&mut model, &mut kv, &[2]);
    model.kv().truncate(&mut kv, 1);
    let with = forward(&mut model, &mut kv, &[2]);
    assert_eq!((arg_max(without.row(0)), arg_max(with.row(0))), (3, 0));
    model.kv().release(kv);
}

#[test]
fn a_reused_prefix_is_read_from_the_memory_that_wrote_it() {
    let mut model = ScriptedModel::from_fn(64, |prefix| {
        let mut row = vec![0.0; 64];
        row[prefix.iter().sum::<TokenId>() as usize % 64] = 1.0;
        row
    });
    let prompt: Vec<TokenId> = (0..33).collect();
    let mut first = model.kv().start(&prompt);
    let expected = forward(&mut model, &mut first, &prompt);
    model.kv().publish(&first, &prompt);
    model.kv().release(first);
    let mut second = model.kv().start(&prompt);
    assert_eq!(second.len(), 32);
    let logits = forward(&mut model, &mut second, &prompt[32..]);
    assert_eq!(logits.row(0), expected.row(32));
    model.kv().release(second);
}

#[test]
fn a_reduced_head_gives_the_rows_of_its_ids() {
    let mut model = model().with_draft_vocab(vec![1, 3]);
    let mut kv = model.kv().start(&[]);
    let logits = forward(&mut model, &mut kv, &[0, 2]);
    assert_eq!((logits.width(), logits.row(0)[0], logits.row(1)[1]), (2, 3f32.ln(), 0.0));
    model.kv().release(kv);
}

#[test]
fn bad_batches_are_refused_and_leave_every_sequence_as_it_was() {
    let mut model = model().with_context_length(40).with_kv_tokens(64);
    let mut good = model.kv().start(&[]);
    model.kv().reserve(&mut good, 1).unwrap();
    let refused = |model: &mut ScriptedModel, good: &mut _, reserved: usize, tokens: &[TokenId]| {
        let mut bad = model.kv().start(&[]);
        model.kv().reserve(&mut bad, reserved).unwrap();
        let segments = &mut [
            Segment { kv: good, tokens: &[1], logits: WantedLogits::Last },
            Segment { kv: &mut bad, tokens, logits: WantedLogits::Last },
        ];
        let error = model.forward(segments).unwrap_err();
        model.kv().release(bad);
        error
    };
    use ForwardError::*;
    assert!(matches!(refused(&mut model, &mut good, 1, &[]), EmptySegment { segment: 1 }));
    let error = refused(&mut model, &mut good, 1, &[4]);
    assert!(matches!(error, TokenOutOfRange { segment: 1, token: 4, vocab_size: 4 }), "{error}");
    let error = refused(&mut model, &mut good, 16, &[0; 17]);
    assert!(matches!(error, NotReserved { segment: 1, len: 17, capacity: 16 }), "{error}");
    let error = refused(&mut model, &mut good, 48, &[0; 41]);
    assert!(matches!(error, ContextExceeded { segment: 1, len: 41, context_length: 40 }), "{error}");
    assert_eq!(good.len(), 0);

    let mut bigger = KvCache::new(9);
    let mut foreign = bigger.start(&[]);
    bigger.reserve(&mut foreign, 144).unwrap();
    foreign.advance(20);
    let segment = Segment { kv: &mut foreign, tokens: &[0], logits: WantedLogits::None };
    assert!(matches!(model.forward(&mut [segment]).unwrap_err(), ForeignSequence { block: 4, n_blocks: 4, .. }));
    model.kv().release(good);
}

#[test]
fn tables_that_make_no_sense_are_refused_by_line() {
    let error = |text: &str| ScriptedModel::from_table(text, 4).err().unwrap().to_string();
    assert!(error("0 -> 1:1").contains("no rule for everything else"));
    for (line, problem) in [
        ("0 1:1", "expected `ids"),
        ("0 -> 1", "expected id:weight"),
        ("0 -> 1:x", "not a number"),
        ("0 -> 1:0", "not positive"),
        ("0 -> 4:1", "not below the vocabulary size 4"),
        ("9 -> 1:1", "not below the vocabulary size 4"),
        ("a -> 1:1", "not a token id"),
        ("0 ->", "nothing may follow"),
        ("* -> 1:1", "a second rule"),
    ] {
        let error = error(&format!("* -> 0:1\n{line}\n"));
        assert!(error.starts_with("line 2: ") && error.contains(problem), "{line:?} gave {error:?}");
    }
}
