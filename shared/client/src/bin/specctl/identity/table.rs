//! One block of facts for each process. Version ids are shown whole, because they are what `--pin` takes.

use std::fmt::{Display, Write};

use comfy_table::{Table, presets};
use specfleet_client::v1::Identity;

use crate::text::count;

/// What is known about one process.
#[derive(Debug)]
pub(super) struct Process {
    title: String,
    facts: Vec<(&'static str, String)>,
}

impl Process {
    /// The facts of its identity, if it has told it.
    pub(super) fn new(role: &str, endpoint: &str, identity: Option<&Identity>) -> Self {
        let mut process = Self { title: format!("{role} at {endpoint}"), facts: Vec::new() };
        if let Some(identity) = identity {
            process.describe(identity);
        }
        process
    }

    /// Adds a fact; an empty one says nothing and is left out.
    pub(super) fn fact(&mut self, name: &'static str, value: impl Display) {
        let value = value.to_string();
        if !value.is_empty() {
            self.facts.push((name, value));
        }
    }

    fn describe(&mut self, identity: &Identity) {
        let vocabulary = identity.vocabulary.clone().unwrap_or_default();
        self.fact("label", &identity.label);
        self.fact("version id", &identity.version_id);
        self.fact("architecture", &identity.architecture);
        self.fact("vocabulary", format!("{} ids, {}", vocabulary.size, vocabulary.fingerprint));
        self.fact("context", format!("{} tokens", identity.context_length));
        self.fact("dtype", &identity.dtype);
        self.fact("device", format!("{}, {}", identity.device, count(identity.compute_threads.into(), "thread")));
        if identity.step_weight_bytes > 0 {
            self.fact("weights a step", format!("{:.1} MB", identity.step_weight_bytes as f64 / 1e6));
        }
        self.fact("incarnation", &identity.incarnation);
        self.fact("protocol", format!("{}, transform spec {}", identity.protocol_number, identity.transform_spec));
    }
}

/// All processes, one block each.
pub(super) fn render(processes: &[Process]) -> String {
    let mut text = String::new();
    for (position, process) in processes.iter().enumerate() {
        if position > 0 {
            text.push('\n');
        }
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        for (name, value) in &process.facts {
            table.add_row([*name, value.as_str()]);
        }
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}", process.title);
        if !process.facts.is_empty() {
            let _ = writeln!(text, "{}", table.trim_fmt());
        }
    }
    text
}
