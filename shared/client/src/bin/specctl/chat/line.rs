//! What one line of a chat means.

/// What a line asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    Nothing,
    Help,
    Reset,
    Stats,
    Quit,
    Unknown(String),
    Say(String),
}

/// Commands begin with a slash; a second slash makes it a message.
pub(super) fn parse(line: &str) -> Action {
    let line = line.trim();
    match line {
        "" => Action::Nothing,
        "/help" => Action::Help,
        "/reset" => Action::Reset,
        "/stats" => Action::Stats,
        "/quit" | "/exit" => Action::Quit,
        _ => match line.strip_prefix('/') {
            Some(message) if message.starts_with('/') => Action::Say(message.to_owned()),
            Some(_) => Action::Unknown(line.to_owned()),
            None => Action::Say(line.to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slashes_make_commands_and_two_make_a_message() {
        let cases = [
            ("  ", Action::Nothing),
            ("/quit", Action::Quit),
            (" /stats ", Action::Stats),
            ("/hlep", Action::Unknown("/hlep".to_owned())),
            ("//etc/hosts?", Action::Say("/etc/hosts?".to_owned())),
            (" What is 1/2? ", Action::Say("What is 1/2?".to_owned())),
        ];
        for (line, action) in cases {
            assert_eq!(parse(line), action, "{line:?}");
        }
    }
}
