//! What is asked of a pair, and how its draws are judged, one after another.

use std::collections::BTreeMap;

use futures::{StreamExt, stream};
use specfleet_client::Client;
use specfleet_model::scripted::ScriptedModel;
use specfleet_tests::{
    chi_square::{ChiSquare, detection},
    in_process::{Draft, Verifier},
    lying_draft::{Lie, LyingDraft},
    outcome::Outcome,
    scripted_pair::{loaded, model, settings, tokenizer},
};
use specfleet_verifier_service::{Options, Service, controls::Control};
use tonic::transport::Channel;

use super::{counts, rounds, verdicts};
use crate::sampling::{
    draws::{Draw, PROMPT, Plan},
    law::{Law, Tokens},
};

/// Two tables and a request.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) target: &'static str,
    pub(super) draft: &'static str,
    pub(super) plan: Plan,
}

/// What decides in the verifier.
#[derive(Clone, Copy)]
pub(super) enum Verifying {
    /// What decides in production.
    Right,
    /// This, about each token.
    Verdicts(verdicts::Decide),
    /// This, about each round.
    Rounds(rounds::Decide),
    /// This, about each round, knowing something of those before. For one request at a time.
    Carrying(counts::Carry),
}

/// What the test says.
pub(super) struct Judgement {
    pub(super) n_draws: usize,
    /// After all draws.
    pub(super) test: ChiSquare,
    /// Draws after which it first failed.
    pub(super) detected_after: Option<usize>,
}

/// A verifier with a fault, or without one.
pub(crate) fn serve(
    target: ScriptedModel,
    drafts: Vec<Channel>,
    options: Options,
    control: Option<Control>,
) -> Verifier {
    let drafts = drafts.into_iter().map(|channel| ("draft".to_owned(), channel)).collect();
    Verifier::serve(|metrics| match control {
        None => Service::start(loaded(target), drafts, options, &metrics.meter()),
        Some(control) => Service::start_with_control(loaded(target), drafts, options, &metrics.meter(), control),
    })
}

impl Case {
    /// With one request at a time.
    pub(super) fn alone(self) -> Self {
        Self { plan: Plan { concurrency: 1, ..self.plan }, ..self }
    }

    /// Draws from a pair of services, in the order of their seeds: up to `n_draws`, or what the plan has.
    pub(super) async fn draw(&self, verifying: Verifying, draft: Option<Lie>, n_draws: usize) -> Vec<Tokens> {
        let (honest, lying);
        let channel = match draft {
            None => {
                honest = Draft::start(loaded(model(self.draft)), settings().draft);
                honest.channel()
            }
            Some(lie) => {
                lying = LyingDraft::new(self.draft, &tokenizer(), lie);
                lying.serve()
            }
        };
        let verifier = serve(model(self.target), vec![channel], settings().verifier, verifying.control());
        verifier.wait_for_drafts().await;
        self.draw_from(&verifier.client, n_draws).await
    }

    /// The share of draft tokens that pass, of so many at least that are tested.
    pub(super) async fn share_accepted(&self, verifying: Verifying, n_tested: u32) -> f64 {
        let draft = Draft::start(loaded(model(self.draft)), settings().draft);
        let verifier = serve(model(self.target), vec![draft.channel()], settings().verifier, verifying.control());
        verifier.wait_for_drafts().await;
        let (mut tested, mut accepted) = (0, 0);
        for (_, request) in self.plan.requests() {
            let outcome = Outcome::of(&verifier.client, request).await.unwrap();
            tested += outcome.n_tested();
            accepted += outcome.speculation().accepted;
            if tested >= n_tested {
                break;
            }
        }
        assert!(tested >= n_tested, "the plan has {tested} tokens to test, {n_tested} are wanted");
        f64::from(accepted) / f64::from(tested)
    }

    async fn draw_from(&self, client: &Client, n_draws: usize) -> Vec<Tokens> {
        let mut outcomes = stream::iter(self.plan.requests())
            .map(|(_, request)| Outcome::of(client, request))
            .buffered(self.plan.concurrency);
        let mut draws = Vec::new();
        while draws.len() < n_draws
            && let Some(outcome) = outcomes.next().await
        {
            let tokens = outcome.unwrap().token_ids();
            match self.plan.draw {
                Draw::Piece { length, .. } => draws.extend(tokens.chunks(length).map(<[_]>::to_vec)),
                Draw::Beginning { length } => draws.push(tokens.into_iter().take(length).collect()),
            }
        }
        draws.truncate(n_draws);
        draws
    }

    pub(super) fn judge(&self, draws: &[Tokens]) -> Judgement {
        let may_end = matches!(self.plan.draw, Draw::Beginning { .. });
        let law = Law::new(self.target, &self.plan.sampling).continuations(&PROMPT, self.plan.length(), may_end);
        let possible = law.into_iter().filter(|(_, probability)| *probability > 0.0);
        let (categories, mut law): (BTreeMap<Tokens, usize>, Vec<f64>) =
            possible.enumerate().map(|(category, (tokens, probability))| ((tokens, category), probability)).unzip();
        // Everything else.
        let impossible = law.len();
        law.push(0.0);

        let outcomes: Vec<usize> =
            draws.iter().map(|draw| categories.get(draw).copied().unwrap_or(impossible)).collect();
        let mut counts = vec![0; law.len()];
        outcomes.iter().for_each(|category| counts[*category] += 1);
        Judgement {
            n_draws: draws.len(),
            test: ChiSquare::of(&counts, &law),
            detected_after: detection(outcomes, &law),
        }
    }
}

impl Verifying {
    fn control(self) -> Option<Control> {
        match self {
            Self::Right => None,
            Self::Verdicts(verdict) => Some(Control::Decides(Box::new(move |round| verdicts::decide(&round, verdict)))),
            Self::Rounds(decide) => Some(Control::Decides(Box::new(move |round| decide(&round)))),
            Self::Carrying(carry) => Some(counts::carrying(carry)),
        }
    }
}
