//! One running generation: its committed prefix and everything that belongs to it.
//!
//! The committed prefix is the only truth. The KV memory may hold less of it (a prompt that is being computed, a sequence
//! that lost its memory and starts over) but never anything else, so "prefill", "decode" and "recompute" are one state:
//! tokens that are committed and not yet fed.

use std::{
    num::NonZeroU32,
    sync::Arc,
    time::{Duration, Instant},
};

use specfleet_grammar::Matcher;
use specfleet_model::{batch::Logits, kv_cache::KvSequence, tokenizer::Tokenizer};
use specfleet_protocol::{PrefixDigest, convert, status::Prefix, v1};
use specfleet_speculation::{
    TokenId,
    distribution::Proposal,
    honesty::Observation,
    random::{RequestSeed, VerifyRandomness},
    round::{RoundInput, RoundOutcome},
    transform::{self, TokenCounts, Vocabulary},
};
use tracing::{Span, field::Empty, info_span};

use super::{
    crowd::Allowance,
    deciding::{Decider, TargetRows},
    handle::Choice,
    places::Permit,
    scheduler::{Candidate, UNKNOWN_MASK, Work, n_draft_masked},
    speculation::{Round, Speculation},
    waiting::Member,
};
use crate::{
    drafting::{Listener, Opening, Pool, Quota},
    output::{Output, OutputToken, PromptToken, RoundEnd, TokenScore},
    report::Report,
    request::Request,
    wire,
};

/// One continuation of a prompt, from the queue to its end.
pub(super) struct Sequence {
    /// Grows in order of arrival.
    pub(super) id: u64,
    pub(super) request: Arc<Request>,
    /// Its own, not shared with the request's other continuations.
    seed: RequestSeed,
    /// Prompt and verified tokens.
    pub(super) committed: Vec<TokenId>,
    digest: PrefixDigest,
    counts: TokenCounts,
    /// Where the output stands in its form.
    grammar: Option<Matcher>,
    /// Of the prompt's tokens from the second one on, if they are wanted.
    pub(super) prompt_scores: Vec<TokenScore>,
    randomness: VerifyRandomness,
    pub(super) kv: KvSequence,
    pub(super) speculation: Speculation,
    pub(super) report: Report,
    pub(super) output: Output,
    /// Rows in the pass that is being prepared or run.
    pub(super) work: Option<Work>,
    pub(super) last_turn: u64,
    n_rounds: u64,
    pub(super) round_span: Span,
    pub(super) span: Span,
    pub(super) is_started: bool,
    /// The request's other continuations, until this one, the first, has computed the prompt for all.
    pub(super) followers: Vec<Sequence>,
    /// Counts the sequence among those in the house.
    pub(super) permit: Arc<Permit>,
}

/// What a round has added to a sequence.
pub(super) struct Committed {
    /// With the first token of a request that wants it: its prompt.
    pub(super) prompt: Vec<PromptToken>,
    pub(super) tokens: Vec<OutputToken>,
    /// What the last of them means for the request.
    pub(super) end: RoundEnd,
}

impl Sequence {
    pub(super) fn new(id: u64, request: Arc<Request>, choice: Choice) -> Self {
        let Choice { output, permit, span } = choice;
        let seed = request.seed_of(output.choice_index());
        Self {
            id,
            committed: request.prompt.clone(),
            digest: PrefixDigest::of(&request.prompt),
            counts: TokenCounts::new(&request.prompt),
            grammar: request.grammar.as_ref().map(|grammar| grammar.start.clone()),
            prompt_scores: Vec::new(),
            randomness: VerifyRandomness::new(&seed),
            seed,
            kv: KvSequence::default(),
            speculation: Speculation::new(request.drafting.clone(), Quota::of_choice(output.choice_index())),
            report: Report::new(request.rule, request.prompt.len(), request.arrived),
            output,
            work: None,
            last_turn: 0,
            n_rounds: 0,
            round_span: Span::none(),
            span,
            is_started: false,
            followers: Vec::new(),
            request,
            permit,
        }
    }

    /// Tokens that may still be committed.
    pub(super) fn n_left(&self) -> usize {
        self.request.max_tokens.saturating_sub(self.n_generated())
    }

    pub(super) fn n_generated(&self) -> usize {
        self.committed.len() - self.request.prompt.len()
    }

    /// Committed tokens that are not in the KV memory: 1 while decoding, since the newest is fed by the next pass.
    pub(super) fn n_pending(&self) -> usize {
        self.committed.len() - self.kv.len()
    }

    /// The number of the coming round.
    pub(super) fn round(&self) -> u64 {
        self.n_rounds + 1
    }

    /// Length and digest of the committed prefix.
    pub(super) fn prefix(&self) -> Prefix {
        Prefix { length: wire::count(self.committed.len()), digest: self.digest.value() }
    }

    /// What the sequence wants from the next pass.
    pub(super) fn member(&self) -> Member {
        let (n_draft, n_pending) = (self.speculation.n_held(), self.n_pending());
        match self.speculation.waits_until() {
            Some(until) => Member::Waiting { until },
            None if n_draft > 0 => Member::Speculating { n_rows: n_pending + n_draft },
            None => Member::Plain { n_rows: n_pending },
        }
    }

    /// What the scheduler knows about it; `None` while it waits for its proposal.
    pub(super) fn candidate(&self) -> Option<Candidate> {
        let can_run = self.speculation.waits_until().is_none();
        can_run.then(|| Candidate {
            n_pending: self.n_pending(),
            n_draft: self.speculation.n_held(),
            last_turn: self.last_turn,
            // The mask of the first token is there when the grammar is.
            mask_cost: if self.n_generated() == 0 { Duration::ZERO } else { self.mask_cost() },
        })
    }

    /// What a mask that must be computed is likely to take; nothing without a grammar. Known before a token of the round is
    /// drawn.
    fn mask_cost(&self) -> Duration {
        self.grammar.as_ref().map_or(Duration::ZERO, |grammar| grammar.mask_cost().unwrap_or(UNKNOWN_MASK))
    }

    /// Looks for a draft, so that it can read the prefix while the target does.
    pub(super) fn attach(&mut self, pool: &Pool, listener: &Listener, allowance: Allowance, now: Instant) {
        if self.n_left() <= 1 {
            // No room for a draft token: a round commits one more than it accepts.
            return;
        }
        let (request, committed, span) = (&self.request, &self.committed, &self.span);
        let opening = || Opening {
            sequence: self.id,
            open: v1::Open {
                request_id: request.id.clone(),
                pin: String::new(),
                settings: Some((&settings(request, &self.seed)).into()),
                committed: committed.clone(),
                prompt_length: wire::count(request.prompt.len()),
            },
            time_left: request.deadline.map(|deadline| deadline.at.saturating_duration_since(now)),
            span: span.clone(),
            listener: listener.clone(),
        };
        self.speculation.attach(pool, self.n_rounds + 1, committed.len(), allowance, opening);
    }

    /// Asks for the proposal of the coming round, as far as the load allows one.
    pub(super) fn begin_round(&mut self, pool: &Pool, listener: &Listener, allowance: Allowance, now: Instant) {
        self.attach(pool, listener, allowance, now);
        self.round_span = info_span!(parent: &self.span, "round", round = self.round(), k = Empty, accepted = Empty,
            committed = Empty, version = Empty, plain_reason = Empty);
        let round = Round {
            number: self.n_rounds + 1,
            committed: &self.committed,
            digest: self.digest.value(),
            n_left: self.n_left(),
            allowance,
            // A draft has masks to compute as well, and drafts for others too.
            n_masked: n_draft_masked(self.mask_cost()),
            span: &self.round_span,
        };
        self.speculation.ask(&round, now);
    }

    /// Decides the tokens of a round. Row `first_row + i` of the logits is the one after the committed prefix and `i`
    /// draft tokens.
    pub(super) fn decide(
        &mut self,
        proposal: Option<&Proposal>,
        observations: Option<&mut Vec<Observation>>,
        logits: &mut Logits,
        first_row: usize,
        vocabulary: Vocabulary<'_>,
        decider: &Decider,
    ) -> Result<RoundOutcome, transform::Error> {
        let input = RoundInput {
            proposal,
            base_length: self.committed.len() as u64,
            rule: self.request.rule,
            randomness: &self.randomness,
            is_end: &|token| self.request.end_tokens.contains(&token),
            budget: self.n_left(),
        };
        let (transforms, counts) = (&self.request.transforms, &self.counts);
        let grammar = self.grammar.as_mut();
        let rows = TargetRows { logits, first: first_row, vocabulary, transforms, counts, grammar };
        decider.decide(input, observations, rows)
    }

    /// Makes the tokens of a round part of the prefix, up to the first that ends the text. What the round has beyond is
    /// taken from `outcome`: nobody sees it, and it counts nowhere.
    pub(super) fn commit(&mut self, tokenizer: &Tokenizer, outcome: &mut RoundOutcome) -> Committed {
        let first_new = self.committed.len();
        let (mut tokens, mut end) = (Vec::with_capacity(outcome.committed.len()), RoundEnd::Open);
        for &committed in &outcome.committed {
            self.committed.push(committed.token);
            self.counts.push_generated(committed.token);
            if let Some(grammar) = &mut self.grammar {
                grammar.commit(committed.token);
            }
            let by_id = match self.n_left() {
                _ if self.request.end_tokens.contains(&committed.token) => RoundEnd::EndToken,
                0 => RoundEnd::Length,
                _ => RoundEnd::Open,
            };
            let token;
            (token, end) = self.output.spell(tokenizer, committed, by_id);
            tokens.push(token);
            if end != RoundEnd::Open {
                break;
            }
        }
        outcome.truncate(tokens.len());
        self.digest.extend(&self.committed[first_new..]);
        let prompt = if first_new == self.request.prompt.len() { self.scored_prompt() } else { Vec::new() };
        Committed { prompt, tokens, end }
    }

    /// The prompt with its scores, if they are wanted of this continuation.
    fn scored_prompt(&self) -> Vec<PromptToken> {
        if !self.scores_prompt() {
            return Vec::new();
        }
        let scores = std::iter::once(None).chain(self.prompt_scores.iter().cloned().map(Some));
        self.request.prompt.iter().zip(scores).map(|(&token, score)| PromptToken { token, score }).collect()
    }

    /// The round is decided: the next one has another number.
    pub(super) fn close_round(&mut self) {
        self.n_rounds += 1;
        self.round_span = Span::none();
    }

    pub(super) fn finished(&self, reason: v1::FinishReason) -> v1::Finished {
        v1::Finished {
            reason: reason.into(),
            usage: Some(self.report.usage()),
            speculation: Some(self.report.speculation()),
            timings: Some(self.report.timings()),
            choice_index: self.output.choice_index(),
        }
    }
}

/// What a draft needs to shape and draw as the target will.
fn settings(request: &Request, seed: &RequestSeed) -> convert::DraftSettings {
    convert::DraftSettings {
        sampling: request.transforms.params().clone(),
        draft_seed: seed.draft_seed(),
        rule: request.rule,
        form: convert::DistributionForm::Sparse,
        n_vocab: u32::try_from(request.transforms.n_vocab()).ok().and_then(NonZeroU32::new),
        grammar: request.grammar.as_ref().map(|grammar| grammar.form.clone()),
    }
}
