//! `response_format`: text, any JSON object, or JSON of a schema.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{body::Fields, failure::Failure, tools};

/// The field with the schema.
pub(super) const SCHEMA: &str = "response_format.json_schema.schema";

#[derive(Debug, Deserialize)]
struct Wishes {
    response_format: Option<Format>,
}

#[derive(Debug, Deserialize)]
struct Format {
    #[serde(rename = "type")]
    kind: String,
    json_schema: Option<Schema>,
}

/// `strict` makes no difference: a schema is always kept to.
#[derive(Debug, Deserialize)]
struct Schema {
    name: Option<String>,
    schema: Option<Value>,
}

/// The JSON schema that an answer must have; `None` for text.
pub(super) fn schema(fields: &Fields) -> Result<Option<Value>, Failure> {
    let Some(Format { kind, json_schema }) = fields.read::<Wishes>()?.response_format else { return Ok(None) };
    match kind.as_str() {
        "text" => Ok(None),
        "json_object" => Ok(Some(json!({"type": "object"}))),
        "json_schema" => {
            let Schema { name, schema } = json_schema.unwrap_or(Schema { name: None, schema: None });
            if let Some(name) = name.filter(|name| !tools::is_name(name)) {
                let problem =
                    format!("the schema's name is {:?}, allowed: {}", crate::error::shortened(&name, 64), tools::NAME);
                return Err(Failure::invalid("response_format.json_schema.name", problem));
            }
            match schema {
                Some(schema @ Value::Object(_)) => Ok(Some(schema)),
                _ => Err(Failure::invalid(
                    SCHEMA,
                    "response_format has no schema: give a JSON schema, which is an object",
                )),
            }
        }
        _ => {
            let problem = format!("response_format has the type {kind:?}, allowed: text, json_object, json_schema");
            Err(Failure::invalid("response_format.type", problem))
        }
    }
}
