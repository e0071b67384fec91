//! Greedy decoding as simple as can be, with neither service: what speculative decoding is measured against.

use specfleet_model::batch::{LanguageModel, Logits, Segment, WantedLogits};
use specfleet_speculation::TokenId;

/// The likeliest token after `prompt`, the likeliest after that, and so on; the lowest id on ties. The whole prompt is
/// computed in one pass and nothing of it is reused or left behind. An end token does not end it.
pub fn greedy(model: &mut dyn LanguageModel, prompt: &[TokenId], n_tokens: usize) -> Vec<TokenId> {
    let mut kv = model.kv().start(&[]);
    model.kv().reserve(&mut kv, prompt.len() + n_tokens).expect("there is KV memory for one sequence");
    let mut tokens: Vec<TokenId> = Vec::with_capacity(n_tokens);
    while tokens.len() < n_tokens {
        let fed = tokens.last().map_or(prompt, std::slice::from_ref);
        let segment = Segment { kv: &mut kv, tokens: fed, logits: WantedLogits::Last };
        let logits = model.forward(&mut [segment]).expect("the model computes");
        tokens.push(likeliest(&logits));
    }
    model.kv().release(kv);
    tokens
}

fn likeliest(logits: &Logits) -> TokenId {
    let row = logits.row(0);
    let best = (1..row.len()).fold(0, |best, id| if row[id] > row[best] { id } else { best });
    best as TokenId
}
