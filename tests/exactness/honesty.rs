//! A draft that does not draw from what it reports is found out while it serves, and from then on cannot bend the output.
//!
//! Lying drafts speak to the production verifier over real gRPC. Requests must never notice but by the speed; what an
//! operator sees (trust, evidence, metrics) must say what has happened; and once a draft is not believed any more, found
//! out or untrusted from the start, the output has the law of the target. The seeds of these requests are the verifier's
//! own, since nothing else is audited. An honest draft fails with a probability of one in a million, and the chi-square
//! thresholds are those of [`sampling`](crate::sampling).
//!
//! How long each lie lasts is printed. The same without the services, for longer: `shared/speculation/tests/honesty`.

use futures::{StreamExt, stream};
use specfleet_client::v1::{
    AcceptanceRule, DraftTrust, DraftVersion, GenerateRequest, SamplingParams, SpeculationOptions,
};
use specfleet_speculation::TokenId;
use specfleet_tests::{
    in_process::{Settings, Verifier},
    lying_draft::{Lie, LyingDraft},
    outcome::Outcome,
    report,
    scripted_pair::{ScriptedPair, loaded, model, request, settings, tokenizer},
};
use specfleet_verifier_service::UntrustedDraft;

use crate::sampling::{
    draws::{Plan, Sample},
    law::Law,
};

const RISING: &str = include_str!("sampling/tables/rising.txt");
const FALLING: &str = include_str!("sampling/tables/falling.txt");

/// A lie, and models and parameters under which it is one.
struct Case {
    lie: Lie,
    target: &'static str,
    draft: &'static str,
    sampling: SamplingParams,
}

impl Case {
    fn new(lie: Lie) -> Self {
        Self { lie, target: RISING, draft: FALLING, sampling: SamplingParams::default() }
    }

    /// One for each lie.
    fn all() -> [Self; 9] {
        Lie::ALL.map(|lie| match lie {
            // Logits of 10 and 10.03, one number in bf16, at a temperature that tells them apart.
            Lie::BeliefInBf16 => Self {
                target: "* -> 0:1 1:1",
                draft: "* -> 0:22026.47 1:22697.27",
                sampling: SamplingParams { temperature: Some(0.1), ..SamplingParams::default() },
                ..Self::new(lie)
            },
            Lie::SuppressesEnd => Self { target: "* -> 0:3 1:3 15:1", draft: "* -> 0:3 1:3 15:2", ..Self::new(lie) },
            Lie::PenaltiesOnOneSide => Self {
                target: "* -> 0:1 1:1 2:1",
                draft: "* -> 0:3 1:2 2:1",
                sampling: SamplingParams { frequency_penalty: Some(0.5), ..SamplingParams::default() },
                ..Self::new(lie)
            },
            _ => Self::new(lie),
        })
    }

    async fn start(&self, settings: Settings) -> Verifier {
        let draft = LyingDraft::new(self.draft, &tokenizer(), self.lie).serve();
        let drafts = vec![("lying".to_owned(), draft)];
        let verifier = Verifier::start(loaded(model(self.target)), drafts, settings.verifier);
        verifier.wait_for_drafts().await;
        verifier
    }

    /// Runs requests until the draft is quarantined. Each of them must succeed, and so must those that run meanwhile.
    async fn catch(&self, verifier: &Verifier) -> DraftVersion {
        const MAX_REQUESTS: usize = 2000;
        const CONCURRENCY: usize = 8;
        let requests = (0..MAX_REQUESTS).map(|index| self.request(index));
        let mut outcomes =
            stream::iter(requests).map(|request| Outcome::of(&verifier.client, request)).buffered(CONCURRENCY);
        while let Some(outcome) = outcomes.next().await {
            outcome.expect("a lying draft fails no request");
            let version = only_version(verifier).await;
            if version.trust() == DraftTrust::Quarantined {
                outcomes
                    .take(CONCURRENCY)
                    .for_each(async |outcome| drop(outcome.expect("nor does its quarantine")))
                    .await;
                return version;
            }
        }
        panic!("{:?} was not found out: {:?}", self.lie, only_version(verifier).await);
    }

    fn request(&self, index: usize) -> GenerateRequest {
        let sampling = Some(self.sampling.clone());
        GenerateRequest { sampling, ..request(&[3, index as TokenId % 3], 100) }
    }

    /// Draws of single tokens from a verifier that does not believe its draft.
    async fn assert_law(&self, verifier: &Verifier) -> f64 {
        let plan = Plan { sampling: self.sampling.clone(), ..Plan::default() };
        let sample = Sample::draw(&verifier.client, &plan).await;
        let test = sample.judge(&Law::new(self.target, &self.sampling), 1);
        assert!(test.passes(), "{:?}: {test}", self.lie);
        sample.share_accepted().expect("the draft takes part, believed or not")
    }
}

async fn only_version(verifier: &Verifier) -> DraftVersion {
    let versions = verifier.client.draft_versions().await.expect("the verifier answers");
    let [version] = &versions[..] else { panic!("not one version: {versions:?}") };
    version.clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_lie_is_found_out_and_no_request_fails() {
    let mut lines = Vec::new();
    for case in Case::all() {
        let verifier = case.start(settings()).await;
        let version = case.catch(&verifier).await;
        let honesty = version.honesty.unwrap();
        let metric = |name: &str| verifier.metric(&format!("specfleet_verifier_draft_{name}"), &version.version_id);
        assert_eq!(metric("quarantined"), 1.0);
        assert!(honesty.rank_evidence.max(honesty.acceptance_evidence) >= honesty.threshold, "{version:?}");
        assert_eq!(metric("positions_audited_total"), honesty.positions as f64);
        assert!(version.detail.contains("not drawn from the q it reports"), "{version:?}");
        lines.push([
            format!("{:?}", case.lie),
            honesty.positions.to_string(),
            honesty.accepted.to_string(),
            format!("{:.1}", honesty.expected_accepted),
            format!("{:.1}", honesty.acceptance_evidence),
            format!("{:.1}", honesty.rank_evidence),
        ]);
    }
    let header = ["", "found out after", "accepted", "expected", "evidence: acceptance", "rank"];
    report::print("Lies, and the tested positions until the draft was quarantined", header, lines);
}

/// And a draft that proposes the target's least favourite over and over brings next to nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_its_quarantine_a_draft_cannot_bend_the_output() {
    for (lie, expected) in [(Lie::TemperatureOnOneSide, 0.0391), (Lie::GreedyReportsSoftmax, 1.0 / 136.0)] {
        let case = Case::new(lie);
        let verifier = case.start(settings()).await;
        let caught = case.catch(&verifier).await;
        let accepted = case.assert_law(&verifier).await;
        assert!((accepted - expected).abs() < 0.012, "{lie:?}: {accepted} accepted, not {expected}");
        let after = only_version(&verifier).await;
        assert_eq!(after.honesty, caught.honesty, "what is not believed is not audited");
        assert!(after.tokens_proposed > caught.tokens_proposed, "but it is used");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_untrusted_draft_cannot_bend_the_output_from_its_first_token() {
    let case = Case::new(Lie::GreedyReportsSoftmax);
    let version_id = LyingDraft::new(case.draft, &tokenizer(), case.lie).version_id().to_owned();
    for untrusted in ["all", &version_id[..12]] {
        let mut settings = settings();
        settings.verifier.untrusted_drafts = vec![untrusted.parse::<UntrustedDraft>().unwrap()];
        let verifier = case.start(settings).await;
        case.assert_law(&verifier).await;
        let version = only_version(&verifier).await;
        assert_eq!((version.trust(), version.honesty.unwrap().positions), (DraftTrust::Untrusted, 0));
        assert!(version.tokens_accepted > 0 && version.tokens_accepted < version.tokens_proposed / 20, "{version:?}");
    }
}

/// Point masses cost acceptance: of a draft that draws from q, the sum of p q passes instead of the sum of min(p, q).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_honest_draft_is_believed_and_accepts_what_it_should() {
    let pair = ScriptedPair::start(RISING, FALLING, settings()).await;
    let plan = Plan::default();
    let believed = Sample::draw(&pair.client, &plan).await.share_accepted().unwrap();
    let version = only_version(&pair.verifier).await;
    let honesty = version.honesty.unwrap();
    assert_eq!(version.trust(), DraftTrust::Trusted, "{version:?}");
    assert!(honesty.positions > 1000, "{version:?}");
    let metric = |name: &str| pair.verifier.metric(&format!("specfleet_verifier_draft_{name}"), &version.version_id);
    assert_eq!(metric("quarantined"), 0.0);
    assert_eq!(metric("positions_audited_total"), honesty.positions as f64);
    assert_eq!(metric("positions_audited_accepted_total"), honesty.accepted as f64);
    assert!((metric("positions_audited_expected_total") - honesty.expected_accepted).abs() < 1e-6);

    let mut settings = settings();
    settings.verifier.untrusted_drafts = vec![UntrustedDraft::All];
    let pair = ScriptedPair::start(RISING, FALLING, settings).await;
    let judged_as_points = Sample::draw(&pair.client, &plan).await.share_accepted().unwrap();
    assert!((believed - 0.5294).abs() < 0.03, "{believed}");
    assert!((judged_as_points - 0.0441).abs() < 0.012, "{judged_as_points}");
}

/// With a seed that a client chose the same draws can be had again and again, and would pile up as evidence.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_can_be_repeated_is_evidence() {
    let pair = ScriptedPair::start(RISING, FALLING, settings()).await;
    for rule in [AcceptanceRule::Standard, AcceptanceRule::DraftInvariant] {
        for _ in 0..50 {
            let speculation = Some(SpeculationOptions { rule: rule.into(), ..SpeculationOptions::default() });
            let outcome = pair.generate(GenerateRequest { seed: Some(7), speculation, ..request(&[3], 30) }).await;
            assert!(outcome.n_tested() > 0);
        }
    }
    let version = only_version(&pair.verifier).await;
    assert_eq!((version.trust(), version.honesty.unwrap().positions), (DraftTrust::Trusted, 0));
}
