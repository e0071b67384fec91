//! Forms of output in the requests to a service.
//!
//! Compiling a grammar takes far more memory than reading a message that has none. So whoever takes grammars is attacked
//! twice: without them, where a length field that is believed stands out, and with them. There the input is the form, and the
//! request around it is a good one: a mistake in the wire's lengths would hide most of those in the form.

use specfleet_grammar::{Form, MOST_BYTES};

use super::{grammar, scripted};
use crate::Allowance;

/// A form of each kind, in this vocabulary.
pub(super) fn seeds() -> [Form; 3] {
    let schema = r#"{"type":"object","properties":{"a":{"type":"integer","minimum":1},"b":{"enum":["c",true,[1]]}},
        "required":["a"],"additionalProperties":false}"#;
    let lark = r#"start: word ("," word){0,9}
        word: "a" | PAIR+ | %json {"type": "boolean"}
        PAIR: /[b-e]{2}/ & ~/cc/
"#;
    let regex = r"(ab|c[de]+){1,9}(?i:D|12)?";
    [Form::JsonSchema(schema.to_owned()), Form::Regex(regex.to_owned()), Form::Lark(lark.to_owned())]
}

/// Two tokens at a time that begin the seed of a form's kind.
pub(super) fn beginning(form: &Form) -> [[u32; 2]; 4] {
    let texts = match form {
        Form::JsonSchema(_) => [r#"{""#, r#"a""#, ":1", "2}"],
        Form::Regex(_) => ["ab", "cd", "ed", "ab"],
        Form::Lark(_) => ["bc", "de", ",a", ",b"],
    };
    texts.map(scripted::spell)
}

/// One byte that says in which of `n_ways` the form is asked for, then the form as the target for grammars has it.
pub(super) fn inputs(n_ways: u8) -> Vec<Vec<u8>> {
    let in_way = |way: u8| seeds().map(|form| [vec![way], grammar::input(&form)].concat());
    (0..n_ways).flat_map(in_way).collect()
}

/// What compiling a form and `n_outputs` of it may take, beside what a service may take without any.
pub(super) const fn allowance(without: Allowance, n_outputs: usize) -> Allowance {
    let fixed = without.fixed + grammar::FIXED + n_outputs * MOST_BYTES;
    Allowance { fixed, per_byte: without.per_byte + grammar::PER_BYTE }
}
