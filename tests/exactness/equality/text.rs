//! A text that must not depend on anything, and what to say when it does.

use specfleet_speculation::TokenId;
use specfleet_tests::recording::{Notebook, Row};

/// A prompt and what the target continues it with, decoding plainly and alone.
pub(crate) struct Text {
    pub(crate) prompt: Vec<TokenId>,
    pub(crate) tokens: Vec<TokenId>,
}

impl Text {
    /// The prompt and the first `n_tokens` tokens.
    pub(crate) fn prefix(&self, n_tokens: usize) -> Vec<TokenId> {
        [&self.prompt[..], &self.tokens[..n_tokens]].concat()
    }

    /// After its first `n_given` tokens the text goes on with `tokens`, which `who` has made.
    #[track_caller]
    pub(crate) fn assert_goes_on(&self, n_given: usize, tokens: &[TokenId], notebook: &Notebook, who: &str) {
        let expected = &self.tokens[n_given..];
        assert!(tokens.len() <= expected.len(), "{who}: {} tokens", tokens.len());
        if let Some(differs) = expected.iter().zip(tokens).position(|(expected, got)| expected != got) {
            let index = n_given + differs;
            let rows = describe(&notebook.variants(&self.prefix(index)));
            let position = self.prompt.len() + index;
            let (expected, got) = (expected[differs], tokens[differs]);
            panic!(
                "{who}: token {index} (position {position}) is {got} instead of {expected}; rows seen there:\n{rows}"
            );
        }
    }

    /// Whoever computed a row that decided one of the first `n_tokens` got the same bits; at least `n_runs` did.
    #[track_caller]
    pub(crate) fn assert_equal_bits(&self, n_tokens: usize, n_runs: usize, notebook: &Notebook) {
        for index in 0..n_tokens {
            let prefix = self.prefix(index);
            let variants = notebook.variants(&prefix);
            let rows = describe(&variants);
            let position = self.prompt.len() + index;
            assert!(variants.len() == 1, "token {index} (position {position}) comes from different logits:\n{rows}");
            let n_times = notebook.n_times(&prefix);
            assert!(
                n_times >= n_runs,
                "token {index}: {n_runs} runs committed it, {n_times} rows were computed for it"
            );
        }
    }
}

fn describe(rows: &[Row]) -> String {
    let line = |row: &Row| {
        let [(best, logit), (second, _)] = row.top;
        format!("  {best} ({logit}) before {second} by {:e}, first in: {}\n", row.gap(), row.occasion)
    };
    rows.iter().map(line).collect()
}
