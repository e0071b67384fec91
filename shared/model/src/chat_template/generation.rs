//! `{% generation %}`, which Jinja does not know: it marks the assistant's tokens for training, and at inference it does
//! nothing.

/// Makes it a condition that always holds, so that the tags' whitespace markers keep their effect.
pub(super) fn without_tags(source: &str) -> String {
    let mut text = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let (before, tag) = rest.split_at(start);
        // Behind the opening: in "{%}" the two overlap.
        let Some(end) = tag[2..].find("%}").map(|end| end + 2) else { break };
        let inside = &tag[2..end];
        let name = inside.trim_matches(|c: char| c.is_whitespace() || c == '-' || c == '+');
        text.push_str(before);
        match name {
            "generation" => text.push_str(&format!("{{%{}%}}", inside.replace("generation", "if true"))),
            "endgeneration" => text.push_str(&format!("{{%{}%}}", inside.replace("endgeneration", "endif"))),
            _ => text.push_str(&tag[..end + 2]),
        }
        rest = &tag[end + 2..];
    }
    text.push_str(rest);
    text
}
