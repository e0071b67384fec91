//! A verifier for audits: it writes from a law of its own, honestly or in some way that an audit must notice.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

use super::{GenerateResponse, TokenOrigin, script, v1};

/// What is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conduct {
    Honest,
    /// With speculation a greedy answer has another token.
    OtherGreedyToken,
    /// The same, on a device that does not promise equal bits.
    NearTie,
    /// With speculation the second continuation of a seed is another one.
    OtherSeededToken,
    /// With speculation tokens are drawn from another law.
    OtherLaw,
    /// The noise of the draft-invariant rule is not what it should be.
    OtherNoise,
    /// Drafts rest.
    NoSpeculation,
    /// A draft has been caught.
    Quarantine,
}

/// Draws tokens 1 to 6.
#[derive(Debug)]
pub(super) struct Writer {
    conduct: Conduct,
    n_draws: AtomicU64,
}

impl Writer {
    pub(super) fn new(conduct: Conduct) -> Self {
        Self { conduct, n_draws: AtomicU64::new(0) }
    }

    /// A whole answer, or several.
    pub(super) fn answers(&self, request: &v1::GenerateRequest) -> Vec<GenerateResponse> {
        let mut responses = vec![script::started()];
        for choice_index in 0..request.n.max(1) {
            let token = |position| self.token(request, choice_index, position);
            let tokens: Vec<u32> = (0..request.max_tokens.unwrap()).map(token).collect();
            responses.extend(self.answer(request, choice_index, &tokens));
        }
        responses
    }

    fn answer(&self, request: &v1::GenerateRequest, choice_index: u32, token_ids: &[u32]) -> [GenerateResponse; 2] {
        let n_rounds = token_ids.len() as u32 - 1;
        let report = match self.speculates(request) {
            true => v1::SpeculationReport {
                rounds: n_rounds,
                proposed: n_rounds,
                corrected: n_rounds,
                tested_per_position: vec![n_rounds],
                accepted_per_position: vec![0],
                ..Default::default()
            },
            false => v1::SpeculationReport {
                rounds: n_rounds,
                plain_steps: n_rounds,
                plain_reasons: [("load".to_owned(), n_rounds)].into(),
                ..Default::default()
            },
        };
        let token = |&token_id: &u32| v1::CommittedToken {
            token_id,
            text: "x".to_owned(),
            origin: TokenOrigin::Plain.into(),
            ..Default::default()
        };
        let tokens = token_ids.iter().map(token).collect();
        [
            script::response(v1::generate_response::Event::Committed(v1::Committed {
                tokens,
                choice_index,
                ..Default::default()
            })),
            script::response(v1::generate_response::Event::Finished(v1::Finished {
                speculation: Some(report),
                choice_index,
                ..Default::default()
            })),
        ]
    }

    fn token(&self, request: &v1::GenerateRequest, choice_index: u32, position: u32) -> u32 {
        let prompt = script::describe(request);
        let sampling = request.sampling.as_ref().unwrap();
        let is_greedy = sampling.temperature == Some(0.0);
        let is_wrong = self.speculates(request)
            && match self.conduct {
                Conduct::OtherGreedyToken | Conduct::NearTie => is_greedy && position == 7,
                Conduct::OtherSeededToken => request.seed.is_some() && choice_index == 1 && position == 3,
                _ => false,
            };
        if is_wrong {
            return 99;
        }
        let place = match (is_greedy, request.seed) {
            (true, _) => hash(&(&prompt, position)),
            (false, Some(seed)) => hash(&(&prompt, seed, choice_index, position)),
            (false, None) => hash(&self.n_draws.fetch_add(1, Ordering::Relaxed)),
        };
        let is_noise = request.speculation.as_ref().unwrap().rule() == v1::AcceptanceRule::DraftInvariant;
        let is_skewed = !is_greedy
            && request.seed.is_none()
            && match self.conduct {
                Conduct::OtherLaw => self.speculates(request),
                Conduct::OtherNoise => is_noise,
                _ => false,
            };
        let weights: [u64; 6] = if is_skewed { [10, 15, 25, 25, 15, 10] } else { [40, 25, 15, 10, 6, 4] };
        let mut point = place % 100;
        let token_id = (1..6).find(|&token_id| {
            let weight = weights[token_id - 1];
            let found = point < weight;
            point = point.saturating_sub(weight);
            found
        });
        token_id.unwrap_or(6) as u32
    }

    fn speculates(&self, request: &v1::GenerateRequest) -> bool {
        self.conduct != Conduct::NoSpeculation && !request.speculation.as_ref().unwrap().off
    }

    pub(super) fn identity(&self) -> v1::VerifierServiceGetIdentityResponse {
        let mut response = script::identity_response();
        let device = if self.conduct == Conduct::NearTie { "cuda (libtorch)" } else { "cpu (fused)" };
        response.identity.as_mut().unwrap().device = device.to_owned();
        response
    }

    pub(super) fn draft_versions(&self) -> v1::VerifierServiceListDraftVersionsResponse {
        let mut response = script::draft_versions();
        response.versions.retain(|version| version.trust() == v1::DraftTrust::Trusted);
        if self.conduct == Conduct::Quarantine {
            response.versions[0].trust = v1::DraftTrust::Quarantined.into();
            response.versions[0].detail = "its tokens are not drawn from the q that it reports".to_owned();
        }
        response
    }
}

/// Equal in every run.
fn hash(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}
