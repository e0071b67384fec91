//! `specctl drafts`: which drafts are there, and do they draw from what they report?

use std::io::{self, Write};
use std::process::ExitCode;

use serde_json::json;
use specfleet_client::Client;
use specfleet_client::v1::{DraftStatus, DraftTrust, DraftVersion};

use crate::cli::{DraftsArgs, Global};
use crate::json;

mod table;

pub(crate) async fn run(_: &DraftsArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let client = Client::connect(&global.endpoint).await?;
    let (drafts, versions) = (client.identity().await?.drafts, client.draft_versions().await?);
    let mut out = io::stdout();
    if global.json {
        let drafts: Vec<_> = drafts.iter().map(draft).collect();
        let versions: Vec<_> = versions.iter().map(version).collect();
        writeln!(out, "{}", json!({ "endpoint": global.endpoint, "drafts": drafts, "versions": versions }))?;
    } else {
        write!(out, "{}", table::render(&drafts, &versions))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What is known of a configured draft.
fn draft(draft: &DraftStatus) -> serde_json::Value {
    json!({
        "endpoint": draft.endpoint,
        "state": json::draft_state(draft.state()),
        "detail": draft.detail,
        "version_id": draft.identity.as_ref().map(|identity| &identity.version_id),
    })
}

/// What is known of a version.
fn version(version: &DraftVersion) -> serde_json::Value {
    let (honesty, acceptance) = (version.honesty.unwrap_or_default(), version.acceptance.unwrap_or_default());
    json!({
        "version_id": version.version_id,
        "label": version.label,
        "trust": trust(version.trust()),
        "detail": version.detail,
        "tokens_proposed": version.tokens_proposed,
        "tokens_accepted": version.tokens_accepted,
        "tokens_tested": version.tokens_tested,
        "points_tested": version.points_tested,
        "honesty": {
            "positions": honesty.positions,
            "expected_accepted": honesty.expected_accepted,
            "accepted": honesty.accepted,
            "acceptance_evidence": honesty.acceptance_evidence,
            "rank_evidence": honesty.rank_evidence,
            "threshold": honesty.threshold,
        },
        "acceptance": {
            "usual": acceptance.usual,
            "low_tested": acceptance.low_tested,
            "low_accepted": acceptance.low_accepted,
            "has_fallen": acceptance.has_fallen,
        },
    })
}

/// Whether it was tested by nothing but point masses: then there is nothing to audit.
pub(crate) fn has_only_points(version: &DraftVersion) -> bool {
    version.tokens_tested > 0 && version.points_tested == version.tokens_tested
}

fn trust(trust: DraftTrust) -> &'static str {
    match trust {
        DraftTrust::Trusted => "trusted",
        DraftTrust::Untrusted => "untrusted",
        DraftTrust::Quarantined => "quarantined",
        DraftTrust::Unspecified => "unknown",
    }
}
