//! JSON that is written piece by piece, as it is sent.
//!
//! A scored prompt stands before each of its continuations, with twenty alternatives beside each token: a hundred times
//! megabytes, if all of the answer were in memory at a time. What has been sent is gone before the next piece is written.

use std::{fmt, iter};

use axum::body::Body;
use futures::stream;
use serde::Serialize;

type Piece = serde_json::Result<String>;

/// A JSON object.
pub(super) struct Pieces(Box<dyn Iterator<Item = Piece> + Send>);

impl Pieces {
    /// The fields of `first`, then a list under the name `list`, then the fields of `last`.
    pub(super) fn with_list(
        first: &impl Serialize,
        list: &str,
        items: impl Iterator<Item = Piece> + Send + 'static,
        last: &impl Serialize,
    ) -> serde_json::Result<Self> {
        let begin = format!("{}{}:[", open(first)?, serde_json::to_string(list)?);
        let end = serde_json::to_string(last)?.replacen('{', "],", 1);
        let items = items.enumerate().flat_map(|(index, item)| {
            let comma = (index > 0).then(|| Ok(",".to_owned()));
            comma.into_iter().chain(iter::once(item))
        });
        Ok(Self(Box::new(iter::once(Ok(begin)).chain(items).chain(iter::once(Ok(end))))))
    }

    /// The fields of `first`, then `self` under the name `name`.
    pub(super) fn within(self, first: &impl Serialize, name: &str) -> serde_json::Result<Self> {
        let begin = format!("{}{}:", open(first)?, serde_json::to_string(name)?);
        Ok(Self(Box::new(iter::once(Ok(begin)).chain(self.0).chain(iter::once(Ok("}".to_owned()))))))
    }

    /// A piece is written when the one before is on its way.
    pub(super) fn into_body(self) -> Body {
        Body::from_stream(stream::iter(self.0))
    }
}

impl fmt::Debug for Pieces {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Pieces").finish_non_exhaustive()
    }
}

/// An object that has fields, up to where the next one begins.
fn open(object: &impl Serialize) -> serde_json::Result<String> {
    let mut text = serde_json::to_string(object)?;
    text.pop();
    text.push(',');
    Ok(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    fn read(pieces: Pieces) -> Value {
        let text: String = pieces.0.map(Result::unwrap).collect();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    #[test]
    fn together_they_are_an_object() {
        for n in 0..3 {
            let numbers: Vec<usize> = (0..n).collect();
            let items = (0..n).map(|number| serde_json::to_string(&number));
            let (first, last) = (json!({"a": "}\"", "b": [1]}), json!({"u": {"n": null}}));
            let whole = Pieces::with_list(&first, "l", items.clone(), &last).unwrap();
            let expected = json!({"a": "}\"", "b": [1], "l": numbers, "u": {"n": null}});
            assert_eq!(read(whole), expected);
            let inside = Pieces::with_list(&first, "l", items, &last).unwrap().within(&json!({"error": {}}), "partial");
            assert_eq!(read(inside.unwrap()), json!({"error": {}, "partial": expected}));
        }
    }
}
