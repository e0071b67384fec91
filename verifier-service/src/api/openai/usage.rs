//! What a call took, in the form of this API.

use serde::Serialize;
use specfleet_protocol::v1;

use super::speculation::SpeculationUsage;

/// Sums over all prompts and continuations of a call. A prompt counts once, whatever the number of its continuations.
#[derive(Debug, Default, Serialize)]
pub(super) struct Usage {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    prompt_tokens_details: PromptDetails,
    completion_tokens_details: CompletionDetails,
    speculation: SpeculationUsage,
}

#[derive(Debug, Default, Serialize)]
struct PromptDetails {
    cached_tokens: u64,
}

#[derive(Debug, Default, Serialize)]
struct CompletionDetails {
    /// Of the completion's tokens, those before the answer.
    reasoning_tokens: u64,
}

impl Usage {
    pub(super) fn started(&mut self, n_prompt: usize, n_reused: usize) {
        self.prompt_tokens += n_prompt as u64;
        self.total_tokens += n_prompt as u64;
        self.prompt_tokens_details.cached_tokens += n_reused as u64;
    }

    /// So many tokens of a continuation have been delivered.
    pub(super) fn committed(&mut self, n_tokens: usize) {
        self.completion_tokens += n_tokens as u64;
        self.total_tokens += n_tokens as u64;
    }

    pub(super) fn has_tokens(&self) -> bool {
        self.completion_tokens > 0
    }

    /// So many tokens of a continuation, of which no more will come, were thoughts.
    pub(super) fn thought(&mut self, n_tokens: usize) {
        self.completion_tokens_details.reasoning_tokens += n_tokens as u64;
    }

    /// A continuation has ended, whose first `n_thought` tokens were thoughts.
    pub(super) fn finished(&mut self, finished: &v1::Finished, n_thought: usize) {
        self.thought(n_thought);
        if let Some(report) = &finished.speculation {
            self.speculation.add(report);
        }
    }
}
