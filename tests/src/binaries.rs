//! The built programs on free ports of loopback.
//!
//! `tests/run` says where they and the models are: `SPECFLEET_TEST_BIN` is the folder of the binaries,
//! `SPECFLEET_TEST_TARGET` the target's checkpoint and `SPECFLEET_TEST_DRAFT` the draft's folder, and
//! `SPECFLEET_TEST_DRAFT_DTYPE` the dtype it runs with here.

use std::{
    fs::{self, File},
    io::Write,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{http, memory::resident_bytes};

/// How long a service may take to load its model and answer.
const START_LIMIT: Duration = Duration::from_secs(60);

/// A file or folder that `tests/run` names in an environment variable.
pub fn from_environment(variable: &str) -> PathBuf {
    let value = std::env::var_os(variable);
    PathBuf::from(value.unwrap_or_else(|| panic!("{variable} is not set: start the tests with tests/run")))
}

/// A command that runs one of the project's programs.
pub fn program(name: &str) -> Command {
    let mut command = Command::new(from_environment("SPECFLEET_TEST_BIN").join(name));
    command.stdin(Stdio::null()).env("NO_COLOR", "1");
    command
}

/// An address of loopback that nobody listens on.
pub fn free_address() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has a free port");
    listener.local_addr().expect("a bound listener has an address")
}

/// Runs a command to its end and returns its exit state, standard output and standard error.
pub fn finish(command: &mut Command) -> (bool, String, String) {
    let Output { status, stdout, stderr } = command.output().expect("the program can be started");
    (status.success(), String::from_utf8(stdout).expect("UTF-8"), String::from_utf8(stderr).expect("UTF-8"))
}

/// A service that runs; killed when dropped.
pub struct Service {
    child: Child,
    log: PathBuf,
    /// Its gRPC address.
    pub address: SocketAddr,
    /// The address that it serves HTTP at if it is a verifier.
    pub http: SocketAddr,
    /// The address of its page for scrapers.
    pub metrics: SocketAddr,
}

impl Service {
    /// Starts `name` with `arguments` on free ports, or on `address`.
    pub fn start(name: &str, address: Option<SocketAddr>, arguments: &[&str], logs: &Path) -> Self {
        let address = address.unwrap_or_else(free_address);
        let (http, metrics) = (free_address(), free_address());
        let log = logs.join(format!("{name}-{}.log", address.port()));
        let file = File::create(&log).expect("the log can be created");
        let child = program(name)
            .args(["--listen", &address.to_string(), "--metrics-listen", &metrics.to_string()])
            .args(arguments)
            .env("SPECFLEET_HTTP_LISTEN", http.to_string())
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()
            .expect("the service can be started");
        Self { child, log, address, http, metrics }
    }

    /// Ends the process without a chance to say anything.
    pub fn kill(&mut self) {
        self.child.kill().expect("the service runs");
        self.child.wait().expect("the service ends");
    }

    /// Asks the process to end and returns its exit code.
    pub fn terminate(mut self) -> Option<i32> {
        let (ended, ..) = finish(Command::new("kill").args(["-TERM", &self.child.id().to_string()]));
        assert!(ended, "SIGTERM can be sent");
        self.child.wait().expect("the service ends").code()
    }

    /// The value of a metric, of all series whose labels contain `label` together.
    pub fn metric(&self, name: &str, label: &str) -> f64 {
        let text = http::get(self.metrics, "/metrics");
        let series = text.lines().filter_map(|line| line.strip_prefix(name));
        let series = series.filter(|series| series.starts_with(['{', ' ']) && series.contains(label));
        series.filter_map(|series| series.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// What it holds in memory.
    pub fn resident_bytes(&self) -> u64 {
        resident_bytes(&self.child.id().to_string())
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).expect("the log can be read")
    }

    fn assert_running(&mut self) {
        if let Some(status) = self.child.try_wait().expect("the service can be asked") {
            panic!("a service ended with {status}; its log:\n{}", self.log());
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Pairs compute on all cores: two at a time would wait for each other's threads.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A verifier and a draft with the real models.
pub struct Pair {
    /// The verifier-service.
    pub verifier: Service,
    /// The draft-service.
    pub draft: Service,
    /// A draft-service of another version that the verifier knows too, in the second place.
    pub second_draft: Option<Service>,
    logs: tempfile::TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Pair {
    /// Starts both and waits until the verifier can use the draft.
    pub fn start() -> Self {
        Self::start_with(&[], |_| None)
    }

    /// The same with more arguments for the verifier.
    pub fn start_verifying(arguments: &[&str]) -> Self {
        Self::start_with(arguments, |_| None)
    }

    /// The same with a second draft: the first one's weights, rounded otherwise, which makes another version.
    pub fn start_with_two_versions() -> Self {
        let other = if draft_dtype() == "bf16" { "f32" } else { "bf16" };
        Self::start_with(&[], |logs| Some(start_draft(other, None, logs)))
    }

    fn start_with(arguments: &[&str], second_draft: impl FnOnce(&Path) -> Option<Service>) -> Self {
        // A test that failed while it had its turn says nothing about the next.
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let logs = tempfile::tempdir().expect("a folder for logs");
        let draft = start_draft(&draft_dtype(), None, logs.path());
        let second_draft = second_draft(logs.path());
        let drafts = [Some(&draft), second_draft.as_ref()].into_iter().flatten();
        let verifier = start_verifier(None, drafts, arguments, logs.path());
        let mut pair = Self { verifier, draft, second_draft, logs, _turn: turn };
        pair.wait_for_drafts("ready");
        pair
    }

    /// Starts the draft again where it was.
    pub fn restart_draft(&mut self) {
        self.draft = start_draft(&draft_dtype(), Some(self.draft.address), self.logs.path());
        self.wait_for_draft("ready");
    }

    /// Kills the verifier and starts it again where it was.
    pub fn restart_verifier(&mut self) {
        self.verifier.kill();
        let drafts = [Some(&self.draft), self.second_draft.as_ref()].into_iter().flatten();
        self.verifier = start_verifier(Some(self.verifier.address), drafts, &[], self.logs.path());
        self.wait_for_drafts("ready");
    }

    /// `specctl` with these arguments, addressed to the verifier.
    pub fn specctl(&self, arguments: &[&str]) -> Command {
        let mut command = program("specctl");
        command.args(["--endpoint", &format!("http://{}", self.verifier.address)]).args(arguments);
        command
    }

    /// The events of `specctl generate --json`.
    pub fn generate(&self, arguments: &[&str]) -> Vec<Value> {
        let (succeeded, output, error) = finish(self.specctl(&["generate", "--json"]).args(arguments));
        assert!(succeeded, "specctl failed: {output}{error}");
        json_lines(&output)
    }

    /// Whether rows have the same bits in every batch, which only the fused operators promise; says so if not.
    pub fn promises_equal_bits(&self) -> bool {
        let (_, identity, _) = finish(&mut self.specctl(&["identity", "--json"]));
        let fused = identity.contains("fused");
        if !fused {
            eprintln!("skipped: equal text is promised with the fused operators only");
        }
        fused
    }

    /// Waits until the verifier reports this state of its first draft.
    pub fn wait_for_draft(&mut self, state: &str) {
        self.wait_for_states(state, 1);
    }

    /// Waits until the verifier reports this state of all its drafts.
    pub fn wait_for_drafts(&mut self, state: &str) {
        self.wait_for_states(state, 1 + usize::from(self.second_draft.is_some()));
    }

    fn wait_for_states(&mut self, state: &str, n_drafts: usize) {
        let limit = Instant::now() + START_LIMIT;
        loop {
            let (_, output, error) = finish(&mut self.specctl(&["identity", "--json"]));
            let seen = serde_json::from_str::<Value>(&output).ok();
            let is_so = |identity: &Value| (0..n_drafts).all(|index| identity["drafts"][index]["state"] == state);
            if seen.as_ref().is_some_and(is_so) {
                return;
            }
            self.verifier.assert_running();
            assert!(Instant::now() < limit, "a draft is not {state}: {output}{error}\n{}", self.verifier.log());
            sleep(Duration::from_millis(100));
        }
    }
}

fn start_verifier<'a>(
    address: Option<SocketAddr>,
    drafts: impl Iterator<Item = &'a Service>,
    more: &[&str],
    logs: &Path,
) -> Service {
    let target = from_environment("SPECFLEET_TEST_TARGET");
    let drafts: Vec<String> = drafts.map(|draft| draft.address.to_string()).collect();
    let arguments = ["--model", target.to_str().expect("UTF-8"), "--draft", &drafts.join(",")];
    Service::start("verifier-service", address, &[&arguments[..], more].concat(), logs)
}

fn draft_dtype() -> String {
    from_environment("SPECFLEET_TEST_DRAFT_DTYPE").to_str().expect("UTF-8").to_owned()
}

fn start_draft(dtype: &str, address: Option<SocketAddr>, logs: &Path) -> Service {
    let model = from_environment("SPECFLEET_TEST_DRAFT");
    Service::start("draft-service", address, &["--model", model.to_str().expect("UTF-8"), "--dtype", dtype], logs)
}

/// One JSON value a line.
pub fn json_lines(output: &str) -> Vec<Value> {
    output.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
}

/// The tokens of all committed events.
pub fn tokens(events: &[Value]) -> Vec<&Value> {
    events
        .iter()
        .filter(|event| event["event"] == "committed")
        .flat_map(|event| event["tokens"].as_array().expect("a list of tokens"))
        .collect()
}

/// The token ids of all committed events.
pub fn token_ids(events: &[Value]) -> Vec<u64> {
    tokens(events).iter().map(|token| token["token_id"].as_u64().expect("an id")).collect()
}

/// The text of all committed events.
pub fn text(events: &[Value]) -> String {
    tokens(events).iter().map(|token| token["text"].as_str().expect("a text")).collect()
}

/// A copy of the first `length` bytes of a file.
pub fn truncated_copy(file: &Path, length: usize, copy: &Path) {
    let bytes = fs::read(file).expect("the file can be read");
    File::create(copy).and_then(|mut copy| copy.write_all(&bytes[..length])).expect("the copy can be written");
}
