//! What may follow, and that questions leave no trace.

use proptest::prelude::*;

use super::*;

#[test]
fn four_digits_and_then_the_end() {
    let mut matcher = regex("[0-9]{4}");
    let digits: Vec<TokenId> = bytes("0123456789");
    assert_eq!(allowed(&mut matcher, &[]), [&digits[..], &[id("12"), id("123")]].concat());
    matcher.commit(id("12"));
    matcher.commit(id("3"));
    assert_eq!(allowed(&mut matcher, &[]), digits);
    assert_eq!(allowed(&mut matcher, &[id("7")]), [END, OTHER_END], "all end tokens, and nothing else");
    matcher.commit(id("4"));
    matcher.commit(OTHER_END);
    assert!(allowed(&mut matcher, &[]).is_empty());
}

#[test]
fn where_the_text_may_end_or_go_on_both_are_allowed() {
    let mut matcher = regex("a+");
    assert_eq!(allowed(&mut matcher, &[]), bytes("a"));
    assert_eq!(allowed(&mut matcher, &bytes("a")), [id("a"), END, OTHER_END]);
    assert!(allowed(&mut matcher, &[id("a"), END]).is_empty(), "nothing follows the end");
    assert_eq!(allowed(&mut matcher, &[]), bytes("a"), "which was only a question");
}

#[test]
fn a_rejected_token_leaves_no_trace() {
    let mut matcher = regex("[0-9]{4}");
    matcher.commit(id("1"));
    let before = allowed(&mut matcher, &[]);
    assert_eq!(allowed(&mut matcher, &bytes("234")), [END, OTHER_END]);
    matcher.commit(id("5"));
    assert_eq!(allowed(&mut matcher, &bytes("6")), bytes("0123456789"));
    let mut other = regex("[0-9]{4}");
    other.commit(id("1"));
    assert_eq!(allowed(&mut other, &[]), before);
}

/// The library keeps the last mask, by the number of its row in the chart and the state of the lexer.
#[test]
fn a_mask_that_was_asked_about_is_not_that_of_another_way_there() {
    let tokens = ["(", "[", ")", "]", "x", "x)", "x]", "<end>"];
    let spelling = |id: TokenId| match tokens[id as usize] {
        "<end>" => Spelling::Special(b"<end>"),
        text => Spelling::Text(text.as_bytes()),
    };
    let grammars = Grammars::new(Vocabulary::new(8, spelling, &[7]).unwrap());
    let form = Form::Lark("start: \"(\" A \")\" | \"[\" A \"]\"\nA: /x+/\n".into());
    let mut matcher = grammars.compile(&form, 1).unwrap();
    assert_eq!(allowed(&mut matcher, &[0]), [4, 5]);
    assert_eq!(allowed(&mut matcher, &[1]), [4, 6]);
    assert_eq!(allowed(&mut matcher, &[0, 4]), [2, 4, 5]);
    matcher.commit(1);
    assert_eq!(allowed(&mut matcher, &[]), [4, 6]);
    assert_eq!(allowed(&mut matcher, &[4]), [3, 4, 6]);
}

#[test]
fn half_a_character_is_completed() {
    let mut matcher = regex("\u{1f980}|b");
    let crab = "\u{1f980}".as_bytes();
    for n_bytes in 1..4 {
        let begun: Vec<TokenId> = crab[..n_bytes].iter().map(|byte| TokenId::from(*byte)).collect();
        assert_eq!(allowed(&mut matcher, &begun), [TokenId::from(crab[n_bytes])]);
    }
    assert_eq!(allowed(&mut matcher, &[]), [id("b"), TokenId::from(crab[0]), id("\u{1f980}")]);
}

#[test]
fn a_special_token_is_allowed_by_name_only() {
    let mut named = compile(&Form::Lark("start: <call> \"1\"".into())).unwrap();
    assert_eq!(allowed(&mut named, &[]), [CALL]);
    assert_eq!(allowed(&mut named, &[CALL]), bytes("1"));
    named.commit(CALL);
    assert_eq!(allowed(&mut named, &[]), bytes("1"));
    let mut spelled = regex("<call>1");
    assert_eq!(allowed(&mut spelled, &[]), bytes("<"));
}

#[test]
fn an_end_token_may_be_part_of_a_grammar() {
    let mut matcher = compile(&Form::Lark("start: \"a\" <turn>".into())).unwrap();
    assert_eq!(allowed(&mut matcher, &bytes("a")), [OTHER_END], "this one, and not the other");
}

#[test]
fn a_token_that_is_not_allowed_is_found_out() {
    let mut matcher = regex("ab");
    assert_eq!(matcher.n_allowed(&bytes("ax")), 1);
    assert_eq!(matcher.n_allowed(&[id("a"), id("b"), END, END]), 3);
    assert_eq!(allowed(&mut matcher, &[]), bytes("a"), "which was only a question");
    assert!(matches!(matcher.mask(&bytes("x")), Err(Error::Stuck(_))));
    assert!(matcher.mask(&[]).is_err(), "for ever");
    assert_eq!(matcher.n_allowed(&bytes("a")), 0);
}

#[test]
fn clones_go_their_own_ways() {
    let mut first = regex("a+b+");
    first.commit(id("a"));
    let mut second = first.clone();
    first.commit(id("b"));
    assert_eq!(allowed(&mut second, &[]), bytes("ab"));
    assert_eq!(allowed(&mut first, &[]), [id("b"), END, OTHER_END]);
    second.commit(id("a"));
    assert_eq!(allowed(&mut second, &[]), bytes("ab"));
}

#[test]
fn ids_that_are_no_text_are_never_allowed_as_text() {
    // Anything at all: but no special token, no id without a spelling, no byte that is in no text.
    let mut matcher = regex("(?s:.*)");
    let allowed = allowed(&mut matcher, &[]);
    assert!(!allowed.contains(&CALL) && !allowed.contains(&0xFF) && !allowed.contains(&290), "{allowed:?}");
    assert!(allowed.contains(&id("{\"")) && allowed.contains(&END));
}

#[test]
fn a_vocabulary_must_be_able_to_end() {
    let refused = Vocabulary::new(4, spelling, &[]).err().unwrap();
    assert_eq!(refused, Error::NoEndToken);
    assert_eq!(Vocabulary::new(4, spelling, &[9]).err().unwrap(), Error::NoEndToken, "no such id");
}

proptest! {
    /// However questions about draft tokens and commits alternate, the mask is that of the committed tokens alone.
    #[test]
    fn questions_leave_no_trace(choices in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..4), 1..24)) {
        let properties = r#"{"a": {"enum": [true, 12, "4x"]}, "b": {"type": "array", "items": {"type": "integer"}}}"#;
        let source = &format!(r#"{{"type": "object", "properties": {properties}}}"#);
        let fresh = schema(source);
        let mut asked = fresh.clone();
        let mut committed = Vec::new();
        for (choice, n_ahead) in choices {
            let mut pending = Vec::new();
            for _ in 0..n_ahead {
                let next = allowed(&mut asked, &pending);
                if next.is_empty() { break; }
                pending.push(*choice.get(&next));
            }
            let mut plain = fresh.clone();
            committed.iter().for_each(|token| plain.commit(*token));
            let next = allowed(&mut plain, &[]);
            prop_assert_eq!(&allowed(&mut asked, &[]), &next);
            // Sometimes what was asked about, sometimes something else.
            let other = next.get(choice.index(next.len().max(1)));
            let token = pending.first().filter(|_| n_ahead % 2 == 0).or(other).copied();
            let Some(token) = token else { break };
            asked.commit(token);
            committed.push(token);
        }
    }
}
