//! How much memory there may be, of one output and of all.

use std::time::Duration;

use super::*;
use crate::MOST_BYTES;

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
    let other = continuations.clone();
    drop(continuations);
    assert!(grammars.compile(&form, 1).is_err(), "a continuation is left");
    drop((first, other));
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
fn a_mask_costs_what_the_dearest_of_late_cost() {
    // Rows of the chart get longer with each token.
    let mut matcher = compile(&Form::Lark("start: s\ns: s s s | s s | \"a\" | \"\"".into())).unwrap();
    for _ in 0..70 {
        matcher.mask(&[]).unwrap();
        matcher.commit(id("a"));
    }
    matcher.mask(&[]).unwrap();
    let dear = matcher.mask_cost();
    let mut cheap = regex("a*");
    for _ in 0..70 {
        cheap.mask(&[]).unwrap();
        cheap.commit(id("a"));
    }
    assert!(dear > 4 * cheap.mask_cost(), "{dear:?} and {:?}", cheap.mask_cost());
    // The same question again is answered from memory, but not forgotten at once.
    matcher.mask(&[]).unwrap();
    assert!(matcher.mask_cost() >= dear.mul_f64(0.5) - Duration::from_nanos(1));
    for _ in 0..60 {
        matcher.mask(&[]).unwrap();
    }
    assert!(matcher.mask_cost() < dear / 10);
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
