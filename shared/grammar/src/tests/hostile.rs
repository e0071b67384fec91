//! A form comes from anybody. None may take seconds or gigabytes, neither to compile nor to follow, nor a stack.

use std::{
    fs,
    time::{Duration, Instant},
};

use serde_json::{Map, Value, json};

use super::*;
use crate::{MAX_FORM_BYTES, MOST_BYTES};

/// On a busy machine, in a build for tests. The longest of them takes a tenth, most a thousandth.
const LONGEST: Duration = Duration::from_secs(10);
/// In a build for tests, without what a busy machine adds.
const LONGEST_MASK: Duration = Duration::from_millis(200);

/// Compiles a form, follows it along some way, and says how long that took and what it came to. Whether it is refused does
/// not matter.
fn endure(name: &str, form: &Form) {
    let started = Instant::now();
    // As much stack as a thread of a runtime has.
    let form = form.clone();
    let worker = std::thread::Builder::new().stack_size(2 << 20).spawn(move || {
        let Ok(mut matcher) = compile(&form) else { return (false, Duration::ZERO, 0) };
        let (mut slowest, mut n_bytes) = (Duration::ZERO, 0);
        for step in 0..60 {
            let before = computed();
            let Ok(mask) = matcher.mask(&[]) else { break };
            slowest = slowest.max(computed().saturating_sub(before));
            n_bytes = matcher.n_bytes();
            let allowed: Vec<TokenId> = (0..N_IDS as TokenId).filter(|id| mask.allows(*id)).collect();
            let Some(&token) = allowed.get(step * 7919 % allowed.len().max(1)) else { break };
            matcher.commit(token);
        }
        (true, slowest, n_bytes)
    });
    let (is_accepted, slowest, n_bytes) = worker.unwrap().join().unwrap();
    let took = started.elapsed();
    let verdict = if is_accepted { "accepted" } else { "refused" };
    println!("{name}: {verdict}, {took:?}, slowest mask {slowest:?}, {} kB", n_bytes >> 10);
    assert!(took < LONGEST, "{name} takes {took:?}");
    assert!(slowest < LONGEST_MASK, "{name}: a mask takes {slowest:?}");
    assert!(n_bytes <= MOST_BYTES, "{name}: {n_bytes} bytes");
}

/// What this thread has computed for, some milliseconds late. Where nobody says, masks are not measured.
fn computed() -> Duration {
    let statistics = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = statistics.split(' ').next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or_default())
}

fn nested(open: &str, inner: &str, close: &str, depth: usize) -> String {
    [&open.repeat(depth), inner, &close.repeat(depth)].concat()
}

#[test]
fn too_much_text_or_depth_is_refused_at_once() {
    let long = Form::Regex("a".repeat(MAX_FORM_BYTES + 1));
    assert_eq!(compile(&long).unwrap_err(), Error::TooLong { n_bytes: MAX_FORM_BYTES + 1 });
    for form in [
        Form::Regex(nested("(", "a", ")", 30_000)),
        Form::JsonSchema(nested("{\"items\":", "{}", "}", 5000)),
        Form::Lark(format!("start: {}", nested("(", "\"a\"", ")", 30_000))),
        Form::Lark(format!("start: {}", "[".repeat(60_000))),
    ] {
        assert!(matches!(compile(&form), Err(Error::TooDeep { .. })));
    }
}

/// A chain of definitions, the last of which is `last`; each of the others is made of a reference to the next.
fn chain(n: usize, last: &Value, link: impl Fn(Value) -> Value) -> Value {
    let refer = |index: usize| json!({ "$ref": format!("#/$defs/{index}") });
    let links = (0..n).map(|index| (index.to_string(), link(refer(index + 1))));
    let definitions: Map<String, Value> = links.chain([(n.to_string(), last.clone())]).collect();
    json!({ "$ref": "#/$defs/0", "$defs": definitions })
}

#[test]
fn schemas_that_blow_up_are_bounded() {
    let text = json!({ "type": "string" });
    let names = |n: usize| (0..n).map(|index| format!("p{index}")).collect::<Vec<_>>();
    let properties = |n: usize| -> Value { names(n).into_iter().map(|name| (name, text.clone())).collect() };
    let only = |name: String| json!({ "type": "object", "properties": { name: { "type": "integer" } } });
    let alternatives = |n: usize| -> Value { names(n).into_iter().map(only).collect() };
    let either = |index: usize| json!({ "anyOf": [only(format!("a{index}")), only(format!("b{index}"))] });
    let product: Value = (0..30).map(either).collect();
    let array = |items: Value| json!({ "type": "array", "minItems": 5000, "maxItems": 9999, "items": items });
    let patterns = json!({ "^a.*z$": text, "^b.*y$": { "type": "integer" }, ".*q.*q.*q": {} });
    for (name, schema) in [
        ("arrays within arrays", (0..60).fold(json!({}), |items, _| json!({ "type": "array", "items": items }))),
        ("a thousand properties", json!({ "properties": properties(1000), "additionalProperties": false })),
        ("as many, all required", json!({ "properties": properties(1000), "required": names(1000) })),
        ("five hundred alternatives", json!({ "anyOf": alternatives(500) })),
        ("five hundred exclusive alternatives", json!({ "oneOf": alternatives(500) })),
        (
            "definitions that double, thirty times",
            chain(30, &only("a".into()), |next| json!({ "allOf": [next, next] })),
        ),
        ("a chain of references", chain(1500, &json!({}), |next| next)),
        ("a product of thirty alternatives", json!({ "allOf": product })),
        ("a long string", json!({ "type": "string", "minLength": 100_000, "maxLength": 100_000_000 })),
        ("a long array", json!({ "type": "array", "minItems": 100_000, "maxItems": 100_000_000, "items": text })),
        ("a long array of long arrays", array(array(json!({})))),
        ("a fine multiple", json!({ "type": "number", "multipleOf": 0.000_000_123_456_789 })),
        ("a great multiple", json!({ "type": "integer", "multipleOf": 987_654_321_987_u64 })),
        ("a wide range", json!({ "type": "number", "minimum": f64::MIN, "maximum": f64::MAX })),
        ("a pattern that counts", json!({ "type": "string", "pattern": "^(([a-z]{1,200}){1,200}){1,200}$" })),
        ("a pattern and a length", json!({ "type": "string", "pattern": "(a|b)*a(a|b){30}", "maxLength": 5000 })),
        ("pattern properties", json!({ "type": "object", "patternProperties": patterns, "minProperties": 3 })),
        ("many names", json!({ "enum": names(8000) })),
        ("itself", json!({ "anyOf": [{ "$ref": "#" }, { "type": "array", "items": { "$ref": "#" } }] })),
        ("nothing but itself", json!({ "$ref": "#" })),
    ] {
        endure(name, &Form::JsonSchema(schema.to_string()));
    }
}

#[test]
fn expressions_that_blow_up_are_bounded() {
    let choice = |n: usize, form: fn(usize) -> String| (0..n).map(form).collect::<Vec<_>>().join("|");
    for (name, source) in [
        ("counts within counts", "((((a{1,1000}){1,1000}){1,1000}){1,1000})".into()),
        ("a count of a hundred million", "[ab]{100000000}".into()),
        ("a needle in thirty characters", "(a|b)*a(a|b){30}".into()),
        ("thirty needles", choice(30, |index| format!("(.*{index}.*)"))),
        ("sixty thousand letters", "ab".repeat(30_000)),
        ("six thousand alternatives", choice(6000, |index| index.to_string())),
        ("all of Unicode, counted", r"(\p{L}{1,500}\p{N}{1,500}){1,500}".into()),
    ] {
        endure(name, &Form::Regex(source));
    }
}

#[test]
fn grammars_that_blow_up_are_bounded() {
    // Each rule is made of the next one; their names begin like `name`.
    let chain = |name: &str, n: usize, rule: fn(String) -> String| {
        let rules = (0..n).map(|index| format!("{name}{index}:{}\n", rule(format!("{name}{}", index + 1))));
        format!("start: {name}0\n{}{name}{n}: \"a\"\n", rules.collect::<String>())
    };
    for (name, source) in [
        ("an intersection", "start: T\nT: /(.*a.*){40}/ & /(.*b.*){40}/ & ~/(.*c.*){40}/".into()),
        ("rules that double, sixty times", chain("r", 60, |next| format!("{next} {next} | \"a\""))),
        ("terminals that double, sixty times", chain("T", 60, |next| format!("{next} {next}"))),
        ("a chain of rules with a choice", chain("r", 2500, |next| format!("{next} {next}|\"a\""))),
        ("a chain of rules", chain("r", 5000, |next| next)),
        ("a chain of terminals", chain("T", 5000, |next| next)),
        ("as ambiguous as can be", "start: s\ns: s s s | s s | \"a\" | \"\"".into()),
        ("left and right recursion", "start: s\ns: s \"a\" | \"a\" s | s \"b\" s | \"c\"".into()),
        ("a repetition of a rule", "start: a{1,100000000}\na: \"x\" | \"y\" a".into()),
        ("a circle of terminals", "start: A\nA: B\nB: A".into()),
    ] {
        endure(name, &Form::Lark(source));
    }
}
