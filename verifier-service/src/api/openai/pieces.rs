//! JSON that is written piece by piece, as it is sent.
//!
//! A scored prompt stands before each of its continuations, with twenty alternatives beside each token: a hundred times
//! megabytes, if all of the answer were in memory at a time. What has been sent is gone before the next piece is written.
//! Small pieces are sent together, and an answer that is small altogether is sent as a whole, with its length.

use std::{fmt, iter, sync::Arc};

use axum::body::{Body, Bytes};
use futures::stream;
use serde::Serialize;

use super::slices::{LONGEST_SLICE, watched};
use crate::engine::Permit;

type Piece = serde_json::Result<String>;

/// A JSON object.
pub(super) struct Pieces {
    pieces: Box<dyn Iterator<Item = Piece> + Send>,
    places: Vec<Arc<Permit>>,
}

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
        let pieces = Box::new(iter::once(Ok(begin)).chain(items).chain(iter::once(Ok(end))));
        Ok(Self { pieces, places: Vec::new() })
    }

    /// The fields of `first`, then `self` under the name `name`.
    pub(super) fn within(self, first: &impl Serialize, name: &str) -> serde_json::Result<Self> {
        let begin = format!("{}{}:", open(first)?, serde_json::to_string(name)?);
        let pieces = Box::new(iter::once(Ok(begin)).chain(self.pieces).chain(iter::once(Ok("}".to_owned()))));
        Ok(Self { pieces, ..self })
    }

    /// The same, which keeps these places until it is written.
    pub(super) fn in_places(self, places: Vec<Arc<Permit>>) -> Self {
        Self { places, ..self }
    }

    /// A piece is written when those before are on their way. Must be called inside a tokio runtime.
    pub(super) fn into_body(self) -> Body {
        let mut parts = joined(self.pieces);
        match parts.next() {
            // Only the last part is that short.
            Some(Ok(all)) if all.len() < LONGEST_SLICE => Body::from(all),
            first => {
                let parts = Body::from_stream(stream::iter(first.into_iter().chain(parts)));
                // Nothing comes any more.
                watched(parts, self.places, || true, None)
            }
        }
    }
}

/// The pieces in parts of a slice at least, but for the last.
fn joined(mut pieces: impl Iterator<Item = Piece>) -> impl Iterator<Item = serde_json::Result<Bytes>> {
    iter::from_fn(move || {
        let mut part = String::new();
        while part.len() < LONGEST_SLICE {
            match pieces.next() {
                Some(Ok(piece)) => part += &piece,
                Some(Err(error)) => return Some(Err(error)),
                None => break,
            }
        }
        (!part.is_empty()).then(|| Ok(part.into()))
    })
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
        let text: String = pieces.pieces.map(Result::unwrap).collect();
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
