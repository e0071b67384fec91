//! `specctl identity`: who serves what.

use std::io::{self, Write};
use std::process::ExitCode;

use serde_json::json;
use specfleet_client::{Client, DraftClient};

use crate::acceptance::share;
use crate::cli::{Global, IdentityArgs};
use crate::identity::table::Process;
use crate::json;

mod table;

pub(crate) async fn run(args: &IdentityArgs, global: &Global) -> anyhow::Result<ExitCode> {
    if args.draft_endpoint.is_empty() {
        verifier(global).await?.print(global)
    } else {
        drafts(args).await?.print(global)
    }
    .map(|()| ExitCode::SUCCESS)
    .map_err(Into::into)
}

/// What is printed: the same facts as a table and as JSON.
struct Page {
    processes: Vec<Process>,
    json: serde_json::Value,
}

impl Page {
    fn print(&self, global: &Global) -> io::Result<()> {
        let mut out = io::stdout();
        if global.json {
            return writeln!(out, "{}", self.json);
        }
        write!(out, "{}", table::render(&self.processes))
    }
}

async fn verifier(global: &Global) -> anyhow::Result<Page> {
    let response = Client::connect(&global.endpoint).await?.identity().await?;
    let target = response.identity.unwrap_or_default();
    let mut processes = vec![Process::new("target", &global.endpoint, Some(&target))];
    let mut drafts = Vec::new();
    for draft in &response.drafts {
        let state = json::draft_state(draft.state());
        let accepted = share(draft.tokens_accepted, draft.tokens_proposed);
        let mut process = Process::new("draft", &draft.endpoint, draft.identity.as_ref());
        process.fact("state", state);
        process.fact("why", &draft.detail);
        process.fact("sessions open", draft.open_sessions);
        process.fact(
            "tokens accepted",
            format!("{} of {} proposed ({:.0}%)", draft.tokens_accepted, draft.tokens_proposed, 100.0 * accepted),
        );
        processes.push(process);
        drafts.push(json!({
            "endpoint": draft.endpoint,
            "state": state,
            "detail": draft.detail,
            "tokens_proposed": draft.tokens_proposed,
            "tokens_accepted": draft.tokens_accepted,
            "open_sessions": draft.open_sessions,
            "identity": draft.identity.as_ref().map(json::identity),
        }));
    }
    let json = json!({ "endpoint": global.endpoint, "identity": json::identity(&target), "drafts": drafts });
    Ok(Page { processes, json })
}

async fn drafts(args: &IdentityArgs) -> anyhow::Result<Page> {
    let (mut processes, mut drafts) = (Vec::new(), Vec::new());
    for endpoint in &args.draft_endpoint {
        let identity = DraftClient::connect(endpoint).await?.identity().await?;
        processes.push(Process::new("draft", endpoint, Some(&identity)));
        drafts.push(json!({ "endpoint": endpoint, "identity": json::identity(&identity) }));
    }
    Ok(Page { processes, json: json!({ "drafts": drafts }) })
}
