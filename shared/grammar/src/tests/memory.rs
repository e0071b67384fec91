//! How much memory there may be, of one output and of all.

use std::time::Duration;

use super::*;
use crate::{MOST_BYTES, Occupancy};

/// Each token asks for states that no token before has asked for.
const NEEDLE: &str = "(.*)a(.{3000})";

#[test]
fn an_output_ends_when_its_state_takes_too_much_and_says_so() {
    let mut matcher = regex(NEEDLE);
    let mut largest = 0;
    let error = loop {
        match matcher.mask(&[]) {
            // Whether an "a" was 3000 characters ago is what has to be remembered.
            Ok(_) => matcher.commit(id(if largest % 3 == 0 { "a" } else { "b" })),
            Err(error) => break error,
        }
        largest = matcher.n_bytes();
    };
    assert!(largest > MOST_BYTES / 2 && largest <= MOST_BYTES, "{largest}");
    assert!(error.to_string().contains("16 MiB"), "{error}");
    assert!(matcher.n_bytes() < MOST_BYTES / 100, "and gives it back");
    assert_eq!(matcher.mask(&[]).unwrap_err(), error);
}

/// Rows of the chart have four items for each of the rules.
fn wide(n_rules: usize) -> Matcher {
    let rules: String = (0..n_rules).map(|index| format!("r{index}: A r{index} | A \"b{index}\"\n")).collect();
    let choice = (0..n_rules).map(|index| format!("r{index}")).collect::<Vec<_>>().join("|");
    compile(&Form::Lark(format!("start: {choice}\n{rules}A: \"a\"\n"))).unwrap()
}

/// It has a row for each lexeme.
#[test]
fn the_chart_counts_as_well_as_the_lexer() {
    let mut matcher = wide(80);
    let mut sizes = Vec::new();
    for _ in 0..100 {
        matcher.mask(&[]).unwrap();
        sizes.push(matcher.n_bytes());
        matcher.commit(id("a"));
    }
    let per_token = (sizes[99] - sizes[50]) / 49;
    assert!((4 * 8 * 80..100 * 80).contains(&per_token), "{per_token}");
}

/// Somebody may have the tokens of an output before he asks for a mask.
#[test]
fn commits_without_a_mask_are_bounded_as_well() {
    let mut matcher = wide(80);
    let (mut largest, mut n_tokens) = (0, 0);
    while matcher.n_bytes() >= largest {
        largest = matcher.n_bytes();
        assert!(largest <= MOST_BYTES, "{largest} bytes after {n_tokens} tokens");
        matcher.commit(id("a"));
        n_tokens += 1;
        assert!(n_tokens < 100_000, "{largest}");
    }
    assert!(largest > MOST_BYTES / 2, "{largest}");
    assert!(matcher.mask(&[]).unwrap_err().to_string().contains("16 MiB"));
}

/// Each row costs as much time as its items squared.
#[test]
fn a_row_that_is_too_wide_ends_the_output() {
    let mut matcher = wide(240);
    matcher.commit(id("a"));
    assert_eq!(allowed(&mut matcher, &[]), bytes("ab"));
    let mut wider = wide(260);
    wider.commit(id("a"));
    assert!(wider.mask(&[]).unwrap_err().to_string().contains("max is 1000"));
}

#[test]
fn a_question_is_not_counted_once_it_is_taken_back() {
    let mut matcher = regex("[0-9]{400}");
    matcher.mask(&bytes("1234")).unwrap();
    let asked = matcher.n_bytes();
    for _ in 0..50 {
        matcher.mask(&bytes("1239")).unwrap();
        matcher.mask(&bytes("1234")).unwrap();
    }
    assert_eq!(matcher.n_bytes(), asked);
    matcher.mask(&[]).unwrap();
    assert!(matcher.n_bytes() < asked);
}

#[test]
fn there_are_so_many_outputs_at_a_time_and_no_more() {
    let grammars = grammars().with_places(3);
    let form = Form::Regex("a".into());
    let first = grammars.compile(&form, 1).unwrap();
    let continuations = grammars.compile(&form, 2).unwrap();
    assert_eq!(grammars.compile(&form, 1).unwrap_err(), Error::Full { n_places: 3 });
    drop(first);
    let first = grammars.compile(&form, 1).unwrap();
    let (one, other) = (continuations.clone(), continuations.clone());
    drop(continuations);
    assert!(grammars.compile(&form, 1).is_err(), "both continuations are left");
    drop(one);
    let one = grammars.compile(&form, 1).unwrap();
    assert!(grammars.compile(&form, 1).is_err(), "one is left");
    assert_eq!(grammars.occupancy(), Occupancy { n_places: 3, n_taken: 3, n_refused: 3 });
    drop((first, one, other));
    assert!(grammars.compile(&form, 4).is_err(), "all or none");
    assert!(grammars.compile(&form, 3).is_ok());
    assert!(grammars.compile(&Form::Regex("[".into()), 3).is_err());
    assert!(grammars.compile(&form, 3).is_ok(), "what is refused holds no place");
}

#[test]
fn requests_with_the_same_form_share_nothing_that_grows() {
    let grammars = grammars();
    let form = Form::Regex(NEEDLE.into());
    let mut first = grammars.compile(&form, 1).unwrap();
    let before = grammars.compile(&form, 1).unwrap().n_bytes();
    while first.mask(&[]).is_ok() {
        first.commit(id("a"));
    }
    let mut second = grammars.compile(&form, 1).unwrap();
    assert_eq!(second.n_bytes(), before);
    assert!(second.mask(&[]).is_ok());
}

#[test]
fn what_masks_take_is_known_to_later_outputs_of_the_same_form() {
    let grammars = grammars();
    let form = Form::Regex("[ab]{9}".into());
    let begin = || grammars.compile(&form, 1).unwrap();
    let mut first = begin();
    for _ in 0..2 {
        // The mask before any token is remembered, and what it takes says nothing.
        begin().mask(&[]).unwrap();
        assert_eq!((first.mask_cost(), begin().mask_cost()), (None, None));
        first.commit(id("a"));
        first.mask(&[]).unwrap();
    }
    assert!(begin().mask_cost() > Some(Duration::ZERO));
    assert_eq!(grammars.compile(&Form::Regex("[ab]{8}".into()), 1).unwrap().mask_cost(), None, "another form");
}

#[test]
fn what_is_remembered_is_bounded_by_its_memory_too() {
    let grammars = grammars();
    for letter in 'a'..='t' {
        let long = format!("{letter}{}", "ab".repeat(30_000));
        let size = grammars.compile(&Form::Regex(long), 1).unwrap().n_bytes();
        assert!(size > 4 << 20, "{size}");
    }
    let remembered = format!("{grammars:?}");
    let n: usize = remembered.chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap();
    assert!((1..=16).contains(&n), "{remembered}: 64 MiB");
}
