//! Everything that can be set, each as a flag and as an environment variable.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use clap::Parser;
use specfleet_grammar::DEFAULT_PLACES;
use specfleet_model::checkpoint::GenerationDefaults;
use specfleet_protocol::channel::{self, ChannelOptions};
use specfleet_service::{ListenArgs, ModelArgs, Problems, TelemetryArgs, problems};

use crate::{Options, Reasoning, ToolCalls, UntrustedDraft};

/// More draft tokens a round than this never paid for anybody: acceptance falls with every position.
const DRAFT_LENGTH_CEILING: usize = 64;

/// Verifies draft tokens with the target model and streams the verified ones to clients.
#[derive(Parser, Clone, Debug)]
#[command(name = "verifier-service", version)]
pub struct Config {
    /// The target model.
    #[command(flatten)]
    pub model: ModelArgs,

    /// Draft services.
    #[command(flatten)]
    pub drafts: DraftArgs,

    /// How much runs at a time.
    #[command(flatten)]
    pub engine: EngineArgs,

    /// How text is sampled where a request does not say.
    #[command(flatten)]
    pub sampling: SamplingArgs,

    /// What there is to be told from plain text.
    #[command(flatten)]
    pub dialect: DialectArgs,

    /// Ports.
    #[command(flatten)]
    pub listen: ListenArgs<50051, 9464>,

    /// The port for HTTP.
    #[command(flatten)]
    pub http: HttpArgs,

    /// Logs, traces, metrics.
    #[command(flatten)]
    pub telemetry: TelemetryArgs,
}

/// Who drafts, and how much to expect of them.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Drafting")]
pub struct DraftArgs {
    /// A draft service, HOST:PORT; may be given several times or separated by commas, in order of preference. Without
    /// one, decoding is plain.
    #[arg(long = "draft", env = "SPECFLEET_DRAFTS", value_name = "ENDPOINT", value_delimiter = ',')]
    pub endpoints: Vec<String>,

    /// Draft tokens to ask for in a round, unless a request says otherwise. 5 by default: what fits --verify-rows beside the
    /// newest token. A draft proposes fewer where it doubts that they pass.
    #[arg(long, env = "SPECFLEET_DRAFT_LENGTH", value_name = "TOKENS", default_value_t = 5)]
    pub draft_length: usize,

    /// The most draft tokens a round that a request may ask for.
    #[arg(long, env = "SPECFLEET_MAX_DRAFT_LENGTH", value_name = "TOKENS", default_value_t = 8)]
    pub max_draft_length: usize,

    /// How long a round waits for its proposal before it goes on without, unless a request says otherwise. 30ms by
    /// default: many times what a draft on the same network takes, and the most that a hanging one costs a request, once.
    #[arg(long, env = "SPECFLEET_DRAFT_WAIT", value_name = "TIME", default_value = "30ms",
        value_parser = humantime::parse_duration)]
    pub draft_wait: Duration,

    /// A draft version whose reports are not believed: its id, or the first 8 or more digits of it, or `all`; may be given
    /// several times or separated by commas. The verifier judges its tokens as point masses, which is exact however they
    /// were chosen and accepts fewer of them. Other versions are believed and audited while they serve; one that the audit
    /// refutes is treated in the same way until the verifier restarts, see `specctl drafts`.
    #[arg(long = "untrusted-draft", env = "SPECFLEET_UNTRUSTED_DRAFTS", value_name = "VERSION", value_delimiter = ',')]
    pub untrusted: Vec<UntrustedDraft>,
}

/// Where HTTP is served.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Listening")]
pub struct HttpArgs {
    /// Address for HTTP: the API of OpenAI's clients. Loopback by default, because calls are neither encrypted nor
    /// authenticated; 0.0.0.0:PORT serves the network.
    #[arg(long, env = Self::LISTEN_ENV, value_name = "IP:PORT", default_value_t = (Ipv4Addr::LOCALHOST, 8000).into())]
    pub http_listen: SocketAddr,
}

/// How much runs at a time.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Engine")]
pub struct EngineArgs {
    /// Requests that run at the same time; KV memory can set a lower limit.
    #[arg(long, env = "SPECFLEET_MAX_SEQUENCES", value_name = "REQUESTS", default_value_t = 64)]
    pub max_sequences: usize,

    /// Requests that may wait beyond those. More are refused, so that clients turn to another instance instead of waiting
    /// here for longer than they would there.
    #[arg(long, env = "SPECFLEET_MAX_QUEUE", value_name = "REQUESTS", default_value_t = 256)]
    pub max_queue: usize,

    /// How long a request may be expected to wait, going by how quickly requests end at that time; where it would take
    /// longer it is refused, and told when to come again. 60s by default: people and clients give up in about a minute.
    #[arg(long, env = "SPECFLEET_MAX_QUEUE_WAIT", value_name = "TIME", default_value = "60s",
        value_parser = humantime::parse_duration)]
    pub max_queue_wait: Duration,

    /// Rows of one forward pass: rounds and prompt chunks together. 128 by default: on a CPU, from about 16 rows on, the
    /// time of a pass grows with its rows, so that this bounds how long a long prompt holds up everybody else's next
    /// token. On a GPU 1024 or more is better.
    #[arg(long, env = "SPECFLEET_STEP_TOKENS", value_name = "TOKENS", default_value_t = 128)]
    pub step_tokens: usize,

    /// Rows of rounds in one forward pass up to which drafts are asked for; with more requests running, drafts get
    /// shorter, down to none, and who comes then opens no session. 6 by default: on a CPU so many rows cost little more
    /// than one, because the pass waits for weights from memory; beyond, draft rows cost more than they bring. On a GPU 64
    /// or more is better.
    #[arg(long, env = "SPECFLEET_VERIFY_ROWS", value_name = "ROWS", default_value_t = 6)]
    pub verify_rows: usize,

    /// Continuations with a grammar (structured output, tools) that may run or wait at a time; more are refused. Usually one
    /// takes about a megabyte, and none more than 16 MiB: 2 GiB all together, by default.
    #[arg(long, env = "SPECFLEET_MAX_GRAMMARS", value_name = "REQUESTS", default_value_t = DEFAULT_PLACES)]
    pub max_grammars: usize,
}

/// How text is sampled where a request does not say.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Sampling of requests that leave it open")]
pub struct SamplingArgs {
    /// Temperature; 0 is greedy. Otherwise what the checkpoint's generation config recommends, or 1. GGUF files recommend
    /// nothing, and a small model at 1 writes nonsense.
    #[arg(long, env = "SPECFLEET_DEFAULT_TEMPERATURE", value_name = "T")]
    pub default_temperature: Option<f32>,

    /// Nucleus mass (top-p). Otherwise what the checkpoint's generation config recommends, or 1.
    #[arg(long, env = "SPECFLEET_DEFAULT_TOP_P", value_name = "P")]
    pub default_top_p: Option<f32>,
}

/// What there is to be told from plain text, over HTTP.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Chat")]
pub struct DialectArgs {
    /// In which form the model calls functions. Recognised by the chat template and the vocabulary, unless set.
    #[arg(long, env = "SPECFLEET_TOOL_CALLS", value_enum, default_value_t)]
    pub tool_calls: ToolCalls,

    /// How the model thinks before it answers. Recognised by the chat template and the vocabulary, unless set.
    #[arg(long, env = "SPECFLEET_REASONING", value_enum, default_value_t)]
    pub reasoning: Reasoning,
}

impl Config {
    /// Checks every setting.
    ///
    /// # Errors
    /// All that cannot be used, at once.
    pub fn validate(&self) -> Result<(), problems::Error> {
        let mut problems = Problems::new();
        problems.check("--model", self.model.model.is_some(), || {
            "is missing: give a .gguf file or a folder with config.json and safetensors".to_owned()
        });
        self.model.validate(&mut problems);
        self.drafts.validate(&mut problems);
        self.engine.validate(self.drafts.max_draft_length, &mut problems);
        self.sampling.validate(&mut problems);
        self.listen.validate(&mut problems);
        self.http.validate(&self.listen, &mut problems);
        self.telemetry.validate(&mut problems);
        problems.finish()
    }

    /// What the service is started with.
    pub fn options(&self) -> Options {
        Options {
            max_sequences: self.engine.max_sequences,
            max_queue: self.engine.max_queue,
            max_queue_wait: self.engine.max_queue_wait,
            step_tokens: self.engine.step_tokens,
            verify_rows: self.engine.verify_rows,
            max_grammars: self.engine.max_grammars,
            draft_length: self.drafts.draft_length,
            max_draft_length: self.drafts.max_draft_length,
            draft_wait: self.drafts.draft_wait,
            untrusted_drafts: self.drafts.untrusted.clone(),
            tool_calls: self.dialect.tool_calls,
            reasoning: self.dialect.reasoning,
        }
    }
}

impl DraftArgs {
    fn validate(&self, problems: &mut Problems) {
        for endpoint in &self.endpoints {
            if let Err(error) = channel::endpoint(endpoint, &ChannelOptions::default()) {
                problems.add("--draft", format!("cannot be used: {error}"));
            }
        }
        let (length, most) = (self.draft_length, self.max_draft_length);
        problems.check("--max-draft-length", most <= DRAFT_LENGTH_CEILING, || {
            format!("is {most}, must be at most {DRAFT_LENGTH_CEILING}")
        });
        problems.check("--draft-length", length <= most, || {
            format!("is {length}, must be at most the {most} of --max-draft-length")
        });
    }
}

impl HttpArgs {
    /// Flag of [`http_listen`](Self::http_listen), for error texts.
    pub const LISTEN_FLAG: &'static str = "--http-listen";
    /// Environment variable of [`http_listen`](Self::http_listen).
    pub const LISTEN_ENV: &'static str = "SPECFLEET_HTTP_LISTEN";

    fn validate<const GRPC: u16, const METRICS: u16>(
        &self,
        listen: &ListenArgs<GRPC, METRICS>,
        problems: &mut Problems,
    ) {
        let address = self.http_listen;
        for (taken, what) in [(listen.listen, "gRPC"), (listen.metrics_listen, "metrics")] {
            problems.check(Self::LISTEN_FLAG, address != taken || address.port() == 0, || {
                format!("is {address}, which is also the address for {what}")
            });
        }
    }
}

impl EngineArgs {
    fn validate(&self, max_draft_length: usize, problems: &mut Problems) {
        problems.check("--max-sequences", self.max_sequences > 0, || "is 0, must be at least 1".to_owned());
        let needed = max_draft_length + 1;
        problems.check("--step-tokens", self.step_tokens >= needed, || {
            format!("is {}, must be at least {needed}, one round of --max-draft-length", self.step_tokens)
        });
    }
}

impl SamplingArgs {
    fn validate(&self, problems: &mut Problems) {
        if let Some(temperature) = self.default_temperature {
            problems.check("--default-temperature", temperature.is_finite() && temperature >= 0.0, || {
                format!("is {temperature}, must be a number of at least 0")
            });
        }
        if let Some(top_p) = self.default_top_p {
            problems.check("--default-top-p", top_p > 0.0 && top_p <= 1.0, || {
                format!("is {top_p}, must be above 0 and at most 1")
            });
        }
    }

    /// Puts what is set in place of the checkpoint's recommendation.
    pub(crate) fn apply(&self, generation: &mut GenerationDefaults) {
        generation.temperature = self.default_temperature.or(generation.temperature);
        generation.top_p = self.default_top_p.or(generation.top_p);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn parse(arguments: &[&str]) -> Config {
        let arguments = ["verifier-service", "--model", "m.gguf"].iter().chain(arguments);
        Config::try_parse_from(arguments).unwrap()
    }

    #[test]
    fn drafts_can_be_listed_or_repeated() {
        let config = parse(&["--draft", "a:1,b:2", "--draft", "c:3"]);
        assert_eq!(config.drafts.endpoints, ["a:1", "b:2", "c:3"]);
    }

    #[test]
    fn untrusted_drafts_are_versions_or_all() {
        let config = parse(&["--untrusted-draft", "0123abcd,4567abcd", "--untrusted-draft", "all"]);
        let version = |id: &str| UntrustedDraft::Version(id.to_owned());
        assert_eq!(config.options().untrusted_drafts, [version("0123abcd"), version("4567abcd"), UntrustedDraft::All]);
        let error = Config::try_parse_from(["verifier-service", "--untrusted-draft", "small-draft"]).unwrap_err();
        assert!(error.to_string().contains("version id"), "{error}");
    }

    #[test]
    fn every_bad_setting_is_reported() {
        let bad = [
            ("--draft", "https://a:1"),
            ("--draft-length", "9"),
            ("--max-sequences", "0"),
            ("--step-tokens", "8"),
            ("--default-temperature", "nan"),
            ("--default-top-p", "0"),
            ("--http-listen", "127.0.0.1:50051"),
        ];
        let config = parse(&bad.map(|(flag, value)| [flag, value]).concat());
        let text = config.validate().unwrap_err().to_string();
        for (flag, _) in bad {
            assert!(text.contains(flag), "{flag} in {text}");
        }
    }
}
