//! From the bytes of a body to typed fields, with errors that name the field.
//!
//! Fields that nobody knows are ignored: clients send what other servers understand. Fields that are known to change
//! the answer and cannot be honoured are refused, see [`unsupported`](super::unsupported).
//!
//! A large body takes long to read, and much memory while it is read: a list of ids thirty times its size. So there is
//! room for a few at a time ([`crate::texts`]), it is taken before the first byte is read, and all reading is done where
//! it holds up no stream. Small bodies are read on the spot. The call's deadline counts all the while.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{self, Body, Bytes},
    extract::{FromRequest, FromRequestParts, Request},
    http::header::CONTENT_LENGTH,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::time::timeout;

use super::{Http, call::Wishes, failure::Failure};
use crate::{
    api::admit::in_time,
    request::Deadline,
    service::Shared,
    texts::{Room, Texts},
};

/// A prompt of a hundred thousand ids takes 700 KB, and several prompts may share a request.
const MAX_BODY_BYTES: usize = 4 << 20;
/// Read in about half a millisecond.
const LARGE_BODY_BYTES: usize = 64 << 10;
/// How long a client may take to send its body. Whoever is slower would keep others from their room.
const LONGEST_ARRIVAL: Duration = Duration::from_secs(30);

/// The object that a client sent.
#[derive(Debug)]
pub(super) struct Fields {
    map: Map<String, Value>,
    /// If it is large.
    room: Option<Room>,
    deadline: Option<Deadline>,
}

impl Fields {
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.map.get(name)
    }

    /// Takes the value of a field out, which may be too large for a copy.
    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.map.get_mut(name).map(Value::take)
    }

    /// The fields that `T` knows.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_path_to_error::deserialize(&self.map).map_err(|error| {
            let path = error.path().to_string();
            let param = if path == "." { "" } else { &path };
            Failure::invalid(param, format!("{path}: {}", error.inner()))
        })
    }

    /// Makes of the fields whatever they ask for, and drops them. Where they are large, others are not held up.
    pub(super) async fn make<T: Send + 'static>(
        self,
        shared: &Arc<Shared>,
        make: impl FnOnce(&Shared, Self) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        if self.room.is_none() {
            return make(shared, self);
        }
        let (for_thread, deadline) = (shared.clone(), self.deadline);
        in_time(deadline, async { shared.texts.read(move || make(&for_thread, self)).await? }).await
    }

    /// The same for what takes long however small the fields are.
    pub(super) async fn make_apart<T: Send + 'static>(
        mut self,
        shared: &Arc<Shared>,
        make: impl FnOnce(&Shared, Self) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        if self.room.is_none() {
            self.room = Some(in_time(self.deadline, shared.texts.room()).await?);
        }
        self.make(shared, make).await
    }
}

/// Whatever the content type says: many a script forgets to set it.
impl FromRequest<Http> for Fields {
    type Rejection = Failure;

    async fn from_request(request: Request, http: &Http) -> Result<Self, Failure> {
        let (mut parts, body) = request.into_parts();
        let deadline = Wishes::from_request_parts(&mut parts, http).await?.deadline;
        let length = parts.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        let (map, room) = in_time(deadline, receive(body, length, &http.shared()?.texts)).await?;
        Ok(Self { map, room, deadline })
    }
}

async fn receive(
    body: Body,
    length: Option<usize>,
    texts: &Texts,
) -> Result<(Map<String, Value>, Option<Room>), Failure> {
    if length.is_some_and(|length| length > MAX_BODY_BYTES) {
        return Err(Failure::too_large(MAX_BODY_BYTES));
    }
    if length.is_some_and(|length| length <= LARGE_BODY_BYTES) {
        return Ok((parse(&received(body).await?)?, None));
    }
    // Its length may be known at its end only.
    let room = texts.room().await?;
    let bytes = received(body).await?;
    texts.read(move || Ok((parse(&bytes)?, Some(room)))).await?
}

async fn received(body: Body) -> Result<Bytes, Failure> {
    match timeout(LONGEST_ARRIVAL, body::to_bytes(body, MAX_BODY_BYTES)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(_)) => Err(Failure::too_large(MAX_BODY_BYTES)),
        Err(_) => Err(Failure::slow_body(LONGEST_ARRIVAL)),
    }
}

fn parse(bytes: &[u8]) -> Result<Map<String, Value>, Failure> {
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(Failure::invalid("", "the body must be a JSON object")),
        Err(error) => Err(Failure::invalid("", format!("the body is no JSON: {error}"))),
    }
}
