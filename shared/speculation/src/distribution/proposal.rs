//! A proposal: draft tokens, each with the distribution it was drawn from.

use super::{DraftDistribution, Error};
use crate::TokenId;
use crate::law::Law;

/// The draft tokens of one round. The distribution at an index is conditioned on the tokens before that index.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Proposal {
    tokens: Vec<TokenId>,
    distributions: Vec<DraftDistribution>,
}

impl Proposal {
    /// Checks what can be checked about a peer's claim: one distribution per token, ids that the target has, and
    /// tokens that their distribution can produce.
    ///
    /// These are tests of whether the claim is well-formed. A draw from the claimed distribution passes them whatever
    /// token came out, so they cannot bias the output; a token that is merely unlikely, unwanted or impossible for the
    /// target is none of their business and goes through the acceptance rule.
    pub fn new(tokens: Vec<TokenId>, distributions: Vec<DraftDistribution>, n_vocab: usize) -> Result<Self, Error> {
        if tokens.len() != distributions.len() {
            return Err(Error::UnequalProposal { n_tokens: tokens.len(), n_distributions: distributions.len() });
        }
        for (index, (token, distribution)) in tokens.iter().zip(&distributions).enumerate() {
            check(index, *token, distribution, n_vocab)?;
        }
        Ok(Self { tokens, distributions })
    }

    /// The proposed tokens in order.
    pub fn tokens(&self) -> &[TokenId] {
        &self.tokens
    }

    /// What each token was drawn from.
    pub fn distributions(&self) -> &[DraftDistribution] {
        &self.distributions
    }

    /// Takes the tokens as they are and believes nothing of what is said about their draws: each becomes a point mass.
    ///
    /// Then a token x passes with probability p(x), and what follows a rejection is drawn from p without x. Together that
    /// is p for **any** token, however it was chosen, as long as who chose it did not know the accept test's number.
    pub fn disbelieve(&mut self) {
        self.distributions = self.tokens.iter().map(|token| DraftDistribution::Point(*token)).collect();
    }

    /// Number of proposed tokens.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether nothing is proposed: the round is a plain step.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }
}

fn check(index: usize, token: TokenId, distribution: &DraftDistribution, n_vocab: usize) -> Result<(), Error> {
    let width = distribution.width().max(token as usize + 1);
    if width > n_vocab {
        return Err(Error::OutsideVocabulary { index, id: (width - 1) as TokenId, n_vocab });
    }
    if distribution.weight(token) <= 0.0 {
        return Err(Error::OutsideSupport { index, id: token });
    }
    Ok(())
}
