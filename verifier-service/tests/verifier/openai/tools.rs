//! Tools: what is called is told as calls, and only what the target has written is ever called.

use serde_json::{Value, json};
use specfleet_verifier_service::{Options, ToolCalls};

use super::{
    CHAT, chunks, ok, refusal, with,
    writer::{CALLS, answer, ask, erring},
};
use crate::support::{Advance, Answer, FakeDraft, options, plain};

const TEXT: &str = "One moment.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Zürich <\\\"}\", \"days\": 3}}\n\
                    </tool_call>\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";

fn weather() -> Value {
    let properties = json!({"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1, "maximum": 14}});
    let parameters =
        json!({"type": "object", "properties": properties, "required": ["city"], "additionalProperties": false});
    json!({"type": "function", "function": {"name": "weather", "description": "Tells it.", "parameters": parameters}})
}

fn now() -> Value {
    json!({"type": "function", "function": {"name": "now"}})
}

/// A request that offers both.
fn offering(more: &Value) -> Value {
    with(ask(&json!({"tools": [weather(), now()]})), more)
}

/// What [`TEXT`] is to a client.
fn called() -> Value {
    let call =
        |name: &str, arguments: &str| json!({"type": "function", "function": {"name": name, "arguments": arguments}});
    let calls = [call("weather", "{\"city\": \"Zürich <\\\"}\", \"days\": 3}"), call("now", "{}")];
    let message = json!({"role": "assistant", "content": "One moment.", "refusal": null, "tool_calls": calls});
    json!({"index": 0, "message": message, "logprobs": null, "finish_reason": "tool_calls"})
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_told_in_the_form_that_clients_read() {
    for words in [CALLS, CALLS.special()] {
        let verifier = words.verifier(words.writing(TEXT));
        let http = verifier.serve_http().await;
        assert_eq!(answer(http, &offering(&json!({}))).await, called());
        let whole = ok(http, CHAT, &offering(&json!({"n": 2}))).await;
        let ids: std::collections::BTreeSet<_> = (0..2)
            .flat_map(|choice| {
                [0, 1].map(|call| whole["choices"][choice]["message"]["tool_calls"][call]["id"].to_string())
            })
            .collect();
        assert_eq!(ids.len(), 4, "each call has an id of its own");
        verifier.assert_idle().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_only_calls_has_no_content() {
    let text = &TEXT["One moment.\n".len()..];
    let verifier = CALLS.verifier(CALLS.writing(text));
    let message = &answer(verifier.serve_http().await, &offering(&json!({}))).await["message"];
    assert_eq!((&message["content"], message["tool_calls"].as_array().unwrap().len()), (&Value::Null, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_the_same_for_every_draft_length() {
    for words in [CALLS, CALLS.special()] {
        let writing = words.writing(TEXT);
        let verifier = words.drafted(words.sure(writing.clone()), erring(writing, 7)).await;
        let http = verifier.serve_http().await;
        for draft_length in [0, 1, 4, 8, 17] {
            let speculation = json!({"speculation": {"max_draft_length": draft_length}});
            assert_eq!(answer(http, &offering(&speculation)).await, called(), "{draft_length}");
            let usage = &ok(http, CHAT, &offering(&speculation)).await["usage"]["speculation"];
            assert_eq!(usage["accepted"].as_u64() > Some(0), draft_length > 0, "{usage}");
        }
        verifier.assert_idle().await;
    }
}

/// The draft proposes a whole call, again and again, in rounds that are long enough for all of it. If anything that a draft
/// proposed were parsed, the client would see a call or the beginning of one: the same draft, in front of a target that
/// agrees with it, makes exactly that call.
#[tokio::test(flavor = "multi_thread")]
async fn no_part_of_a_call_that_only_the_draft_wrote_reaches_the_client() {
    const CALL: &str = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
    let drafting = || {
        let call = CALLS.writing(CALL);
        FakeDraft::new(move |advance: &Advance| {
            // From its beginning, whatever stands there already.
            let prompt = &advance.committed[..advance.n_prompt];
            Answer::Tokens(plain(&call, prompt, 64).into_iter().take(advance.draft_length).collect())
        })
    };
    let more = json!({"speculation": {"max_draft_length": 64}});
    let options = Options { max_draft_length: 64, step_tokens: 128, ..options() };

    let agreeing = CALLS.drafted_with(CALLS.sure(CALLS.writing(CALL)), drafting(), options.clone()).await;
    let message = answer(agreeing.serve_http().await, &offering(&more)).await["message"].clone();
    assert_eq!(message["tool_calls"][0]["function"]["name"], "now", "what the draft proposes is a call");

    for text in ["I cannot tell.", "<tool_box>", "<", "<tool_call"] {
        let verifier = CALLS.drafted_with(CALLS.sure(CALLS.writing(text)), drafting(), options.clone()).await;
        let http = verifier.serve_http().await;
        let n_proposed = async || {
            let usage = &ok(http, CHAT, &offering(&more)).await["usage"]["speculation"];
            usage["proposed"].as_u64().unwrap()
        };
        // Proposals are as short as masks are dear, and nobody knows that of a grammar that is new.
        verifier.until("a proposal of the whole call", async || n_proposed().await > 30).await;
        let choice = answer(http, &offering(&more)).await;
        let message = json!({"role": "assistant", "content": text, "refusal": null});
        assert_eq!((&choice["message"], &choice["finish_reason"]), (&message, &json!("stop")));
        let chunks = chunks(http.post(CHAT, &with(offering(&more), &json!({"stream": true}))).await).await;
        assert!(chunks.iter().all(|chunk| chunk["choices"][0]["delta"].get("tool_calls").is_none()), "{chunks:?}");
        assert!(n_proposed().await > 30, "the whole call was proposed");
        verifier.assert_idle().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_must_come_comes_with_arguments_of_its_schema() {
    let verifier = CALLS.verifier_of(CALLS.reluctant(), options());
    let http = verifier.serve_http().await;
    let named = json!({"type": "function", "function": {"name": "weather"}});
    for (choice, name) in [(json!("required"), None), (named, Some("weather"))] {
        for seed in 0..10 {
            let more = json!({"tool_choice": choice, "seed": seed, "temperature": 1, "max_tokens": 1000});
            let answer = answer(http, &offering(&more)).await;
            assert_eq!((&answer["finish_reason"], &answer["message"]["content"]), (&json!("tool_calls"), &Value::Null));
            for call in answer["message"]["tool_calls"].as_array().unwrap() {
                let function = &call["function"];
                let arguments: Value = serde_json::from_str(function["arguments"].as_str().unwrap()).unwrap();
                assert!(name.is_none_or(|name| function["name"] == name), "{answer}");
                if function["name"] == "weather" {
                    assert!(
                        arguments["city"].is_string() && arguments.get("days").is_none_or(Value::is_i64),
                        "{arguments}"
                    );
                } else {
                    assert!(function["name"] == "now" && arguments.is_object(), "{answer}");
                }
            }
        }
    }
    let free = answer(http, &offering(&json!({}))).await;
    assert_eq!(free["message"]["content"], "Hello.", "without the need it would not call");
    verifier.assert_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_call_at_a_time_is_one_call() {
    let verifier = CALLS.verifier(CALLS.writing(TEXT));
    let http = verifier.serve_http().await;
    for choice in ["auto", "required"] {
        let more = json!({"parallel_tool_calls": false, "tool_choice": choice});
        assert_eq!(answer(http, &offering(&more)).await["message"]["tool_calls"].as_array().unwrap().len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_tools_a_call_is_text() {
    let verifier = CALLS.verifier(CALLS.writing(TEXT));
    let http = verifier.serve_http().await;
    let none = offering(&json!({"tool_choice": "none"}));
    for body in [ask(&json!({})), none.clone(), ask(&json!({"tools": [], "tool_choice": "auto"}))] {
        let choice = answer(http, &body).await;
        assert_eq!((&choice["message"]["content"], &choice["finish_reason"]), (&json!(TEXT), &json!("stop")));
    }
    assert_eq!(ok(http, CHAT, &none).await["usage"]["prompt_tokens"], 1, "what must not be called is not described");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_cut_short_ends_with_its_reason() {
    let verifier = CALLS.verifier(CALLS.writing(TEXT));
    let http = verifier.serve_http().await;
    for (max_tokens, content, arguments) in [(15, "One moment.", None), (60, "One moment.", Some("{\"city\": "))] {
        let choice = answer(http, &offering(&json!({"max_tokens": max_tokens}))).await;
        assert_eq!(choice["finish_reason"], "length");
        assert!(choice["message"]["content"].as_str().unwrap().starts_with(content), "{choice}");
        let cut = choice["message"]["tool_calls"][0]["function"]["arguments"].as_str();
        assert_eq!(cut.map(|cut| cut.starts_with(arguments.unwrap_or_default())), arguments.map(|_| true), "{choice}");
    }
    let stopped = answer(http, &offering(&json!({"stop": "days"}))).await;
    assert_eq!(stopped["finish_reason"], "stop", "the call is not whole: {stopped}");
}

/// The template of these tests has no place for tools.
#[tokio::test(flavor = "multi_thread")]
async fn calls_and_results_of_earlier_turns_are_part_of_the_prompt() {
    let verifier = CALLS.verifier(CALLS.writing(TEXT));
    let http = verifier.serve_http().await;
    let call = json!({"id": "call_1", "type": "function", "function": {"name": "now", "arguments": "{\"a\":1}"}});
    let messages = json!([
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "What time is it?"},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "Noon."}]},
        {"role": "user", "content": "\u{1}"},
    ]);
    let body = json!({"messages": messages, "tools": [weather(), now()], "temperature": 0, "max_tokens": 500});
    assert_eq!(answer(http, &body).await, called());
    let tokens = ok(http, "/tokenize", &body).await["tokens"].clone();
    assert_eq!(ok(http, CHAT, &body).await["usage"]["prompt_tokens"], tokens.as_array().unwrap().len());
    let prompt = ok(http, "/detokenize", &json!({"tokens": tokens})).await["prompt"].clone();
    let prompt = prompt.as_str().unwrap();
    for part in [
        "Be brief.\n\nYou can call functions.",
        "{\"type\": \"function\", \"function\": {\"name\": \"now\"}}",
        "What time is it?<tool_call>\n{\"name\": \"now\", \"arguments\": {\"a\": 1}}\n</tool_call>",
        "<tool_response>\nNoon.\n</tool_response>\u{1}",
    ] {
        assert!(prompt.contains(part), "{part} in {prompt}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_tools_is_refused_by_name() {
    let verifier = CALLS.verifier(CALLS.writing(TEXT));
    let http = verifier.serve_http().await;
    let function = |function: Value| json!({"tools": [now(), {"type": "function", "function": function}]});
    let named = |name: &str| json!({"tool_choice": {"type": "function", "function": {"name": name}}});
    let cases = [
        (json!({"tools": 7}), "tools"),
        (json!({"tools": [{"type": "browser"}]}), "tools[0].type"),
        (json!({"tools": [{"type": "function"}]}), "tools[0].function"),
        (function(json!({"name": ""})), "tools[1].function.name"),
        (function(json!({"name": "two words"})), "tools[1].function.name"),
        (function(json!({"name": "x".repeat(65)})), "tools[1].function.name"),
        (function(json!({"name": "now"})), "tools[1].function.name"),
        (function(json!({"name": "f", "parameters": "none"})), "tools[1].function.parameters"),
        (function(json!({"name": "f", "parameters": {"type": "string"}})), "tools[1].function.parameters"),
        (function(json!({"name": "f", "parameters": {"$ref": "#/nowhere"}})), "tools[1].function.parameters"),
        (json!({"tools": vec![now(); 129]}), "tools"),
        (json!({"tool_choice": "sometimes"}), "tool_choice"),
        (json!({"tool_choice": {"type": "function"}}), "tool_choice"),
        (named("nobody"), "tool_choice"),
        (json!({"tools": [], "tool_choice": "required"}), "tool_choice"),
        (json!({"parallel_tool_calls": "yes"}), "parallel_tool_calls"),
    ];
    for (more, param) in cases {
        let (status, error) = refusal(http.post(CHAT, &offering(&more)).await).await;
        assert_eq!(
            (status, &error["param"], &error["code"]),
            (400, &json!(param), &json!("invalid_value")),
            "{more}: {error}"
        );
        let name = param.split(['.', '[']).next().unwrap();
        assert!(error["message"].as_str().unwrap().contains(name), "{error}");
    }
    let call =
        |arguments: &str| json!([{"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}}]);
    for message in [
        json!({"role": "user", "content": "a", "tool_calls": call("{}")}),
        json!({"role": "assistant", "content": null, "tool_calls": []}),
        json!({"role": "assistant", "content": null, "tool_calls": call("[]")}),
        json!({"role": "assistant", "content": null, "tool_calls": call("{")}),
        json!({"role": "tool", "content": "Noon."}),
        json!({"role": "tool", "tool_call_id": "1", "content": null}),
    ] {
        let (status, error) = refusal(http.post(CHAT, &json!({"messages": [message]})).await).await;
        assert_eq!(status, 400);
        assert!(error["param"].as_str().unwrap().starts_with("messages[0]"), "{message}: {error}");
    }
    answer(http, &offering(&json!({}))).await;
}

/// The model is told all of it, and the grammar of the calls has room for what it needs: the schemas.
#[tokio::test(flavor = "multi_thread")]
async fn many_tools_may_describe_themselves_at_length() {
    let call = "<tool_call>\n{\"name\": \"tool_59\", \"arguments\": {\"title\": \"a\", \"description\": [\"b\"]}}\n</tool_call>";
    let at_length = |what: &str| format!("{what}: {}", "what it is good for, and what not (:( ".repeat(20));
    let texts =
        json!({"type": "array", "items": {"type": "string", "title": "Text", "description": at_length("A text")}});
    let tool = |number: usize| {
        let title =
            json!({"type": "string", "description": at_length("The title"), "examples": ["a", "b"], "default": "a"});
        let parameters = json!({
            "type": "object", "title": "Arguments", "description": at_length("Arguments"), "additionalProperties": false,
            "properties": {"title": title, "description": {"$ref": "#/$defs/description"}},
            "required": ["title", "description"], "$defs": {"description": texts},
        });
        let name = format!("tool_{number}");
        json!({"type": "function", "function": {"name": name, "description": at_length("It does it"), "parameters": parameters}})
    };
    let tools: Vec<Value> = (0..60).map(tool).collect();
    let n_bytes = json!(tools).to_string().len();
    assert!((100_000..256 << 10).contains(&n_bytes), "{n_bytes}");
    let target = CALLS.sure(CALLS.writing(call)).with_context_length(1 << 19).with_kv_tokens(1 << 19);
    let verifier = CALLS.verifier_of(target, Options { step_tokens: 8192, ..options() });
    let http = verifier.serve_http().await;
    for choice in ["auto", "required"] {
        let body = ask(&json!({"tools": tools, "tool_choice": choice}));
        let called = answer(http, &body).await["message"]["tool_calls"][0]["function"].clone();
        let arguments = "{\"title\": \"a\", \"description\": [\"b\"]}";
        assert_eq!(called, json!({"name": "tool_59", "arguments": arguments}));
        let n_prompt = ok(http, CHAT, &body).await["usage"]["prompt_tokens"].clone();
        assert!(n_prompt.as_u64().unwrap() as usize > n_bytes, "all of it is in the prompt: {n_prompt}");
    }
    verifier.assert_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_are_refused_where_nobody_knows_how_the_model_calls() {
    let options = Options { tool_calls: ToolCalls::None, ..options() };
    let verifier = CALLS.verifier_of(CALLS.sure(CALLS.writing("Hi")), options);
    let http = verifier.serve_http().await;
    let (status, error) = refusal(http.post(CHAT, &offering(&json!({}))).await).await;
    assert_eq!((status, &error["param"], &error["code"]), (400, &json!("tools"), &json!("unsupported_parameter")));
    assert!(error["message"].as_str().unwrap().contains("--tool-calls"), "{error}");
    answer(http, &offering(&json!({"tool_choice": "none"}))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_calls_with_json_alone_is_understood_too() {
    let options = Options { tool_calls: ToolCalls::Llama, ..options() };
    let text = "{\"name\": \"weather\", \"parameters\": {\"city\": \"Rome\"}}";
    let verifier = CALLS.verifier_of(CALLS.sure(CALLS.writing(text)), options);
    let choice = answer(verifier.serve_http().await, &offering(&json!({}))).await;
    assert_eq!(
        choice["message"]["tool_calls"][0]["function"],
        json!({"name": "weather", "arguments": "{\"city\": \"Rome\"}"})
    );
    assert_eq!((&choice["message"]["content"], &choice["finish_reason"]), (&Value::Null, &json!("tool_calls")));
}
