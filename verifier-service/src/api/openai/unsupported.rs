//! Fields that other servers honour and this one cannot. To ignore them would be to give another answer than the one
//! asked for, so they are refused, unless they have the value that changes nothing.

use serde_json::{Value, json};

use super::{body::Fields, failure::Failure};

/// Name, values that change nothing besides `null`, and what to do instead.
type Field = (&'static str, fn() -> Vec<Value>, &'static str);

/// Of both endpoints.
const COMMON: &[Field] = &[
    ("response_format", || vec![json!({"type": "text"})], "output cannot be constrained yet"),
    ("structured_outputs", none, "output cannot be constrained yet"),
    ("guided_json", none, "output cannot be constrained yet"),
    ("guided_regex", none, "output cannot be constrained yet"),
    ("guided_choice", none, "output cannot be constrained yet"),
    ("guided_grammar", none, "output cannot be constrained yet"),
    ("grammar", || vec![json!("")], "output cannot be constrained yet"),
    ("json_schema", none, "output cannot be constrained yet"),
    ("use_beam_search", off, "tokens are drawn, not searched for"),
    ("length_penalty", || vec![json!(1), json!(1.0)], "it belongs to beam search, which there is none of"),
    ("typical_p", || vec![json!(1), json!(1.0)], "use top_p or min_p"),
    ("mirostat", || vec![json!(0)], "use top_p or min_p"),
    ("bad_words", || vec![json!([])], "use logit_bias"),
    ("allowed_token_ids", none, "use logit_bias"),
    ("logits_processors", || vec![json!([])], "use logit_bias"),
    ("skip_special_tokens", on, "special tokens have no text here; their ids come over gRPC"),
    ("include_stop_str_in_output", off, "the text ends before the stop string"),
    ("truncate_prompt_tokens", none, "cut the prompt yourself; /tokenize counts its tokens"),
    ("prompt_logprobs", none, "ask /v1/completions with echo and logprobs"),
    ("return_token_ids", off, "ids come over gRPC"),
    ("return_tokens_as_token_ids", off, "ids come over gRPC"),
    ("priority", || vec![json!(0)], "requests run in order of arrival"),
];

const CHAT: &[Field] = &[
    ("tools", || vec![json!([])], "tools cannot be called yet"),
    ("tool_choice", || vec![json!("none"), json!("auto")], "tools cannot be called yet"),
    ("functions", || vec![json!([])], "tools cannot be called yet"),
    ("function_call", || vec![json!("none"), json!("auto")], "tools cannot be called yet"),
    ("modalities", || vec![json!(["text"])], "the model writes text only"),
    ("audio", none, "the model writes text only"),
    ("prediction", none, "drafts come from the draft service"),
    ("web_search_options", none, "there is no search here"),
    ("store", off, "nothing is stored"),
    ("reasoning_effort", none, "the model has no such setting"),
    ("verbosity", none, "the model has no such setting"),
    ("echo", off, "ask /v1/completions"),
    ("add_generation_prompt", on, "render the prompt yourself and ask /v1/completions"),
    ("continue_final_message", off, "render the prompt yourself and ask /v1/completions"),
    ("chat_template", none, "the model's own template is used; or render the prompt yourself and ask /v1/completions"),
    ("chat_template_kwargs", || vec![json!({})], "the template is used as it is"),
    ("documents", || vec![json!([])], "put them into a message"),
];

const COMPLETIONS: &[Field] = &[
    ("suffix", || vec![json!("")], "text is continued, never filled in"),
    ("add_special_tokens", on, "give the prompt as token ids"),
    ("prompt_embeds", none, "give the prompt as text or token ids"),
];

fn none() -> Vec<Value> {
    Vec::new()
}

fn off() -> Vec<Value> {
    vec![json!(false)]
}

fn on() -> Vec<Value> {
    vec![json!(true)]
}

/// Refuses a chat request for the first field that cannot be honoured.
pub(super) fn refuse_in_chat(fields: &Fields) -> Result<(), Failure> {
    refuse(fields, CHAT)
}

/// Refuses a completion request for the first field that cannot be honoured.
pub(super) fn refuse_in_completions(fields: &Fields) -> Result<(), Failure> {
    refuse(fields, COMPLETIONS)?;
    match fields.get("best_of") {
        // It asks for no more than what is returned.
        best_of @ Some(_) if best_of != fields.get("n").or(Some(&json!(1))) && best_of != Some(&Value::Null) => {
            Err(failure("best_of", "all continuations are returned: use n and choose yourself"))
        }
        _ => Ok(()),
    }
}

fn refuse(fields: &Fields, of_endpoint: &[Field]) -> Result<(), Failure> {
    let changes_answer = |(name, neutral, _): &&Field| {
        fields.get(name).is_some_and(|value| !value.is_null() && !neutral().contains(value))
    };
    match COMMON.iter().chain(of_endpoint).find(changes_answer) {
        Some((name, _, instead)) => Err(failure(name, instead)),
        None => Ok(()),
    }
}

fn failure(name: &str, instead: &str) -> Failure {
    Failure::unsupported(name, format!("{name} is not supported: {instead}; leave it out"))
}
