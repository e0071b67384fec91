//! From the bytes of a body to typed fields, with errors that name the field.
//!
//! Fields that nobody knows are ignored: clients send what other servers understand. Fields that are known to change
//! the answer and cannot be honoured are refused, see [`unsupported`](super::unsupported).

use axum::{
    body::{self, Body},
    extract::{FromRequest, Request},
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::failure::Failure;

/// A prompt of a hundred thousand ids takes 700 KB, and several prompts may share a request.
const MAX_BODY_BYTES: usize = 4 << 20;

/// The object that a client sent.
#[derive(Debug)]
pub(super) struct Fields(Map<String, Value>);

impl Fields {
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// The fields that `T` knows.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_path_to_error::deserialize(&self.0).map_err(|error| {
            let path = error.path().to_string();
            let param = if path == "." { "" } else { &path };
            Failure::invalid(param, format!("{path}: {}", error.inner()))
        })
    }
}

/// Whatever the content type says: many a script forgets to set it.
impl<S: Sync> FromRequest<S> for Fields {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &S) -> Result<Self, Failure> {
        read(request.into_body()).await
    }
}

async fn read(body: Body) -> Result<Fields, Failure> {
    let bytes = body::to_bytes(body, MAX_BODY_BYTES).await.map_err(|_| Failure::too_large(MAX_BODY_BYTES))?;
    match serde_json::from_slice(&bytes) {
        Ok(Value::Object(fields)) => Ok(Fields(fields)),
        Ok(_) => Err(Failure::invalid("", "the body must be a JSON object")),
        Err(error) => Err(Failure::invalid("", format!("the body is no JSON: {error}"))),
    }
}
