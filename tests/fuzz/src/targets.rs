//! One target for each decoder.
//!
//! A decoder that is missing here is one that strangers test.

use tempfile::TempDir;

use crate::Target;

mod chat_template;
mod checkpoint;
mod client;
mod draft_service;
mod draft_session;
mod folder;
mod forms;
mod gguf;
mod grammar;
mod headers;
mod http;
mod identity;
mod messages;
mod proposal;
mod safetensors;
mod scripted;
mod status;
mod tokenizer;
mod verifier_service;

/// All of them.
pub static ALL: [Target; 18] = [
    proposal::TARGET,
    identity::TARGET,
    draft_session::TARGET,
    client::TARGET,
    status::TARGET,
    headers::TARGET,
    draft_service::TARGET,
    draft_service::WITH_GRAMMAR,
    verifier_service::TARGET,
    verifier_service::WITH_GRAMMAR,
    http::TARGET,
    http::WITH_GRAMMAR,
    gguf::TARGET,
    safetensors::TARGET,
    folder::TARGET,
    tokenizer::TARGET,
    chat_template::TARGET,
    grammar::TARGET,
];

/// The target of that name.
pub fn find(name: &str) -> Option<&'static Target> {
    ALL.iter().find(|target| target.name == name)
}

/// A folder for files that are written ten thousand times, in memory where the system has such a place.
fn memory_folder() -> TempDir {
    let in_memory = tempfile::tempdir_in("/dev/shm");
    in_memory.or_else(|_| tempfile::tempdir()).expect("a temporary folder")
}
