#![allow(clippy::unwrap_used)]
use prost::Message;
use specfleet_grammar::{Form, MAX_FORM_BYTES};
use specfleet_protocol::{convert::DistributionForm, limits::MessageLimits, v1::generate_request::Prompt};

use crate::error::Overload;

use super::{
    passed_on::{MAX_END_TOKENS, MAX_LOGIT_BIASES, MAX_REQUEST_ID_BYTES, VERSION_ID_DIGITS},
    *,
};

const END: TokenId = 3;

/// Ids 0 to 2 spell a, b and c; 3 ends.
fn rules() -> Rules {
    let bytes = ["a", "b", "c", "<end>"].map(|text| text.as_bytes().to_vec()).to_vec();
    let tokenizer = Tokenizer::from_bytes(bytes, &[END], &[END]);
    Rules {
        grammars: tokenizer.grammars(&[END]),
        tokenizer,
        chat_template: None,
        generation: GenerationDefaults { top_p: Some(0.9), ..GenerationDefaults::default() },
        n_vocab: 4,
        context_length: 8,
        draft_length: 3,
        max_draft_length: 5,
        draft_wait: Duration::from_millis(30),
        max_choices: 5,
    }
}

fn text(prompt: &str) -> v1::GenerateRequest {
    v1::GenerateRequest { prompt: Some(Prompt::Text(prompt.to_owned())), ..Default::default() }
}

fn ids(ids: &[TokenId]) -> v1::GenerateRequest {
    let ids = v1::TokenIds { ids: ids.to_vec() };
    v1::GenerateRequest { prompt: Some(Prompt::TokenIds(ids)), ..Default::default() }
}

fn check(wire: v1::GenerateRequest) -> Result<Request, Error> {
    rules().check(wire, Instant::now(), None)
}

/// The fields that the request is refused for.
fn bad_fields(wire: v1::GenerateRequest) -> Vec<String> {
    match check(wire) {
        Err(Error::Invalid(violations)) => violations.into_iter().map(|violation| violation.field).collect(),
        other => panic!("expected violations, got {other:?}"),
    }
}

#[test]
fn what_is_left_open_is_filled_in() {
    let request = check(text("abc")).unwrap();
    assert_eq!(request.prompt, [0, 1, 2]);
    assert_eq!(request.max_tokens, 5, "up to the end of the context");
    assert_eq!(request.end_tokens, [END]);
    assert_eq!(request.rule, Rule::Standard);
    assert!(!request.id.is_empty());
    let expected = Drafting { draft_length: 3, wait: Duration::from_millis(30), pin: None, require_pin: false };
    assert_eq!(request.drafting, expected);
    let sampling = request.transforms.params();
    assert_eq!((sampling.temperature, sampling.top_p), (1.0, 0.9), "the rest from the generation config");
    assert_eq!(sampling.end_tokens, [END]);
}

/// One such row would fail the whole pass, and the requests of others with it.
#[test]
fn a_text_with_a_token_that_only_the_tokenizer_knows_is_refused() {
    let bytes = ["<end>", "a", "b", "c"].map(|text| text.as_bytes().to_vec()).to_vec();
    let rules = Rules { tokenizer: Tokenizer::from_bytes(bytes, &[0], &[0]), n_vocab: 3, ..rules() };
    assert_eq!(rules.check(text("ab"), Instant::now(), None).unwrap().prompt, [1, 2]);
    let Err(Error::Invalid(violations)) = rules.check(text("abc"), Instant::now(), None) else { panic!("accepted") };
    assert_eq!(violations[0].field, "text");
    assert!(violations[0].description.contains("token 3, but the model knows ids below 3"), "{violations:?}");
}

#[test]
fn a_seed_makes_the_text_independent_of_the_draft_unless_asked_otherwise() {
    let seeded = v1::GenerateRequest { seed: Some(7), ..text("a") };
    assert_eq!(check(seeded.clone()).unwrap().rule, Rule::DraftInvariant);
    let rule = v1::AcceptanceRule::Standard.into();
    let speculation = Some(v1::SpeculationOptions { rule, ..Default::default() });
    assert_eq!(check(v1::GenerateRequest { speculation, ..seeded }).unwrap().rule, Rule::Standard);
}

#[test]
fn continuations_are_one_unless_asked_otherwise_and_no_more_than_there_is_room_for() {
    let n_choices = |n| check(v1::GenerateRequest { n, ..text("a") }).unwrap().n_choices;
    assert_eq!([0, 1, 5].map(n_choices), [1, 1, 5]);
    assert_eq!(bad_fields(v1::GenerateRequest { n: 6, ..text("a") }), ["n"]);
    assert_eq!(bad_fields(v1::GenerateRequest { n: u32::MAX, ..text("a") }), ["n"]);
}

#[test]
fn every_continuation_has_a_seed_of_its_own_and_the_first_one_the_request_s() {
    let seeded = |n| check(v1::GenerateRequest { n, seed: Some(7), ..text("a") }).unwrap();
    let seeds: Vec<RequestSeed> = (0..5).map(|index| seeded(5).seed_of(index)).collect();
    assert_eq!(seeds[0], seeded(1).seed_of(0));
    for (index, seed) in seeds.iter().enumerate() {
        assert!(!seeds[..index].contains(seed), "{index}");
    }
}

#[test]
fn every_mistake_is_in_one_answer() {
    let sampling = v1::SamplingParams { temperature: Some(f32::NAN), top_p: Some(0.0), ..Default::default() };
    let speculation = v1::SpeculationOptions { max_draft_length: Some(1000), rule: 99, ..Default::default() };
    let fields = bad_fields(v1::GenerateRequest {
        sampling: Some(sampling),
        max_tokens: Some(0),
        stop_token_ids: vec![4],
        speculation: Some(speculation),
        ..ids(&[0, 4])
    });
    let expected = [
        "token_ids.ids",
        "stop_token_ids",
        "sampling.temperature",
        "sampling.top_p",
        "max_tokens",
        "speculation.rule",
        "speculation.max_draft_length",
    ];
    assert_eq!(fields, expected);
}

#[test]
fn a_violation_names_value_and_range() {
    let speculation = v1::SpeculationOptions { max_draft_length: Some(1000), ..Default::default() };
    let error = check(v1::GenerateRequest { speculation: Some(speculation), ..text("a") }).unwrap_err();
    let message = error.to_string();
    assert!(message.contains("speculation.max_draft_length is 1000, allowed: from 0 to 5"), "{message}");
}

#[test]
fn a_negative_temperature_is_refused() {
    let sampling = v1::SamplingParams { temperature: Some(-0.5), ..Default::default() };
    let wire = v1::GenerateRequest { sampling: Some(sampling), ..text("a") };
    assert_eq!(bad_fields(wire), ["sampling.temperature"]);
}

#[test]
fn a_prompt_without_tokens_is_refused_in_every_form() {
    assert_eq!(bad_fields(v1::GenerateRequest::default()), ["prompt"]);
    assert_eq!(bad_fields(text("")), ["text"]);
    assert_eq!(bad_fields(ids(&[])), ["token_ids.ids"]);
    let chat = Prompt::Chat(v1::ChatPrompt::default());
    assert_eq!(bad_fields(v1::GenerateRequest { prompt: Some(chat), ..Default::default() }), ["chat.messages"]);
}

#[test]
fn tools_and_arguments_that_are_no_json_objects_are_refused_by_name() {
    let bad = |chat: v1::ChatPrompt| {
        bad_fields(v1::GenerateRequest { prompt: Some(Prompt::Chat(chat)), ..Default::default() })
    };
    let tools = |tools: &[&str]| v1::ChatPrompt {
        tools: tools.iter().map(|&tool| tool.to_owned()).collect(),
        ..v1::ChatPrompt::default()
    };
    assert_eq!(bad(tools(&["{}", "[]"])), ["chat.tools[1]"]);
    assert_eq!(bad(tools(&["{"])), ["chat.tools[0]"]);
    assert_eq!(bad(tools(&["{}"; 129])), ["chat.tools"]);
    assert_eq!(bad(tools(&[&" ".repeat(300_000)])), ["chat.tools"]);
    let call = |arguments: &str| v1::ToolCall { arguments: arguments.to_owned(), ..v1::ToolCall::default() };
    let calling = v1::ChatMessage { tool_calls: vec![call("{}"), call("7")], ..v1::ChatMessage::default() };
    let messages = vec![v1::ChatMessage::default(), calling];
    assert_eq!(bad(v1::ChatPrompt { messages, tools: Vec::new() }), ["chat.messages[1].tool_calls[1].arguments"]);
}

#[test]
fn ids_beyond_the_vocabulary_are_refused_whatever_their_size() {
    let spelled = |ids: Vec<TokenId>| v1::GenerateRequest { spelled_token_ids: ids, ..text("a") };
    assert_eq!(bad_fields(spelled(vec![0, 4])), ["spelled_token_ids"]);
    assert_eq!(bad_fields(spelled(vec![0; 65])), ["spelled_token_ids"]);
    for id in [4, u32::MAX, 1 << 31] {
        assert_eq!(bad_fields(ids(&[0, id])), ["token_ids.ids"]);
    }
}

#[test]
fn a_prompt_must_leave_room_for_a_token() {
    assert_eq!(check(ids(&[0; 7])).unwrap().max_tokens, 1);
    for n_tokens in [8, 9, 1000] {
        let error = check(ids(&vec![0; n_tokens])).unwrap_err();
        assert_eq!(error, Error::ContextLength { n_tokens, context_length: 8 });
    }
}

#[test]
fn more_tokens_than_the_context_has_room_for_are_cut_to_it() {
    assert_eq!(check(v1::GenerateRequest { max_tokens: Some(1000), ..ids(&[0; 6]) }).unwrap().max_tokens, 2);
}

#[test]
fn ignoring_the_end_keeps_the_stop_tokens() {
    let request = check(v1::GenerateRequest { ignore_eos: true, stop_token_ids: vec![1], ..text("a") }).unwrap();
    assert_eq!(request.end_tokens, [1]);
    assert_eq!(request.transforms.params().end_tokens, [1, END], "min_tokens bans both");
}

#[test]
fn stop_strings_say_something_and_not_too_much() {
    let stopping = |stop: Vec<String>| v1::GenerateRequest { stop, ..text("a") };
    assert_eq!(*check(stopping(vec!["a".to_owned(), "\n\n".to_owned()])).unwrap().stops, ["a", "\n\n"]);
    for bad in [vec![String::new()], vec!["a".repeat(1025)], vec!["a".to_owned(); 65]] {
        assert_eq!(bad_fields(stopping(bad)), ["stop"]);
    }
}

#[test]
fn a_required_pin_must_name_a_version() {
    let speculation = v1::SpeculationOptions { require_pin: true, ..Default::default() };
    let wire = v1::GenerateRequest { speculation: Some(speculation), ..text("a") };
    assert_eq!(bad_fields(wire), ["speculation.require_pin"]);
}

#[test]
fn a_pin_that_is_no_version_id_is_refused_and_named() {
    let refused = |pin: &str| {
        let speculation = v1::SpeculationOptions { pin: pin.to_owned(), ..Default::default() };
        check(v1::GenerateRequest { speculation: Some(speculation), ..text("a") }).unwrap_err().to_string()
    };
    assert!(refused("nobody").contains("speculation.pin is \"nobody\""), "{}", refused("nobody"));
    assert!(refused(&"A".repeat(64)).contains("lower-case"));
    assert!(refused(&"f".repeat(100_000)).len() < 500);
}

/// Whatever is wrong, and however often, the answer has to fit the trailers that carry it.
#[test]
fn a_refusal_stays_small() {
    let bias = |token_id| v1::LogitBias { token_id, bias: f32::NAN };
    let sampling = v1::SamplingParams {
        logit_bias: (0..100_000).map(bias).collect(),
        end_token_ids: (0..100_000).collect(),
        ..Default::default()
    };
    let speculation = v1::SpeculationOptions { pin: "\u{1}".repeat(100_000), ..Default::default() };
    let wire = v1::GenerateRequest {
        request_id: "x".repeat(100_000),
        sampling: Some(sampling),
        stop_token_ids: vec![9; 100_000],
        speculation: Some(speculation),
        ..ids(&[9; 100_000])
    };
    let fields = bad_fields(wire.clone());
    let expected = [
        "request_id",
        "stop_token_ids",
        "sampling.end_token_ids",
        "sampling.logit_bias",
        "speculation.pin",
        "token_ids.ids",
        "stop_token_ids",
        "sampling.logit_bias",
        "sampling.logit_bias",
        "sampling.end_token_ids",
    ];
    assert_eq!(fields, expected);
    let status = tonic::Status::from(check(wire).unwrap_err());
    let n_bytes = status.message().len() + status.details().len();
    assert!(n_bytes < 4 << 10, "{n_bytes} bytes");
}

/// What the rules let through reaches a draft in one message.
#[test]
fn the_longest_lists_fit_the_message_to_a_draft() {
    let (n_vocab, n_prompt) = (1 << 32, 100);
    let rules = Rules { n_vocab, context_length: n_prompt + 1, ..rules() };
    let greatest = |n: usize| (0..n).map(move |index| (n_vocab - 1 - index) as TokenId);
    let sampling = v1::SamplingParams {
        logit_bias: greatest(MAX_LOGIT_BIASES).map(|token_id| v1::LogitBias { token_id, bias: -1.5 }).collect(),
        end_token_ids: greatest(MAX_END_TOKENS).collect(),
        ..Default::default()
    };
    let wire = v1::GenerateRequest {
        request_id: "x".repeat(MAX_REQUEST_ID_BYTES),
        sampling: Some(sampling),
        stop_token_ids: greatest(2 * MAX_END_TOKENS).skip(MAX_END_TOKENS).collect(),
        ..ids(&vec![(n_vocab - 1) as TokenId; n_prompt])
    };
    let request = rules.check(wire, Instant::now(), None).unwrap();
    let settings = v1::DraftSettings {
        sampling: Some(request.transforms.params().into()),
        draft_seed: vec![u8::MAX; 32],
        vocabulary_size: u32::MAX,
        grammar: Some((&Form::Regex("x".repeat(MAX_FORM_BYTES))).into()),
        ..Default::default()
    };
    let open = v1::Open {
        request_id: request.id,
        pin: "f".repeat(VERSION_ID_DIGITS),
        settings: Some(settings),
        committed: request.prompt,
        prompt_length: u32::MAX,
    };
    let limits = MessageLimits::new(16, n_prompt, 1, DistributionForm::Sparse).unwrap();
    let n_bytes = open.encoded_len();
    assert!(n_bytes <= limits.request_bytes, "{n_bytes} of {}", limits.request_bytes);
}

fn of_form(form: Form) -> v1::GenerateRequest {
    v1::GenerateRequest { grammar: Some((&form).into()), ..text("a") }
}

#[test]
fn a_form_is_compiled_and_kept_for_drafts() {
    let grammar = check(of_form(Form::Regex("ab*".into()))).unwrap().grammar.unwrap();
    assert_eq!(grammar.form, Form::Regex("ab*".into()));
    let mask = grammar.start.clone().mask(&[]).unwrap();
    assert_eq!((0..4).map(|id| mask.allows(id)).collect::<Vec<_>>(), [true, false, false, false]);
}

#[test]
fn what_cannot_be_compiled_is_refused_under_its_own_field() {
    for (form, field) in [
        (Form::JsonSchema("{".into()), "grammar.json_schema"),
        (Form::JsonSchema("{}".into()), "grammar.json_schema"), // Tokens of a, b and c begin no JSON.
        (Form::Regex("[a".into()), "grammar.regex"),
        (Form::Lark("start: b".into()), "grammar.lark"),
        (Form::Regex("a".repeat(MAX_FORM_BYTES + 1)), "grammar"),
    ] {
        assert_eq!(bad_fields(of_form(form)), [field]);
    }
    let without_form = v1::GenerateRequest { grammar: Some(v1::OutputGrammar::default()), ..text("a") };
    assert_eq!(bad_fields(without_form), ["grammar"]);
    let endless = Rules { grammars: Err(specfleet_grammar::Error::NoEndToken), ..rules() };
    let refused = endless.check(of_form(Form::Regex("a".into())), Instant::now(), None).unwrap_err();
    assert!(refused.to_string().contains("no end token"), "{refused}");
}

#[test]
fn forms_have_places_and_a_continuation_takes_one() {
    let rules = rules();
    let rules = Rules { grammars: rules.grammars.map(|grammars| grammars.with_places(3)), ..rules };
    let ask = |n| rules.check(v1::GenerateRequest { n, ..of_form(Form::Regex("a".into())) }, Instant::now(), None);
    let running = ask(2).unwrap();
    let refused = ask(2).unwrap_err();
    let cause = Overload::Grammars { n_grammars: 3 };
    assert!(matches!(&refused, Error::Overloaded { cause: told, .. } if *told == cause), "{refused}");
    assert!(ask(1).is_ok() && rules.check(text("a"), Instant::now(), None).is_ok());
    drop(running);
    assert!(ask(3).is_ok());
    let never = ask(4).unwrap_err();
    assert!(matches!(&never, Error::Invalid(violations) if violations[0].field == "n"), "{never}");
}

#[test]
fn what_forbids_the_end_of_a_form_is_refused_together_with_it() {
    let form = || of_form(Form::Regex("a".into()));
    assert_eq!(bad_fields(v1::GenerateRequest { ignore_eos: true, ..form() }), ["ignore_eos"]);
    let sampling = Some(v1::SamplingParams { min_tokens: 1, ..Default::default() });
    assert_eq!(bad_fields(v1::GenerateRequest { sampling, ..form() }), ["sampling.min_tokens"]);
    // A stop string may end it early, and a stop token where the form has it as text.
    assert!(check(v1::GenerateRequest { stop: vec!["b".into()], stop_token_ids: vec![1], ..form() }).is_ok());
}
