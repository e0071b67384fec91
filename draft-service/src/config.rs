//! The command line. Every flag is an environment variable too, and [`Config::validate`] reports all bad values at once.

use std::{fmt, num::NonZeroUsize, path::PathBuf, str::FromStr};

use clap::{Args, Parser, Subcommand, ValueEnum};
use specfleet_service::{ListenArgs, ModelArgs, Problems, TelemetryArgs, problems};
use specfleet_speculation::propose::Support;

use crate::{
    lookup::LONGEST_NGRAM,
    service::{LookupOptions, Options},
};

/// Proposes tokens for a verifier-service to decide about.
///
/// Without a subcommand it serves gRPC: specfleet.v1.DraftService, health and
/// reflection. It never talks to users, and needs no knowledge of its verifiers: they
/// find it, check its version and vocabulary, and open a session for each request.
///
/// Examples:
///
///   draft-service --model smollm2-draft
///
///   draft-service --model smollm2-draft --threads 1 --listen 0.0.0.0:50052
///
///   draft-service --engine lookup
///
///   draft-service assemble --target SmolLM2.gguf --draft draft.safetensors --out smollm2-draft
#[derive(Clone, Debug, Parser)]
#[command(
    name = "draft-service",
    version,
    max_term_width = 100,
    args_conflicts_with_subcommands = true,
    verbatim_doc_comment
)]
pub struct Cli {
    /// What to do instead of serving.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// How to serve.
    #[command(flatten)]
    pub serve: Config,
}

/// What else than serving this program does.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Write the complete folder of a distilled draft, which takes its embedding and tokenizer from the target.
    Assemble(AssembleArgs),
}

/// The parts of a distilled draft, and where the whole goes.
#[derive(Args, Clone, Debug)]
pub struct AssembleArgs {
    /// The target's checkpoint: a .gguf file, or a folder with config.json and safetensors.
    #[arg(long, value_name = "PATH")]
    pub target: PathBuf,
    /// The draft's own weights.
    #[arg(long, value_name = "FILE.safetensors")]
    pub draft: PathBuf,
    /// The folder to write, for --model.
    #[arg(long, value_name = "FOLDER")]
    pub out: PathBuf,
}

/// Where the draft-service listens by default.
pub type Listen = ListenArgs<50052, 9465>;

/// Everything that serving needs to know.
#[derive(Args, Clone, Debug)]
pub struct Config {
    /// What drafts: a language model, or a search for what followed the last tokens when they occurred before, or the search
    /// first and the model where it finds nothing. Lookup needs no model and fits every target; it pays where output repeats
    /// its input, as in editing, code and summaries. Part of the version.
    #[arg(long, env = "SPECFLEET_ENGINE", value_enum, default_value_t)]
    pub engine: EngineArg,

    /// Name for people: in logs, in listings, never compared. Default: the checkpoint's name.
    #[arg(long, env = "SPECFLEET_LABEL", value_name = "NAME")]
    pub label: Option<String>,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub model: ModelArgs,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub drafting: DraftingArgs,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub lookup: LookupArgs,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub listen: Listen,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub telemetry: TelemetryArgs,
}

/// How proposals are made.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Drafting")]
pub struct DraftingArgs {
    /// Ids that a draft token's distribution keeps: a number, or "full" for all of them in f32. More is closer to the
    /// model and longer on the wire; 64 ids take 200 to 400 bytes a token and cost about two percent of acceptance. Part
    /// of the version.
    #[arg(long, env = "SPECFLEET_SUPPORT", value_name = "N|full", default_value_t = SupportArg(Options::default().support))]
    pub support: SupportArg,

    /// Tokens in one proposal. Verifiers that ask for more get this many.
    #[arg(long, env = "SPECFLEET_MAX_DRAFT_LENGTH", value_name = "N", default_value_t = Options::default().max_draft_length)]
    pub max_draft_length: NonZeroUsize,

    /// Sessions held at once. One more closes the least recently used idle one, whose verifier goes on without a draft
    /// until it opens another. Beside its KV memory a session takes about 30 bytes for each token of its prefix, and another
    /// 40 with --engine lookup-model.
    #[arg(long, env = "SPECFLEET_MAX_SESSIONS", value_name = "N", default_value_t = Options::default().max_sessions)]
    pub max_sessions: NonZeroUsize,

    /// Sessions with a grammar (structured output, tools) at once; further ones are drafted for as if they had none. Usually
    /// one takes about a megabyte, and none more than 16 MiB: 2 GiB all together, by default.
    #[arg(long, env = "SPECFLEET_MAX_GRAMMARS", value_name = "N", default_value_t = Options::default().max_grammars)]
    pub max_grammars: usize,

    /// End a proposal when the chance that all of its tokens pass, as the model sees it, is below this: the next one would
    /// cost more than it brings. 0 always drafts what the verifier asks for. Looked at between draws, never at what was
    /// drawn. Part of the version.
    #[arg(long, env = "SPECFLEET_LEAST_CHANCE", value_name = "P", default_value_t = Options::default().least_chance)]
    pub least_chance: f64,

    /// Rows of long prefixes in one forward pass. More ingests prompts quicker, less holds up other sessions for
    /// shorter. A CPU is no more efficient beyond about 16, a GPU is.
    #[arg(long, env = "SPECFLEET_PREFILL_ROWS", value_name = "N", default_value_t = Options::default().prefill_rows)]
    pub prefill_rows: NonZeroUsize,
}

/// How prompt lookup looks.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Prompt lookup (--engine lookup, lookup-model)")]
pub struct LookupArgs {
    /// The longest n-gram that is searched for before shorter ones, or, before a model, the only one. Longer finds less and
    /// is right more often.
    #[arg(long, env = "SPECFLEET_LOOKUP_NGRAM", value_name = "N", default_value_t = LookupOptions::default().longest_ngram)]
    pub lookup_ngram: NonZeroUsize,

    /// Tokens that all sessions together may hold, at about 200 bytes each; also the longest sequence of one.
    #[arg(long, env = "SPECFLEET_LOOKUP_TOKENS", value_name = "N", default_value_t = LookupOptions::default().max_tokens)]
    pub lookup_tokens: NonZeroUsize,
}

/// What drafts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum EngineArg {
    /// A language model.
    #[default]
    Model,
    /// Prompt lookup.
    Lookup,
    /// Prompt lookup where the last --lookup-ngram tokens have occurred before, a language model elsewhere.
    LookupModel,
}

/// [`Support`] as a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SupportArg(pub Support);

impl FromStr for SupportArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "full" => Ok(Self(Support::Full)),
            number => number
                .parse()
                .map(|size| Self(Support::Top(size)))
                .map_err(|_| "must be a number of at least 1, or \"full\"".into()),
        }
    }
}

impl fmt::Display for SupportArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Support::Top(size) => size.fmt(f),
            Support::Full => f.write_str("full"),
        }
    }
}

/// A proposal longer than this is a mistake: no draft is accepted that often.
const LONGEST_DRAFT: usize = 256;

impl Config {
    /// Everything that cannot work, in one error.
    ///
    /// # Errors
    /// Lists each bad value with its flag and what it may be.
    pub fn validate(&self) -> Result<(), problems::Error> {
        let mut problems = Problems::new();
        match self.engine {
            EngineArg::Model | EngineArg::LookupModel => {
                problems.check("--model", self.model.model.is_some(), || {
                    "is missing; give the draft's checkpoint, or draft without one by --engine lookup".into()
                });
                self.model.validate(&mut problems);
            }
            EngineArg::Lookup => {
                problems.check("--model", self.model.model.is_none(), || {
                    "is given, but --engine lookup uses no model; leave out one of them".into()
                });
            }
        }
        let least_chance = self.drafting.least_chance;
        problems.check("--least-chance", (0.0..=1.0).contains(&least_chance), || {
            format!("is {least_chance}, must be from 0 to 1")
        });
        let draft_length = self.drafting.max_draft_length.get();
        problems.check("--max-draft-length", draft_length <= LONGEST_DRAFT, || {
            format!("is {draft_length}, must be at most {LONGEST_DRAFT}")
        });
        let ngram = self.lookup.lookup_ngram.get();
        problems
            .check("--lookup-ngram", ngram <= LONGEST_NGRAM, || format!("is {ngram}, must be at most {LONGEST_NGRAM}"));
        self.listen.validate(&mut problems);
        self.telemetry.validate(&mut problems);
        problems.finish()
    }

    pub(crate) fn options(&self) -> Options {
        let recalled_ngram = (self.engine == EngineArg::LookupModel).then_some(self.lookup.lookup_ngram);
        Options {
            support: self.drafting.support.0,
            max_draft_length: self.drafting.max_draft_length,
            max_sessions: self.drafting.max_sessions,
            max_grammars: self.drafting.max_grammars,
            prefill_rows: self.drafting.prefill_rows,
            least_chance: self.drafting.least_chance,
            recalled_ngram,
            ..Options::default()
        }
    }

    pub(crate) fn lookup_options(&self) -> LookupOptions {
        LookupOptions { longest_ngram: self.lookup.lookup_ngram, max_tokens: self.lookup.lookup_tokens }
    }

    /// The label that was given, or the checkpoint's.
    pub(crate) fn label_or<'a>(&'a self, name: &'a str) -> &'a str {
        self.label.as_deref().unwrap_or(name)
    }
}

#[cfg(test)]
mod tests;
