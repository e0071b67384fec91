//! The command line. Its doc comments are the help text.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::audit::AuditArgs;
use crate::bench::BenchArgs;
use crate::options::RequestFlags;
use crate::terminal::ColorChoice;

/// Talk to a specfleet verifier: verified text from a target model, drafted by a smaller one.
#[derive(Debug, Parser)]
#[command(name = "specctl", version, max_term_width = 110, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  specctl generate 'Why is the sky blue?'       stream an answer
  specctl generate --show-rounds --stats 'Hi'   see which tokens the draft got right
  specctl chat                                  talk, with history
  specctl identity                              models and versions that are served
  specctl drafts                                are the drafts there, and honest?
  specctl bench --quick                         does speculation pay here?
  specctl audit                                 is the text what the target alone would write?";

/// What every command takes.
#[derive(Debug, Clone, Args)]
pub(crate) struct Global {
    /// Address of the verifier-service.
    #[arg(
        long,
        global = true,
        help_heading = "Everywhere",
        env = "SPECFLEET_VERIFIER",
        value_name = "URL",
        default_value = "http://127.0.0.1:50051"
    )]
    pub(crate) endpoint: String,
    /// Print JSON: one object, or one a line where things arrive one by one. Errors are an object too.
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub(crate) json: bool,
    /// When to use colour. `auto`: on a terminal, unless NO_COLOR is set.
    #[arg(
        long,
        global = true,
        help_heading = "Everywhere",
        value_enum,
        value_name = "WHEN",
        default_value_t = ColorChoice::Auto
    )]
    pub(crate) color: ColorChoice,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Generate(GenerateArgs),
    Chat(ChatArgs),
    Identity(IdentityArgs),
    Drafts(DraftsArgs),
    Bench(BenchArgs),
    Audit(AuditArgs),
}

/// Stream the answer to one prompt, or several answers to it.
///
/// The prompt is an argument, a file, or standard input (one trailing line break is dropped). It is sent as the user
/// message of a chat, or with --raw as plain text for the model to continue. Ctrl-C stops the generation and keeps what
/// came so far.
#[derive(Debug, Args)]
#[command(after_help = GENERATE_EXAMPLES)]
pub(crate) struct GenerateArgs {
    /// The prompt. Standard input when neither this nor --file is given.
    #[arg(conflicts_with = "file")]
    pub(crate) prompt: Option<String>,
    /// Read the prompt from this file.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Send the prompt as plain text, without the chat template.
    #[arg(long, conflicts_with = "system")]
    pub(crate) raw: bool,
    /// How many answers: independent continuations of the prompt, shown one after the other. With --seed each has a seed
    /// of its own that follows from it; the first is the answer one gets without this.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) n: u32,
    #[command(flatten)]
    pub(crate) answer: AnswerFlags,
    #[command(flatten)]
    pub(crate) request: RequestFlags,
}

const GENERATE_EXAMPLES: &str = "\
Examples:
  specctl generate 'Write a limerick about rivers.' --temperature 0.8 --seed 7
  specctl generate --raw 'The three primary colours are' --max-tokens 24 --temperature 0
  specctl generate --file notes.txt --system 'Summarise what the user sends in two sentences.'
  specctl generate --n 3 --max-tokens 40 'Suggest a name for a sailing boat.'
  specctl generate --json-schema '{\"type\": \"object\"}' 'Describe the sea as a JSON object.'
  specctl generate --regex '(yes|no)' 'Is water wet? Answer yes or no.'
  git diff | specctl generate --stats --max-tokens 200
  specctl generate --show-rounds --draft-length 3 'Count to twenty.'
  specctl generate --json 'Hi' | jq -r 'select(.event == \"committed\") | .tokens[].origin'";

/// Talk to the model; it remembers the conversation.
///
/// Ctrl-C stops an answer, not the program. Input that is not a terminal is taken line by line, each line one message.
#[derive(Debug, Args)]
#[command(after_help = CHAT_EXAMPLES)]
pub(crate) struct ChatArgs {
    #[command(flatten)]
    pub(crate) answer: AnswerFlags,
    #[command(flatten)]
    pub(crate) request: RequestFlags,
}

const CHAT_EXAMPLES: &str = "\
In the chat:
  /help    the commands    /stats   what speculation did for the last answer
  /reset   forget          /quit    leave (Ctrl-D too)

Examples:
  specctl chat --system 'You answer in one sentence.'
  printf 'My name is Ada.\\nWhat is my name?\\n' | specctl chat";

/// How an answer is shown.
#[derive(Debug, Args)]
pub(crate) struct AnswerFlags {
    /// A system message before the conversation.
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,
    /// Say at the end how fast it was and what speculation did (on standard error).
    #[arg(long)]
    pub(crate) stats: bool,
    /// Show where each token came from: accepted, corrected, bonus or plain, round by round.
    #[arg(long)]
    pub(crate) show_rounds: bool,
}

/// Show which models are served, their versions, and how the drafts do.
///
/// Asks the verifier, which knows its drafts; with --draft-endpoint asks draft-services directly instead.
#[derive(Debug, Args)]
#[command(after_help = IDENTITY_EXAMPLES)]
pub(crate) struct IdentityArgs {
    /// Ask this draft-service directly. May be repeated.
    #[arg(long, value_name = "URL")]
    pub(crate) draft_endpoint: Vec<String>,
}

const IDENTITY_EXAMPLES: &str = "\
Examples:
  specctl identity
  specctl identity --draft-endpoint http://127.0.0.1:50052
  specctl identity --json | jq -r '.drafts[].identity.version_id'    what --pin takes";

/// Show the drafts, how often they are right, and whether they draw from what they report.
///
/// The output is exact only if each draft token was drawn from the distribution q that came with it. While it serves, the
/// verifier tests that claim of every draft version. Requests with a seed are not audited, since they can be repeated.
#[derive(Debug, Args)]
#[command(after_help = DRAFTS_HELP)]
pub(crate) struct DraftsArgs {}

const DRAFTS_HELP: &str = "\
Trust:
  trusted      q is used as reported, and audited
  quarantined  the audit has refuted the claim: until the verifier restarts, tokens are
               judged as point masses, which is exact whatever is reported
  untrusted    the same by configuration (verifier-service --untrusted-draft)

Columns:
  passed, expected  of audited positions: the share that passed, and that should if q is true
  evidence          the most that has ever spoken against the claim, and the threshold, as
                    logarithms of a bet's winnings; an honest version reaches the threshold
                    with a probability of one in a million in all its life; \"points only\" for
                    a version that claims nothing, such as prompt lookup

Acceptance of a version that fell to less than half of what it used to be is said below the table.

Examples:
  specctl drafts
  specctl drafts --json | jq -r '.versions[] | select(.trust == \"quarantined\") | .version_id'";
