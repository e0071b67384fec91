//! `POST /v1/chat/completions`.

use axum::response::Response;
use serde::{Deserialize, Serialize};
use specfleet_protocol::v1::{self, generate_request::Prompt};

use super::{
    Entered,
    answer::Spelling,
    body::Fields,
    call::{Call, Wishes},
    content::Content,
    failure::Failure,
    logprobs::ChatLogprobs,
    sampling::Settings,
    unsupported,
};

/// Roles that templates of text models know. Newer clients call the system's messages the developer's.
const ROLES: [(&str, &str); 4] =
    [("system", "system"), ("developer", "system"), ("user", "user"), ("assistant", "assistant")];

#[derive(Debug, Deserialize)]
struct Conversation {
    messages: Vec<Message>,
}

#[derive(Debug, Deserialize)]
struct Scores {
    logprobs: Option<bool>,
    top_logprobs: Option<u32>,
}

#[derive(Debug, Deserialize)]
struct Message {
    role: String,
    content: Option<MessageContent>,
    tool_calls: Option<Vec<serde::de::IgnoredAny>>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "a message's content is a string or a list of parts with a type")]
enum MessageContent {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Debug, Deserialize)]
struct Part {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
}

/// Answers a chat request.
pub(super) async fn answer(entered: Entered, wishes: Wishes, fields: Fields) -> Result<Response, Failure> {
    let settings: Settings = fields.read()?;
    entered.check_model(settings.model.as_deref())?;
    unsupported::refuse_in_chat(&fields)?;
    let prompt = Prompt::Chat(v1::ChatPrompt { messages: messages(&fields)? });
    let top_logprobs = fields.read::<Scores>()?.n_top()?;
    let request = settings.to_wire(&wishes.request_id, None)?;
    let request = v1::GenerateRequest { prompt: Some(prompt), top_logprobs, ..request };
    Call { entered, wishes, settings, requests: vec![request] }.answer(Chat).await
}

/// The messages of a request, in the form that the template takes.
pub(super) fn messages(fields: &Fields) -> Result<Vec<v1::ChatMessage>, Failure> {
    let Conversation { messages } = fields.read()?;
    (messages.into_iter().enumerate())
        .map(|(index, message)| message.into_wire().map_err(|problem| refused(index, &problem)))
        .collect()
}

impl Scores {
    fn n_top(&self) -> Result<Option<u32>, Failure> {
        match (self.logprobs.unwrap_or(false), self.top_logprobs) {
            (false, Some(1..)) => {
                Err(Failure::invalid("top_logprobs", "top_logprobs is set, but logprobs is not: set it to true"))
            }
            (false, _) => Ok(None),
            (true, n_top) => Ok(Some(n_top.unwrap_or(0))),
        }
    }
}

fn refused(index: usize, problem: &str) -> Failure {
    Failure::invalid(format!("messages[{index}]"), format!("messages[{index}] {problem}"))
}

impl Message {
    fn into_wire(self) -> Result<v1::ChatMessage, String> {
        let Some((_, role)) = ROLES.into_iter().find(|(name, _)| *name == self.role) else {
            return Err(format!("has the role {:?}, allowed: system, developer, user, assistant", self.role));
        };
        if self.tool_calls.is_some_and(|calls| !calls.is_empty()) {
            return Err("has tool calls, which are not supported yet".to_owned());
        }
        let content = match self.content {
            None => return Err("has no content".to_owned()),
            Some(MessageContent::Text(text)) => text,
            Some(MessageContent::Parts(parts)) => {
                parts.into_iter().map(Part::into_text).collect::<Result<Vec<_>, _>>()?.concat()
            }
        };
        Ok(v1::ChatMessage { role: role.to_owned(), content })
    }
}

impl Part {
    fn into_text(self) -> Result<String, String> {
        match (self.kind.as_str(), self.text) {
            ("text", Some(text)) => Ok(text),
            ("text", None) => Err("has a part of type text without a text".to_owned()),
            (kind, _) => Err(format!("has a part of type {kind:?}, allowed: text")),
        }
    }
}

/// How this endpoint spells continuations.
struct Chat;

#[derive(Serialize)]
struct Choice {
    index: usize,
    message: Answer,
    logprobs: Option<ChatLogprobs>,
    finish_reason: &'static str,
}

#[derive(Serialize)]
struct Answer {
    role: &'static str,
    content: String,
    refusal: Option<()>,
}

#[derive(Serialize)]
struct Piece {
    index: usize,
    delta: Delta,
    logprobs: Option<ChatLogprobs>,
    finish_reason: Option<&'static str>,
}

#[derive(Serialize)]
struct Delta {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
}

const ROLE: &str = "assistant";

impl Spelling for Chat {
    const OBJECT: &'static str = "chat.completion";
    const CHUNK: &'static str = "chat.completion.chunk";
    const ID_PREFIX: &'static str = "chatcmpl-";
    type Choice = Choice;
    type Piece = Piece;

    fn whole(&self, index: usize, content: Content, finish_reason: &'static str) -> Choice {
        let message = Answer { role: ROLE, content: content.text, refusal: None };
        Choice { index, message, logprobs: content.tokens.map(ChatLogprobs::new), finish_reason }
    }

    fn opening(&self, index: usize) -> Option<Piece> {
        let delta = Delta { role: Some(ROLE), content: Some(String::new()) };
        Some(Piece { index, delta, logprobs: None, finish_reason: None })
    }

    fn echo(&self, _: usize) -> Option<&str> {
        None
    }

    fn piece(&self, index: usize, content: Content) -> Piece {
        let delta = Delta { role: None, content: Some(content.text) };
        Piece { index, delta, logprobs: content.tokens.map(ChatLogprobs::new), finish_reason: None }
    }

    fn ending(&self, index: usize, reason: &'static str) -> Piece {
        let delta = Delta { role: None, content: None };
        Piece { index, delta, logprobs: None, finish_reason: Some(reason) }
    }
}
