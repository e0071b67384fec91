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
    speculation: SpeculationUsage,
}

#[derive(Debug, Default, Serialize)]
struct PromptDetails {
    cached_tokens: u64,
}

impl Usage {
    pub(super) fn started(&mut self, n_prompt: usize, n_reused: usize) {
        self.prompt_tokens += n_prompt as u64;
        self.total_tokens += n_prompt as u64;
        self.prompt_tokens_details.cached_tokens += n_reused as u64;
    }

    pub(super) fn finished(&mut self, finished: &v1::Finished) {
        let n_completion = finished.usage.map_or(0, |usage| usage.completion_tokens);
        self.completion_tokens += u64::from(n_completion);
        self.total_tokens += u64::from(n_completion);
        if let Some(report) = &finished.speculation {
            self.speculation.add(report);
        }
    }
}
