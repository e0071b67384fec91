//! What a client gets to see of a request.

use futures::StreamExt;
use specfleet_client::{
    Client, Error, Event,
    v1::{Committed, Finished, GenerateRequest, SpeculationReport, Started, TokenOrigin},
};
use specfleet_speculation::TokenId;

/// A request that ran to its end.
#[derive(Debug)]
pub struct Outcome {
    /// The first message.
    pub started: Started,
    /// The tokens of each round, the prompt's pass first.
    pub rounds: Vec<Committed>,
    /// The last message.
    pub finished: Finished,
}

impl Outcome {
    /// Runs a request to its end.
    ///
    /// # Errors
    /// If the verifier refuses it or ends it with an error.
    pub async fn of(client: &Client, request: GenerateRequest) -> Result<Self, Error> {
        let mut events = client.generate(request).await?;
        let (mut started, mut rounds, mut finished) = (None, Vec::new(), None);
        while let Some(event) = events.next().await {
            match event? {
                Event::Started(event) => started = Some(event),
                Event::Committed(round) => rounds.push(round),
                Event::Finished(event) => finished = Some(event),
            }
        }
        let started = started.expect("the client checks that Started comes first");
        let finished = finished.expect("the client yields an error where Finished is missing");
        Ok(Self { started, rounds, finished })
    }

    /// All token ids.
    pub fn token_ids(&self) -> Vec<TokenId> {
        token_ids(&self.rounds)
    }

    /// What speculation did for it.
    pub fn speculation(&self) -> &SpeculationReport {
        self.finished.speculation.as_ref().expect("Finished has a report")
    }

    /// Draft tokens that were put to the test.
    pub fn n_tested(&self) -> u32 {
        self.speculation().tested_per_position.iter().sum()
    }

    /// How many tokens came about in this way.
    pub fn count(&self, origin: TokenOrigin) -> usize {
        self.rounds.iter().flat_map(|round| &round.tokens).filter(|token| token.origin() == origin).count()
    }

    /// Tokens committed by each round after the prompt's pass.
    pub fn round_lengths(&self) -> Vec<usize> {
        self.rounds.iter().skip(1).map(|round| round.tokens.len()).collect()
    }
}

/// The tokens of the first rounds of a request whose client leaves when it has seen `n_tokens`.
///
/// # Errors
/// If the verifier refuses the request or ends it with an error before.
pub async fn leave_after(client: &Client, request: GenerateRequest, n_tokens: usize) -> Result<Vec<TokenId>, Error> {
    let mut events = client.generate(request).await?;
    let mut rounds = Vec::new();
    while token_ids(&rounds).len() < n_tokens
        && let Some(event) = events.next().await
    {
        if let Event::Committed(round) = event? {
            rounds.push(round);
        }
    }
    Ok(token_ids(&rounds))
}

fn token_ids(rounds: &[Committed]) -> Vec<TokenId> {
    rounds.iter().flat_map(|round| &round.tokens).map(|token| token.token_id).collect()
}
