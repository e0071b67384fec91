//! An answer that breaks off: what was verified until then belongs to the client, who has waited and paid for it.
//!
//! A stream has shown it already. An answer in one piece has not, so its error brings it along, beside the object `error`
//! that every client reads: `partial` is the answer as far as it got, in the form that it would have had. Continuations
//! that did not end have no `finish_reason`, so that nobody can take them for whole.

use serde_json::Value;

use super::{
    answer::{Envelope, Head, Spelling},
    content::Content,
    usage::Usage,
};

/// What there is of an answer.
pub(super) struct Partial<'a, S: Spelling> {
    pub(super) head: &'a Head,
    pub(super) spelling: &'a S,
    /// Those that ended.
    pub(super) choices: &'a mut [Option<S::Choice>],
    /// Of those that did not.
    pub(super) contents: &'a mut [Content],
    pub(super) usage: &'a Usage,
}

impl<S: Spelling> Partial<'_, S> {
    /// The answer so far; `None` if no token was verified.
    pub(super) fn verified(self) -> Option<Value> {
        if !self.usage.has_tokens() {
            return None;
        }
        let choices =
            self.choices.iter_mut().zip(self.contents).enumerate().map(|(index, (ended, content))| match ended {
                Some(choice) => serde_json::to_value(choice),
                None => unfinished(&self.spelling.whole(index, std::mem::take(content), "")),
            });
        let choices: Vec<Value> = choices.collect::<Result<_, _>>().ok()?;
        serde_json::to_value(Envelope::new(self.head, S::OBJECT, choices, Some(self.usage))).ok()
    }
}

fn unfinished(choice: &impl serde::Serialize) -> serde_json::Result<Value> {
    let mut choice = serde_json::to_value(choice)?;
    choice["finish_reason"] = Value::Null;
    Ok(choice)
}
