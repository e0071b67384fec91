//! What can be asked for, and what is said about what cannot.

use super::*;

#[test]
fn a_schema_is_followed() {
    let person = schema(
        r#"{"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
            "required": ["name", "age"], "additionalProperties": false}"#,
    );
    for text in [r#"{"name": "x", "age": 7}"#, r#"{"name":"é\n","age":0}"#, "{\n  \"name\": \"\",\n  \"age\": 12\n}"] {
        assert!(matches(person.clone(), text), "{text}");
        assert!(serde_json::from_str::<serde_json::Value>(text).is_ok());
    }
    for text in [
        r#"{"name": "x"}"#,
        r#"{"name": 7, "age": 7}"#,
        r#"{"name": "x", "age": -1}"#,
        r#"{"name": "x", "age": 7"#,
        "7",
        "",
    ] {
        assert!(!matches(person.clone(), text), "{text}");
    }
}

#[test]
fn any_object_and_any_value() {
    let object = r#"{"a": [1, {"b": null}], "c": -1.5e3}"#;
    assert!(matches(schema(r#"{"type": "object"}"#), object));
    assert!(!matches(schema(r#"{"type": "object"}"#), "[]"));
    for text in [object, "[]", "null", "\"a\""] {
        assert!(matches(schema("true"), text) && matches(schema("{}"), text), "{text}");
    }
}

/// A model that does not know what comes next must not be able to write blanks for ever.
#[test]
fn white_space_ends() {
    let blanks = |n: usize| format!("{{\"a\":{}1}}", " ".repeat(n));
    assert!(matches(schema(r#"{"type": "object"}"#), &blanks(1)));
    assert!(!matches(schema(r#"{"type": "object"}"#), &blanks(2)));
    let as_asked = r#"{"type": "object", "x-guidance": {"whitespace_pattern": " {0,5}"}}"#;
    assert!(matches(schema(as_asked), &blanks(5)), "a schema may say what it wants");
}

#[test]
fn a_regular_expression_matches_the_whole_text() {
    assert!(matches(regex("[a-c]{2}|x"), "ab") && matches(regex("[a-c]{2}|x"), "x"));
    assert!(!matches(regex("[a-c]{2}|x"), "abx") && !matches(regex("[a-c]{2}|x"), "a"));
    assert!(matches(regex("a/b\\n\"?"), "a/b\n\""));
    assert!(matches(regex("()"), ""), "nothing but the end");
}

#[test]
fn a_grammar_may_hold_schemas() {
    let schema = r#"{"type": "object", "properties": {"a": {"type": "boolean"}}}"#;
    let source = format!("start: \"<tool>\" object \"</tool>\"\nobject: %json {schema}");
    let grammar = compile(&Form::Lark(source)).unwrap();
    assert!(matches(grammar.clone(), "<tool>{\"a\":true}</tool>"));
    assert!(!matches(grammar, "<tool>{\"a\":1}</tool>"));
}

#[test]
fn what_cannot_be_used_is_refused_with_the_reason() {
    let refusals = [
        (Form::JsonSchema("{".into()), "not JSON"),
        (Form::JsonSchema("7".into()), "is an object or true"),
        (Form::JsonSchema("false".into()), "is an object or true"),
        (Form::JsonSchema(r#"{"type": "strnig"}"#.into()), "strnig"),
        (Form::JsonSchema(r#"{"type": "object", "unevaluatedProperties": false}"#.into()), "unevaluatedProperties"),
        (Form::JsonSchema(r#"{"$ref": "https://example.com/schema.json"}"#.into()), "example.com"),
        (Form::JsonSchema(r#"{"type": "integer", "minimum": 3, "maximum": 2}"#.into()), "minimum"),
        (Form::Regex("[0-9".into()), "cannot be used"),
        (Form::Regex("(?=a)b".into()), "look-around"),
        (Form::Lark(String::new()), "cannot be used"),
        (Form::Lark("start: nowhere".into()), "nowhere"),
        (Form::Lark("start: <no_such_token>".into()), "no_such_token"),
        (Form::Lark("start: a\na[stop=\"x\"]: /.*/".into()), "stop="),
        (Form::Lark("start: a\na[max_tokens=3]: /.*/".into()), "max_tokens="),
    ];
    for (form, expected) in refusals {
        let refused = compile(&form).expect_err(form.source());
        let text = refused.to_string();
        assert!(text.contains(expected), "{}: {text}", form.source());
        assert!(text.len() < 300 && !text.contains('\n'), "{text}");
    }
}

#[test]
fn what_the_tokens_cannot_spell_is_refused() {
    let letters =
        |id: TokenId| if id == 2 { Spelling::Special(b"<end>") } else { Spelling::Text(&b"ab"[id as usize..][..1]) };
    let grammars = Grammars::new(Vocabulary::new(3, letters, &[2]).unwrap());
    assert!(grammars.compile(&Form::Regex("[0-9]".into()), 1).is_err());
    let mut later = grammars.compile(&Form::Regex("a[0-9]".into()), 1).unwrap();
    assert!(later.mask(&[0]).is_err(), "one that begins well gets stuck, and says so");
}

#[test]
fn a_form_is_compiled_once_and_each_client_begins_anew() {
    let grammars = grammars();
    let form = Form::Regex("ab".into());
    let mut first = grammars.compile(&form, 1).unwrap();
    first.commit(id("a"));
    assert!(first.mask(&bytes("x")).is_err());
    let mut second = grammars.compile(&form, 1).unwrap();
    assert_eq!(allowed(&mut second, &[]), bytes("a"), "nothing of the first one's way, nor of its end");
    for index in 0..200 {
        grammars.compile(&Form::Regex(format!("a{index}")), 1).unwrap();
    }
    assert!(format!("{grammars:?}").contains("remembered: 64"), "{grammars:?}");
}

#[test]
fn an_object_may_have_more_optional_properties_than_people_write_down() {
    let begins = |n: usize| {
        let properties: Vec<String> = (0..n).map(|index| format!(r#""p{index}": {{"type": "string"}}"#)).collect();
        let properties = properties.join(",");
        let mut matcher = schema(&format!(r#"{{"properties": {{{properties}}}, "additionalProperties": false}}"#));
        bytes(r#"{"p0": "x", "p7": "y""#).into_iter().try_for_each(|token| {
            matcher.commit(token);
            matcher.mask(&[]).map(drop)
        })
    };
    assert_eq!(begins(240), Ok(()));
    assert!(begins(260).unwrap_err().to_string().contains("max is 1000"), "and this is where it ends");
}
