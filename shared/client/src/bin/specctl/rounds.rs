//! Speculation made visible: every token marked by where it came from, every round by a bar.
//!
//! With colour the colour is the mark. Without, brackets are: a text that goes to a file or to somebody who does not
//! see colours says the same.

use owo_colors::{OwoColorize, Style};
use specfleet_client::v1::{Committed, TokenOrigin};

/// Stands for a token without text of its own: a special token, or part of a character.
const WITHOUT_TEXT: &str = "·";

/// Draws rounds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Painter {
    pub(crate) color: bool,
}

impl Painter {
    /// One line that explains the marks.
    pub(crate) fn legend(self) -> String {
        let origins = [TokenOrigin::Accepted, TokenOrigin::Corrected, TokenOrigin::Bonus, TokenOrigin::Plain];
        let marks: Vec<String> = origins.iter().map(|origin| self.token(name(*origin), *origin)).collect();
        format!("{} a round: {}", self.bar(), marks.join(" "))
    }

    /// One round: a bar and its tokens.
    pub(crate) fn round(self, committed: &Committed) -> String {
        let tokens = committed.tokens.iter().map(|token| self.token(&token.text, token.origin()));
        std::iter::once(self.bar()).chain(tokens).collect()
    }

    fn bar(self) -> String {
        if self.color { "|".dimmed().to_string() } else { "|".to_owned() }
    }

    fn token(self, text: &str, origin: TokenOrigin) -> String {
        let text = if text.is_empty() { WITHOUT_TEXT } else { text };
        if self.color {
            return text.style(style(origin)).to_string();
        }
        let (open, close) = brackets(origin);
        format!("{open}{text}{close}")
    }
}

/// The word for an origin.
pub(crate) fn name(origin: TokenOrigin) -> &'static str {
    match origin {
        TokenOrigin::Accepted => "accepted",
        TokenOrigin::Corrected => "corrected",
        TokenOrigin::Bonus => "bonus",
        TokenOrigin::Plain => "plain",
        TokenOrigin::Unspecified => "unknown",
    }
}

fn style(origin: TokenOrigin) -> Style {
    match origin {
        TokenOrigin::Accepted => Style::new().green(),
        TokenOrigin::Corrected => Style::new().red(),
        TokenOrigin::Bonus => Style::new().cyan(),
        TokenOrigin::Plain | TokenOrigin::Unspecified => Style::new(),
    }
}

fn brackets(origin: TokenOrigin) -> (&'static str, &'static str) {
    match origin {
        TokenOrigin::Accepted => ("[", "]"),
        TokenOrigin::Corrected => ("{", "}"),
        TokenOrigin::Bonus => ("<", ">"),
        TokenOrigin::Plain | TokenOrigin::Unspecified => ("", ""),
    }
}

#[cfg(test)]
mod tests {
    use specfleet_client::v1::CommittedToken;

    use super::*;

    fn round(tokens: &[(&str, TokenOrigin)]) -> Committed {
        let token = |(text, origin): &(&str, TokenOrigin)| CommittedToken {
            token_id: 1,
            text: (*text).to_owned(),
            origin: (*origin).into(),
            ..CommittedToken::default()
        };
        Committed { tokens: tokens.iter().map(token).collect(), n_proposed: 3, ..Committed::default() }
    }

    #[test]
    fn without_colour_brackets_tell_the_origins_apart() {
        let painter = Painter { color: false };
        assert_eq!(painter.legend(), "| a round: [accepted] {corrected} <bonus> plain");
        let corrected = round(&[("Par", TokenOrigin::Accepted), ("is", TokenOrigin::Corrected)]);
        assert_eq!(painter.round(&corrected), "|[Par]{is}");
        let bonus = round(&[("", TokenOrigin::Accepted), (" is", TokenOrigin::Bonus)]);
        assert_eq!(painter.round(&bonus), "|[·]< is>");
        assert_eq!(painter.round(&round(&[("The", TokenOrigin::Plain)])), "|The");
    }

    #[test]
    fn with_colour_every_origin_looks_different() {
        let painter = Painter { color: true };
        let origins = [TokenOrigin::Accepted, TokenOrigin::Corrected, TokenOrigin::Bonus, TokenOrigin::Plain];
        let mut drawn: Vec<String> = origins.iter().map(|origin| painter.token("x", *origin)).collect();
        assert!(drawn.iter().all(|token| token.contains('x')));
        drawn.sort();
        drawn.dedup();
        assert_eq!(drawn.len(), origins.len());
    }
}
