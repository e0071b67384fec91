//! `response_format`: output that was asked to be JSON is JSON.

use serde_json::{Value, json};

use specfleet_model::{scripted::ScriptedModel, tokenizer::Tokenizer};

use super::{
    CHAT, COMPLETIONS, chat, completion, ok, refusal, with,
    writer::{CALLS, THOUGHTS, answer, ask, erring},
};
use crate::support::{Verifier, options};

fn person() -> Value {
    let properties = json!({
        "name": {"type": "string"},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2},
    });
    json!({"type": "object", "properties": properties, "required": ["name", "age", "tags"], "additionalProperties": false})
}

fn of_schema(schema: Value) -> Value {
    json!({"response_format": {"type": "json_schema", "json_schema": {"name": "person", "schema": schema, "strict": true}}})
}

fn content(choice: &Value) -> Value {
    let text = choice["message"]["content"].as_str().unwrap();
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// From a model that would rather write prose, at temperature 1.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_asked_to_be_json_parses_and_has_its_schema() {
    let verifier = CALLS.verifier_of(CALLS.reluctant(), options());
    let http = verifier.serve_http().await;
    for seed in 0..12 {
        let more = json!({"seed": seed, "temperature": 1, "max_tokens": 1500});
        let any = answer(http, &with(ask(&more), &json!({"response_format": {"type": "json_object"}}))).await;
        assert!(any["finish_reason"] == "stop" && content(&any).is_object(), "{any}");
        let person = content(&answer(http, &with(ask(&more), &of_schema(person()))).await);
        let tags = person["tags"].as_array().unwrap();
        assert!(person["name"].is_string() && person["age"].is_i64() && tags.len() <= 2, "{person}");
        assert!(tags.iter().all(|tag| tag == "a" || tag == "b"), "{person}");
    }
    assert_eq!(answer(http, &ask(&json!({"response_format": {"type": "text"}}))).await["message"]["content"], "Hello.");
    verifier.assert_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn json_is_the_same_for_every_draft_length() {
    let text = "{\"name\": \"Zoë \\\"Z\\\"\", \"age\": 42, \"tags\": [\"a\", \"b\"]}";
    let writing = CALLS.writing(text);
    let verifier = CALLS.drafted(CALLS.sure(writing.clone()), erring(writing, 5)).await;
    let http = verifier.serve_http().await;
    for draft_length in [0, 1, 4, 8] {
        let body = with(ask(&of_schema(person())), &json!({"speculation": {"max_draft_length": draft_length}}));
        assert_eq!(answer(http, &body).await["message"]["content"], text, "{draft_length}");
        let usage = ok(http, CHAT, &body).await["usage"].clone();
        assert_eq!(usage["completion_tokens"], text.len() + 1, "and the end token");
        assert_eq!(usage["speculation"]["accepted"].as_u64() > Some(0), draft_length > 0, "{usage}");
    }
    verifier.assert_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_tools_an_answer_is_json_or_a_call() {
    let tool = json!({"type": "function", "function": {"name": "now"}});
    let call = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
    let json = "{\"name\": \"Al\", \"age\": 7, \"tags\": []}";
    for (text, reason) in [(call, "tool_calls"), (json, "stop")] {
        let verifier = CALLS.verifier(CALLS.writing(text));
        let body = with(ask(&of_schema(person())), &json!({"tools": [tool]}));
        let choice = answer(verifier.serve_http().await, &body).await;
        assert_eq!(choice["finish_reason"], reason, "{choice}");
        assert_eq!(choice["message"]["content"].as_str(), Some(json).filter(|json| *json == text));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_may_think_before_it_writes_json() {
    let json = "{\"name\": \"Al\", \"age\": 7, \"tags\": []}";
    for words in [THOUGHTS, THOUGHTS.special()] {
        let verifier = words.verifier(words.writing(&format!("<think>\n{{hm\n</think>\n\n{json}")));
        let choice = answer(verifier.serve_http().await, &ask(&of_schema(person()))).await;
        assert_eq!(
            (&choice["message"]["content"], &choice["message"]["reasoning_content"]),
            (&json!(json), &json!("{hm"))
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_that_cannot_be_had_is_refused_by_name() {
    let verifier = CALLS.verifier(CALLS.writing("Hi"));
    let http = verifier.serve_http().await;
    let schema = |schema: Value| json!({"response_format": {"type": "json_schema", "json_schema": schema}});
    let cases = [
        (json!({"response_format": "json"}), "response_format"),
        (json!({"response_format": {"type": "xml"}}), "response_format.type"),
        (schema(json!({})), "response_format.json_schema.schema"),
        (schema(json!({"schema": "any"})), "response_format.json_schema.schema"),
        (schema(json!({"name": "two words", "schema": {}})), "response_format.json_schema.name"),
        (schema(json!({"schema": {"type": "colour"}})), "response_format.json_schema.schema"),
        (schema(json!({"schema": {"$ref": "#/nowhere"}})), "response_format.json_schema.schema"),
    ];
    for (more, param) in cases {
        let (status, error) = refusal(http.post(CHAT, &ask(&more)).await).await;
        assert_eq!((status, &error["param"]), (400, &json!(param)), "{more}: {error}");
        assert!(
            error["message"].as_str().unwrap().contains("schema")
                || param.ends_with("format")
                || param.ends_with("type"),
            "{error}"
        );
    }
    let json = json!({"response_format": {"type": "json_object"}});
    for (more, param) in [(json!({"ignore_eos": true}), "ignore_eos"), (json!({"min_tokens": 5}), "min_tokens")] {
        let (status, error) = refusal(http.post(CHAT, &with(ask(&json), &more)).await).await;
        assert_eq!((status, &error["param"]), (400, &json!(param)), "{error}");
    }
    let (status, error) = refusal(http.post(COMPLETIONS, &with(completion("abc", 5), &json)).await).await;
    assert_eq!((status, &error["code"]), (400, &json!("unsupported_parameter")), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_may_describe_itself_at_length() {
    let text = "{\"name\": \"Al\", \"age\": 7, \"tags\": []}";
    let mut schema = person();
    let at_length = json!("what it is, and what not (".repeat(1000));
    schema["description"] = at_length.clone();
    for name in ["name", "age", "tags"] {
        schema["properties"][name]["description"] = at_length.clone();
    }
    assert!(schema.to_string().len() > 100_000);
    let verifier = CALLS.verifier(CALLS.writing(text));
    let http = verifier.serve_http().await;
    assert_eq!(answer(http, &ask(&of_schema(schema))).await["message"]["content"], text);
}

/// A vocabulary that can begin what the schema asks for, and cannot end it.
#[tokio::test(flavor = "multi_thread")]
async fn a_form_that_cannot_be_followed_any_further_is_named_as_the_client_named_it() {
    let spellings = [&b"a"[..], b"b", b"\"", b"<end>"].map(<[u8]>::to_vec).to_vec();
    let target = ScriptedModel::from_fn(4, |_| vec![0.0; 4]);
    let verifier = Verifier::spelling(target, Tokenizer::from_bytes(spellings, &[3], &[3]), Vec::new(), options());
    let http = verifier.serve_http().await;
    let body = with(chat("ab", 20), &of_schema(json!({"enum": ["abba!"]})));
    let (status, error) = refusal(http.post(CHAT, &body).await).await;
    let expected = [&json!("response_format"), &json!("invalid_value")];
    assert_eq!((status, [&error["param"], &error["code"]]), (400, expected), "{error}");
    assert!(error["message"].as_str().unwrap().contains("response_format"), "{error}");
    let mut reply = http.post(CHAT, &with(body, &json!({"stream": true}))).await;
    let events = reply.events().await;
    let streamed: Vec<Value> = events.iter().map(|event| serde_json::from_str(event).unwrap()).collect();
    let texts = streamed.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str());
    assert_eq!(texts.collect::<String>(), "\"abba", "what came before is verified");
    assert_eq!(streamed.last().unwrap()["error"], error);
    verifier.assert_idle().await;
}
