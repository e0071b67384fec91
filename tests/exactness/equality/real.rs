//! The real models on the CPU: whoever computes the row after a prefix gets the same bits.
//!
//! Each case decodes some prompts plainly and alone, without services, and then lets verifiers repeat them in every way
//! that could matter. A notebook stands where the target stands and files each row of logits under its prefix: at the
//! end there must be one row for each committed position, however many requests computed it.

use futures::{StreamExt, stream};
use specfleet_client::v1::{GenerateRequest, SamplingParams, SpeculationReport};
use specfleet_model::load::{Dtype, Operators};
use specfleet_tests::{
    drafts::{self, Drafts},
    in_process::Verifier,
    known_text::KnownText,
    outcome::{Outcome, leave_after},
    plain, real_models,
    recording::{Notebook, Pass},
    report, scripted_pair,
};

use super::Text;

/// Requests at the same time.
const CROWD: usize = 16;
/// Rows of a pass where prompts come in chunks.
const CHUNK: usize = 24;
/// KV memory for a crowd of the longest sequences.
const ROOMY: usize = 16 * 1024;

#[tokio::test(flavor = "multi_thread")]
async fn bf16_by_the_fused_operators() {
    check(Dtype::Bf16, Operators::Fused, [scale(4, 32, 5), scale(50, 200, 5)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f32_by_the_fused_operators() {
    check(Dtype::F32, Operators::Fused, [scale(2, 32, 5), scale(50, 200, 5)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bf16_by_libtorchs_operators() {
    check(Dtype::Bf16, Operators::Libtorch, [scale(1, 20, 5), scale(50, 200, 2)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f32_by_libtorchs_operators() {
    check(Dtype::F32, Operators::Libtorch, [scale(1, 20, 5), scale(50, 200, 2)]).await;
}

/// How much is run.
#[derive(Clone, Copy)]
struct Scale {
    n_prompts: usize,
    /// Tokens of each text.
    n_tokens: usize,
    /// Drafts for each text, which take turns where these are not all there are.
    n_drafts: usize,
}

fn scale(n_prompts: usize, n_tokens: usize, n_drafts: usize) -> Scale {
    Scale { n_prompts, n_tokens, n_drafts }
}

async fn check(dtype: Dtype, operators: Operators, [short, long]: [Scale; 2]) {
    let scale = if real_models::long_form() { long } else { short };
    let _turn = real_models::turn().await;
    let draft = real_models::draft();
    let Some(target) = real_models::target(dtype, operators, ROOMY) else { return };
    let notebook = Notebook::new();
    let mut target = notebook.observe(target);
    let known = KnownText::new(target.model.description().vocab_size);

    notebook.turn_to("plain decoding without services");
    let mut texts = Vec::new();
    for prompt in real_models::prompts(&target, scale.n_prompts) {
        let tokens = plain::greedy(&mut *target.model, &prompt, scale.n_tokens);
        known.learn(&prompt, &tokens);
        texts.push(Text { prompt, tokens });
    }
    let longest_prompt = texts.iter().map(|text| text.prompt.len()).max().unwrap();
    let drafts = Drafts::of_every_kind(draft, &known);
    let mut case = Case { notebook, texts, drafts, scale, runs: Runs::default() };

    // Prompts in one pass.
    let mut settings = scripted_pair::settings().verifier;
    (settings.step_tokens, settings.max_draft_length) = (longest_prompt.max(CROWD * 9), 8);
    let verifier = Verifier::start(target, case.drafts.channels(), settings.clone());
    verifier.wait_for_drafts().await;
    case.alone(&verifier).await;
    case.in_a_crowd(&verifier, "a crowd", Case::of_all_lengths).await;
    assert!(case.notebook.largest_pass().n_sequences > CROWD / 2, "{:?}", case.notebook.largest_pass());
    drop(verifier);

    // Prompts in chunks, and half of them with a part of the text that others decode.
    settings.step_tokens = CHUNK;
    assert!(longest_prompt > CHUNK, "{longest_prompt}");
    let target = real_models::target(dtype, operators, ROOMY).unwrap();
    let verifier = Verifier::start(case.notebook.observe(target), case.drafts.channels(), settings);
    verifier.wait_for_drafts().await;
    case.in_a_crowd(&verifier, "a crowd with prompts in chunks", Case::continuing).await;

    assert!(case.runs.n_reused > 0, "no prompt began as another");
    case.judge(&format!("{dtype}, {operators}"));
}

/// What is compared, and what has been run.
struct Case {
    notebook: Notebook,
    texts: Vec<Text>,
    drafts: Drafts,
    scale: Scale,
    runs: Runs,
}

/// Totals over all requests.
#[derive(Default)]
struct Runs {
    n_requests: usize,
    n_positions: usize,
    n_proposed: u32,
    n_accepted: u32,
    n_reused: u32,
    largest_pass: Pass,
}

/// One request.
#[derive(Clone, Copy)]
struct Job {
    text: usize,
    /// `None` is plain decoding.
    draft: Option<usize>,
    draft_length: u32,
    n_tokens: usize,
    /// Tokens of the text that are a part of the prompt.
    n_given: usize,
    /// The client goes away before the end.
    leaves: bool,
}

impl Case {
    /// Each text once plainly and once with each of its drafts, whose lengths take turns.
    fn jobs(&self) -> Vec<Job> {
        (0..self.texts.len()).flat_map(|text| self.ways(text)).collect()
    }

    fn ways(&self, text: usize) -> Vec<Job> {
        let Scale { n_tokens, n_drafts, .. } = self.scale;
        let plain = Job { text, draft: None, draft_length: 0, n_tokens, n_given: 0, leaves: false };
        let drafted = (0..n_drafts).map(|index| {
            let draft = (text * n_drafts + index) % self.drafts.len();
            let draft_length = 1 + ((text + 3 * draft) % 8) as u32;
            Job { draft: Some(draft), draft_length, ..plain }
        });
        std::iter::once(plain).chain(drafted).collect()
    }

    /// One request at a time: another way for each text, since all follow in the crowd.
    async fn alone(&mut self, verifier: &Verifier) {
        for text in 0..self.texts.len() {
            let ways = self.ways(text);
            let job = ways[text % ways.len()];
            self.notebook.turn_to(&format!("alone, {}", self.describe(job)));
            let ran = self.run(verifier, job).await;
            self.runs.add(job, ran);
        }
    }

    /// Sixteen at a time, which join and leave at different times; some clients leave early.
    async fn in_a_crowd(&mut self, verifier: &Verifier, name: &str, change: impl Fn(Vec<Job>) -> Vec<Job>) {
        self.notebook.turn_to(name);
        let mut jobs = self.jobs();
        while jobs.len() < CROWD {
            jobs.extend(self.jobs());
        }
        jobs.iter_mut().skip(3).step_by(7).for_each(|job| job.leaves = true);
        let jobs = change(jobs);
        let this = &*self;
        let run = |job| async move { (job, this.run(verifier, job).await) };
        let ran: Vec<_> = stream::iter(jobs).map(run).buffer_unordered(CROWD).collect().await;
        for (job, ran) in ran {
            self.runs.add(job, ran);
        }
        self.runs.largest_pass = self.runs.largest_pass.max(self.notebook.largest_pass());
        verifier.wait_until_idle().await;
    }

    /// A quarter of the text, a half, three quarters, all of it.
    fn of_all_lengths(mut jobs: Vec<Job>) -> Vec<Job> {
        for (index, job) in jobs.iter_mut().enumerate() {
            job.n_tokens = job.n_tokens * (1 + index % 4) / 4;
        }
        jobs
    }

    /// Every other one begins in the middle of its text: what others decode token by token is a part of its prompt. In
    /// the long form a fifth of them is enough.
    fn continuing(mut jobs: Vec<Job>) -> Vec<Job> {
        jobs.iter_mut().step_by(2).for_each(|job| job.n_given = job.n_tokens / 2);
        let step = if real_models::long_form() { 5 } else { 1 };
        jobs.into_iter().step_by(step).collect()
    }

    /// Runs a request and compares its tokens. Returns what it reports, unless the client leaves.
    async fn run(&self, verifier: &Verifier, job: Job) -> Option<Outcome> {
        let text = &self.texts[job.text];
        let n_tokens = job.n_tokens - job.n_given;
        let sampling = SamplingParams { temperature: Some(0.0), repetition_penalty: Some(1.0), ..Default::default() };
        let request = GenerateRequest {
            sampling: Some(sampling),
            ignore_eos: true,
            speculation: Some(job.draft.map_or_else(drafts::off, |draft| self.drafts.only(draft, job.draft_length))),
            ..scripted_pair::request(&text.prefix(job.n_given), n_tokens as u32)
        };
        let who = self.describe(job);
        if job.leaves {
            let tokens = leave_after(&verifier.client, request, n_tokens / 2).await.unwrap();
            text.assert_goes_on(job.n_given, &tokens, &self.notebook, &who);
            return None;
        }
        let outcome = Outcome::of(&verifier.client, request).await.unwrap();
        assert_eq!(outcome.token_ids().len(), n_tokens, "{who}");
        text.assert_goes_on(job.n_given, &outcome.token_ids(), &self.notebook, &who);
        self.assert_drafted(job, outcome.speculation());
        Some(outcome)
    }

    /// Drafts that know the text do as they should: otherwise this would test less than it says.
    fn assert_drafted(&self, job: Job, report: &SpeculationReport) {
        let Some(draft) = job.draft else { return assert_eq!(report.proposed, 0) };
        match self.drafts.name(draft) {
            "perfect" => assert!(report.accepted > 0 && report.corrected == 0, "{report:?}"),
            "always wrong" => assert!(report.corrected > 0 && report.accepted == 0, "{report:?}"),
            _ => {}
        }
    }

    fn describe(&self, job: Job) -> String {
        let draft = job.draft.map_or("plain".to_owned(), |draft| {
            format!("draft \"{}\", length {}", self.drafts.name(draft), job.draft_length)
        });
        format!("text {}, {draft}", job.text)
    }

    fn judge(&self, name: &str) {
        for text in &self.texts {
            // In the crowd each way ran through the first quarter, but for at most one whose client left before. Plain
            // decoding without services makes up for that.
            let Scale { n_tokens, n_drafts, .. } = self.scale;
            text.assert_equal_bits(n_tokens / 4, n_drafts + 1, &self.notebook);
            text.assert_equal_bits(n_tokens, 2, &self.notebook);
        }
        let runs = &self.runs;
        let figures = [
            ("texts", format!("{} of {} tokens", self.texts.len(), self.scale.n_tokens)),
            ("requests", runs.n_requests.to_string()),
            ("committed positions", runs.n_positions.to_string()),
            ("rows of logits", self.notebook.n_rows().to_string()),
            ("draft tokens proposed, accepted", format!("{}, {}", runs.n_proposed, runs.n_accepted)),
            ("prompt tokens reused", runs.n_reused.to_string()),
            ("largest pass", format!("{} sequences, {} rows", runs.largest_pass.n_sequences, runs.largest_pass.n_rows)),
        ];
        let rows = figures.map(|(what, figure)| [what.to_owned(), figure]);
        report::print(&format!("Greedy text and logits, {name}"), ["", name], rows);
    }
}

impl Runs {
    fn add(&mut self, job: Job, ran: Option<Outcome>) {
        self.n_requests += 1;
        let Some(outcome) = ran else { return };
        self.n_positions += job.n_tokens - job.n_given;
        self.n_proposed += outcome.speculation().proposed;
        self.n_accepted += outcome.speculation().accepted;
        self.n_reused += outcome.started.reused_prompt_tokens;
    }
}
