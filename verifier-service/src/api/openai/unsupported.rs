//! Fields that other servers honour and this one cannot. To ignore them would be to give another answer than the one
//! asked for, so they are refused, unless they have the value that changes nothing. Nor can fields be honoured that go by
//! another name here: somebody would take them for honoured.

use serde_json::{Value, json};

use super::{body::Fields, failure::Failure};

/// Name, which may lead into an object, values that change nothing besides `null`, and what to do instead.
type Field = (&'static str, fn() -> Vec<Value>, &'static str);

const CONSTRAIN: &str = "use response_format of /v1/chat/completions, or grammars over gRPC";

/// Of both endpoints.
const COMMON: &[Field] = &[
    ("structured_outputs", none, CONSTRAIN),
    ("guided_json", none, CONSTRAIN),
    ("guided_regex", none, CONSTRAIN),
    ("guided_choice", none, CONSTRAIN),
    ("guided_grammar", none, CONSTRAIN),
    ("grammar", || vec![json!("")], CONSTRAIN),
    ("json_schema", none, CONSTRAIN),
    ("regex", none, CONSTRAIN),
    ("ebnf", none, CONSTRAIN),
    ("use_beam_search", off, "tokens are drawn, not searched for"),
    ("length_penalty", one, "it belongs to beam search, which there is none of"),
    ("typical_p", one, "use top_p or min_p"),
    ("top_n_sigma", || vec![json!(-1), json!(-1.0)], "use top_p or min_p"),
    ("mirostat", zero, "use top_p or min_p"),
    ("xtc_probability", zero, "use top_p or min_p"),
    ("dynatemp_range", zero, "use temperature"),
    ("samplers", none, "the filters run in an order of their own"),
    ("dry_multiplier", zero, "use repetition_penalty or frequency_penalty"),
    ("repeat_penalty", one, "use repetition_penalty"),
    ("repeat_last_n", || vec![json!(-1)], "penalties look at the whole text"),
    ("no_repeat_ngram_size", zero, "use repetition_penalty or frequency_penalty"),
    ("n_predict", none, "use max_tokens"),
    ("n_probs", zero, "use logprobs"),
    ("post_sampling_probs", off, "log-probabilities are those before any transform"),
    ("t_max_predict_ms", || vec![json!(-1), json!(0)], "set a deadline with the header request-timeout-ms"),
    ("stop_regex", || vec![json!(""), json!([])], "use stop"),
    ("no_stop_trim", off, "the text ends before the stop string"),
    ("bad_words", || vec![json!([])], "use logit_bias"),
    ("allowed_token_ids", none, "use logit_bias"),
    ("logits_processors", || vec![json!([])], "use logit_bias"),
    ("skip_special_tokens", on, "special tokens have no text here; their ids come over gRPC"),
    ("spaces_between_special_tokens", on, "special tokens have no text here; their ids come over gRPC"),
    ("include_stop_str_in_output", off, "the text ends before the stop string"),
    ("truncate_prompt_tokens", none, "cut the prompt yourself; /tokenize counts its tokens"),
    ("prompt_logprobs", none, "ask /v1/completions with echo and logprobs"),
    ("return_token_ids", off, "ids come over gRPC"),
    ("return_tokens_as_token_ids", off, "ids come over gRPC"),
    ("priority", zero, "requests run in order of arrival"),
    ("stream_options.continuous_usage_stats", off, "the account comes at the end, with include_usage"),
];

const CHAT: &[Field] = &[
    ("functions", || vec![json!([])], "use tools"),
    ("function_call", || vec![json!("none"), json!("auto")], "use tool_choice"),
    ("modalities", || vec![json!(["text"])], "the model writes text only"),
    ("audio", none, "the model writes text only"),
    ("prediction", none, "drafts come from the draft service"),
    ("web_search_options", none, "there is no search here"),
    ("store", off, "nothing is stored"),
    ("reasoning_effort", none, "the model has no such setting"),
    ("reasoning_format", || vec![json!("auto"), json!("deepseek")], "thoughts come apart, in reasoning_content"),
    ("include_reasoning", on, "thoughts come apart, in reasoning_content: leave them out yourself"),
    ("separate_reasoning", on, "thoughts come apart, in reasoning_content"),
    ("stream_reasoning", on, "thoughts are streamed like any other text"),
    ("verbosity", none, "the model has no such setting"),
    ("echo", off, "ask /v1/completions"),
    ("add_generation_prompt", on, "render the prompt yourself and ask /v1/completions"),
];

/// Of a conversation, whatever becomes of it.
const MESSAGES: &[Field] = &[
    ("add_special_tokens", off, "the template writes those that it wants"),
    ("continue_final_message", off, "render the prompt yourself and ask /v1/completions"),
    ("chat_template", none, "the model's own template is used; or render the prompt yourself and ask /v1/completions"),
    ("chat_template_kwargs", || vec![json!({})], "the template is used as it is"),
    ("documents", || vec![json!([])], "put them into a message"),
];

const COMPLETIONS: &[Field] = &[
    ("response_format", || vec![json!({"type": "text"})], "ask /v1/chat/completions"),
    ("tools", || vec![json!([])], "ask /v1/chat/completions"),
    ("tool_choice", || vec![json!("none")], "ask /v1/chat/completions"),
    ("top_logprobs", none, "use logprobs"),
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

fn zero() -> Vec<Value> {
    vec![json!(0), json!(0.0)]
}

fn one() -> Vec<Value> {
    vec![json!(1), json!(1.0)]
}

/// Refuses a chat request for the first field that cannot be honoured.
pub(super) fn refuse_in_chat(fields: &Fields) -> Result<(), Failure> {
    refuse(fields, &[COMMON, CHAT, MESSAGES])?;
    refuse_best_of(fields)
}

/// Refuses a conversation of which only the tokens are asked for, for the first field that cannot be honoured.
pub(super) fn refuse_in_conversation(fields: &Fields) -> Result<(), Failure> {
    refuse(fields, &[MESSAGES])
}

/// Refuses a completion request for the first field that cannot be honoured.
pub(super) fn refuse_in_completions(fields: &Fields) -> Result<(), Failure> {
    refuse(fields, &[COMMON, COMPLETIONS])?;
    refuse_best_of(fields)
}

fn refuse(fields: &Fields, tables: &[&[Field]]) -> Result<(), Failure> {
    let changes_answer = |(name, neutral, _): &&Field| {
        value(fields, name).is_some_and(|value| !value.is_null() && !neutral().contains(value))
    };
    match tables.iter().copied().flatten().find(changes_answer) {
        Some((name, _, instead)) => Err(failure(name, instead)),
        None => Ok(()),
    }
}

fn refuse_best_of(fields: &Fields) -> Result<(), Failure> {
    let n = fields.get("n").filter(|n| !n.is_null()).cloned().unwrap_or(json!(1));
    match fields.get("best_of") {
        // It asks for no more than what is returned.
        Some(best_of) if *best_of != n && !best_of.is_null() => {
            Err(failure("best_of", "all continuations are returned: use n and choose yourself"))
        }
        _ => Ok(()),
    }
}

fn value<'a>(fields: &'a Fields, path: &str) -> Option<&'a Value> {
    let mut names = path.split('.');
    let first = fields.get(names.next()?)?;
    names.try_fold(first, |value, name| value.get(name))
}

fn failure(name: &str, instead: &str) -> Failure {
    Failure::unsupported(name, format!("{name} is not supported: {instead}; leave it out"))
}
