use std::error::Error;

/// An error and those of its causes that it does not quote, in one line for people. No backtrace: what ends a service at
/// its start is about the environment, not about the code.
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |cause| (*cause).source());
    causes.map(ToString::to_string).fold(error.to_string(), |text, cause| match text.contains(&cause) {
        true => text,
        false => format!("{text}: {cause}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Layer {
        text: &'static str,
        source: Option<Box<Layer>>,
    }

    #[test]
    fn a_cause_that_is_quoted_is_not_repeated() {
        let root = Layer { text: "no such file", source: None };
        let quoting = Layer { text: "cannot read a.gguf: no such file", source: Some(Box::new(root)) };
        let outer = Layer { text: "cannot load the model", source: Some(Box::new(quoting)) };
        assert_eq!(with_causes(&outer), "cannot load the model: cannot read a.gguf: no such file");
    }
}
