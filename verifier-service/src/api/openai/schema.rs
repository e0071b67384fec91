//! Schemas as they go into a grammar: without what they say to people.
//!
//! Tools describe themselves at length, to the model, which gets all of it with its prompt. A grammar has no use for
//! descriptions, and no room: its text is bounded. So they are left out there.
//!
//! A word is an annotation where a keyword stands, and nowhere else: a property may be called `title`, and what an `enum`
//! or a `const` holds is a value. What stands under a keyword that is not known here is left as it is.

use serde_json::{Map, Value};

/// Keywords that constrain nothing.
const ANNOTATIONS: [&str; 9] =
    ["title", "description", "default", "examples", "example", "$comment", "deprecated", "readOnly", "writeOnly"];
/// Keywords whose value is a schema, or a list of schemas.
const SCHEMAS: [&str; 16] = [
    "items",
    "prefixItems",
    "additionalItems",
    "unevaluatedItems",
    "contains",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "anyOf",
    "oneOf",
    "allOf",
    "not",
    "if",
    "then",
    "else",
    "contentSchema",
];
/// Keywords whose value has schemas under names that the author chose.
const NAMED_SCHEMAS: [&str; 6] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"];

/// The same schema without annotations.
pub(super) fn without_annotations(schema: &Map<String, Value>) -> Map<String, Value> {
    let constraints = schema.iter().filter(|(keyword, _)| !ANNOTATIONS.contains(&keyword.as_str()));
    constraints.map(|(keyword, value)| (keyword.clone(), of_keyword(keyword, value))).collect()
}

fn of_keyword(keyword: &str, value: &Value) -> Value {
    match value {
        Value::Object(named) if NAMED_SCHEMAS.contains(&keyword) => {
            Value::Object(named.iter().map(|(name, schema)| (name.clone(), of_schema(schema))).collect())
        }
        Value::Array(schemas) if SCHEMAS.contains(&keyword) => schemas.iter().map(of_schema).collect(),
        value if SCHEMAS.contains(&keyword) => of_schema(value),
        value => value.clone(),
    }
}

fn of_schema(schema: &Value) -> Value {
    match schema {
        Value::Object(schema) => Value::Object(without_annotations(schema)),
        // `true` and `false` are schemas too.
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(schema: &Value, expected: &Value) {
        assert_eq!(of_schema(schema), *expected);
    }

    #[test]
    fn what_is_said_to_people_is_left_out_at_every_depth() {
        let said = json!({
            "title": "T", "description": "d", "default": {}, "examples": [1], "$comment": "c", "deprecated": true,
            "readOnly": true, "writeOnly": false, "example": 3, "type": "string",
        });
        let bare = json!({"type": "string"});
        check(&said, &bare);
        for keyword in SCHEMAS {
            check(&json!({keyword: said}), &json!({keyword: bare}));
            check(&json!({keyword: [said, true, [said]]}), &json!({keyword: [bare, true, [said]]}));
        }
        for keyword in NAMED_SCHEMAS {
            let within =
                |schema: &Value| json!({keyword: {"a": {"items": schema}, "b": false, "c": ["a"]}, "title": 1});
            let mut expected = within(&bare);
            expected.as_object_mut().map(|expected| expected.remove("title"));
            check(&within(&said), &expected);
        }
    }

    #[test]
    fn a_name_that_is_like_an_annotation_s_is_a_name() {
        let properties = json!({"description": {"type": "string"}, "title": true, "default": {"const": 1}});
        let schema = json!({"type": "object", "properties": properties, "required": ["description", "title"]});
        check(&schema, &schema);
        for keyword in NAMED_SCHEMAS {
            let schema = json!({keyword: {"title": {keyword: {"examples": {"type": "null"}}}}});
            check(&schema, &schema);
        }
    }

    #[test]
    fn values_are_left_as_they_are() {
        let value = json!({"title": "T", "properties": {"description": {"description": "d"}}});
        for keyword in ["enum", "const", "x-own", "required", "dependentRequired"] {
            check(&json!({keyword: [value]}), &json!({keyword: [value]}));
            check(&json!({keyword: value}), &json!({keyword: value}));
        }
        for odd in
            [json!({"properties": [value]}), json!({"properties": "title", "items": 7}), json!(null), json!([value])]
        {
            check(&odd, &odd);
        }
    }
}
