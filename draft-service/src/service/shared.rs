//! What every call of the service uses, and the checks at its border: behind them ids are in range, parameters are
//! valid, and the version is the one that was pinned.

use std::sync::Arc;

use specfleet_grammar::{Form, Grammars, Matcher};
use specfleet_protocol::{
    convert::{DistributionForm, DraftSettings, RoundProposal, Timings, check_token_ids},
    status::{Reason, Refusal, invalid_argument, model_failed, version_mismatch},
    v1,
};
use specfleet_speculation::{
    TokenId,
    distribution::Proposal,
    propose::Support,
    random::DraftRandomness,
    transform::{Invalid, InvalidField, Transforms},
};
use tokio::sync::Semaphore;
use tonic::Status;
use tracing::{debug, warn};

use crate::{
    engine::{Engine, Open, Proposed, SessionHandle, Settings},
    telemetry::Metrics,
};

/// Sessions whose grammars are looked for or compiled at a time; the others wait, each with its place in the engine. One
/// grammar is compiled at a time, and meanwhile another may be found among those that are known.
const MAX_COMPILING: usize = 2;

/// One engine and the identity of what it runs.
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    /// With the vocabulary's token digests.
    pub(crate) identity: v1::Identity,
    /// Ids that the draft knows are below this.
    pub(crate) n_vocab: usize,
    /// How much of q a sparse distribution keeps.
    pub(crate) support: Support,
    pub(crate) metrics: Arc<Metrics>,
    /// Where the draft knows what its tokens spell.
    pub(crate) grammars: Option<Arc<Grammars>>,
    /// Turns to compile one.
    pub(crate) compiling: Arc<Semaphore>,
}

impl Shared {
    /// The identity, with digests of the vocabulary only for those who ask: they are the largest part of it.
    pub(crate) fn identity(&self, with_token_digests: bool) -> v1::Identity {
        let mut identity = self.identity.clone();
        if !with_token_digests && let Some(vocabulary) = &mut identity.vocabulary {
            vocabulary.token_digests.clear();
        }
        identity
    }

    /// Version ids are compared exactly; there is no best effort.
    pub(crate) fn check_pin(&self, pin: &str) -> Result<(), Status> {
        let served = &self.identity.version_id;
        if pin == served { Ok(()) } else { Err(version_mismatch(pin, served)) }
    }

    /// Turns to compile a grammar: see [`Shared::compiling`].
    pub(crate) fn turns_to_compile() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(MAX_COMPILING))
    }

    /// Opens a session. The grammar of its output is compiled when it has its place, while the engine reads the prefix:
    /// nothing is compiled for a session that there is no room for, and so many wait for their turn as there is room for.
    pub(crate) async fn open(
        &self,
        settings: Option<v1::DraftSettings>,
        committed: Vec<TokenId>,
        prompt_length: u32,
    ) -> Result<SessionHandle, Status> {
        let (open, form) = self.check_open(settings, committed, prompt_length)?;
        let generated = open.committed[open.n_prompt..].to_vec();
        let mut session = self.engine.open(open).await?;
        if let Some(form) = form {
            let matcher = tokio::select! {
                biased;
                why = session.closed() => return Err(why.into()),
                matcher = self.matcher(form, generated) => matcher,
            };
            match matcher {
                Some(matcher) => session.constrain(matcher)?,
                None => self.metrics.session_without_grammar(),
            }
        }
        Ok(session)
    }

    /// Checks everything about a session that does not depend on the engine's state.
    fn check_open(
        &self,
        settings: Option<v1::DraftSettings>,
        committed: Vec<TokenId>,
        prompt_length: u32,
    ) -> Result<(Open, Option<Form>), Status> {
        if committed.is_empty() {
            return Err(invalid_argument("committed", "is empty; a draft needs at least one token to go on from"));
        }
        check_token_ids("committed", &committed, self.n_vocab)?;
        let n_prompt = prompt_length as usize;
        if n_prompt == 0 || n_prompt > committed.len() {
            let allowed = format!("is {prompt_length}, must be from 1 to the {} committed tokens", committed.len());
            return Err(invalid_argument("prompt_length", allowed));
        }
        let settings = settings.ok_or_else(|| invalid_argument("settings", "is missing"))?;
        let mut settings = DraftSettings::try_from(settings)?;
        let form = settings.grammar.take();
        let settings = self.settings(settings)?;
        Ok((Open { committed, n_prompt, settings }, form))
    }

    /// The form of a session's output, behind what was generated before; `None` to draft as if it had none, which is exact
    /// too. Compiling may take long, so it happens beside the engine and the runtime. It goes on if the caller leaves, so it
    /// holds the turn: otherwise whoever asks and leaves could keep any number of threads busy.
    async fn matcher(&self, form: Form, generated: Vec<TokenId>) -> Option<Matcher> {
        let grammars = self.grammars.clone()?;
        let turn = self.compiling.clone().acquire_owned().await.ok()?;
        let compile = move || {
            let _turn = turn;
            let mut matcher = grammars.compile(&form, 1)?;
            generated.into_iter().for_each(|token| matcher.commit(token));
            Ok::<_, specfleet_grammar::Error>(matcher)
        };
        let compiled = tokio::task::spawn_blocking(compile).await;
        let compiled = compiled.map_err(|panic| panic.to_string()).and_then(|it| it.map_err(|error| error.to_string()));
        compiled.inspect_err(|error| debug!(error, "a grammar cannot be used; drafting without it")).ok()
    }

    fn settings(&self, settings: DraftSettings) -> Result<Settings, Status> {
        let mut sampling = settings.sampling;
        // Either table may be the longer one, by padding: q lives on the ids that both have.
        let n_target = settings.n_vocab.map_or(usize::MAX, |size| size.get() as usize);
        let n_vocab = self.n_vocab.min(n_target);
        // The target may know more ids than the draft. A draft never proposes those, so that what is said about them
        // does not touch q.
        sampling.logit_bias.retain(|&(token, _)| (token as usize) < n_vocab);
        sampling.end_tokens.retain(|&token| (token as usize) < n_vocab);
        let transforms = Transforms::new(sampling, n_vocab).map_err(refuse_sampling)?;
        let support = match settings.form {
            DistributionForm::Sparse => self.support,
            DistributionForm::Dense => Support::Full,
        };
        let randomness = DraftRandomness::new(&settings.draft_seed);
        Ok(Settings { transforms, randomness, rule: settings.rule, support })
    }

    /// The wire form of what was drafted.
    pub(crate) fn proposal(&self, round: u64, proposed: Proposed) -> Result<v1::Proposal, Status> {
        let Proposed { base, tokens, distributions, queue, compute } = proposed;
        // The same check that the verifier makes: a fault of ours is found where it is.
        let proposal = Proposal::new(tokens, distributions, self.n_vocab)
            .map_err(|error| model_failed(format!("the draft made an impossible proposal: {error}")))?;
        Ok(v1::Proposal::from(&RoundProposal {
            round,
            base_length: base.length,
            base_digest: base.digest,
            version_id: self.identity.version_id.clone(),
            proposal,
            timings: Timings { queue, compute },
        }))
    }

    /// Counts and logs a call or stream that ends with an error.
    pub(crate) fn refuse(&self, status: Status) -> Status {
        let reason = Reason::of(&status);
        self.metrics.refused(reason);
        match reason {
            Some(reason) => warn!(reason = reason.as_str(), message = status.message(), "refused"),
            None => debug!(message = status.message(), "the stream broke"),
        }
        status
    }
}

/// Every mistake in the parameters as a field of its own; of a list's mistakes only the first, so that the status fits the
/// headers it travels in.
fn refuse_sampling(invalid: Invalid) -> Status {
    let refusal = Refusal::new(Reason::InvalidArgument, invalid.to_string());
    let with_field = |refusal: Refusal, field: &InvalidField| {
        refusal.field(
            format!("settings.sampling.{}", field.field),
            format!("is {}, must be {}", field.value, field.allowed),
        )
    };
    invalid.fields.iter().fold(refusal, with_field).into()
}
