//! One line for each draft, then lines for versions that no draft serves any more, and below what needs words.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};
use specfleet_client::v1::{DraftStatus, DraftTrust, DraftVersion};

use super::{has_only_points, trust};
use crate::acceptance::share;
use crate::json;
use crate::text::short_id;

const HEADER: [&str; 10] =
    ["draft", "state", "version", "label", "trust", "proposed", "accepted", "audited: passed", "expected", "evidence"];
/// Columns before this hold words.
const FIRST_NUMBER: usize = 5;

pub(super) fn render(drafts: &[DraftStatus], versions: &[DraftVersion]) -> String {
    if drafts.is_empty() && versions.is_empty() {
        return "This verifier has no drafts: start it with --draft HOST:PORT.\n".to_owned();
    }
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(HEADER);
    for draft in drafts {
        let version = versions.iter().find(|version| version.version_id == version_of(draft));
        let label = draft.identity.as_ref().map_or("", |identity| &identity.label);
        let place = [&draft.endpoint, json::draft_state(draft.state()), short_id(version_of(draft)), label];
        table.add_row(place.map(str::to_owned).into_iter().chain(record(version)));
    }
    for version in versions.iter().filter(|version| drafts.iter().all(|draft| version_of(draft) != version.version_id))
    {
        let place = ["-", "gone", short_id(&version.version_id), &version.label];
        table.add_row(place.map(str::to_owned).into_iter().chain(record(Some(version))));
    }
    table.column_iter_mut().skip(FIRST_NUMBER).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    let mut text = format!("{table}\n");
    for draft in drafts.iter().filter(|draft| !draft.detail.is_empty()) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "\n{} is {}: {}", draft.endpoint, json::draft_state(draft.state()), draft.detail);
    }
    for version in versions {
        text += &explanation(version);
        text += &fall(version);
    }
    text
}

fn version_of(draft: &DraftStatus) -> &str {
    draft.identity.as_ref().map_or("", |identity| &identity.version_id)
}

/// Trust, and what speaks for or against it.
fn record(version: Option<&DraftVersion>) -> [String; 6] {
    let Some(version) = version else { return ["not used yet", "", "", "", "", ""].map(str::to_owned) };
    let honesty = version.honesty.unwrap_or_default();
    let percent = |part: f64, whole: u64| if whole == 0 { "-".to_owned() } else { format!("{:.1}%", 100.0 * part) };
    let of_audited = |part: f64| percent(part / honesty.positions as f64, honesty.positions);
    let evidence = honesty.acceptance_evidence.max(honesty.rank_evidence);
    [
        trust(version.trust()).to_owned(),
        version.tokens_proposed.to_string(),
        percent(share(version.tokens_accepted, version.tokens_proposed), version.tokens_proposed),
        of_audited(honesty.accepted as f64),
        of_audited(honesty.expected_accepted),
        match honesty.positions {
            0 if has_only_points(version) => "points only".to_owned(),
            0 => "-".to_owned(),
            _ => format!("{evidence:.1} of {:.1}", honesty.threshold),
        },
    ]
}

/// What to know if far fewer of its tokens pass than used to.
fn fall(version: &DraftVersion) -> String {
    let Some(watch) = version.acceptance.filter(|watch| watch.has_fallen) else { return String::new() };
    format!(
        "\nAcceptance of {} fell: {:.1}% of the last {} tokens that count passed, {:.1}% used to.\nThe output is as right as \
         before, and slower. Other prompts or a higher temperature do this; if the traffic is the same, look at the draft.\n",
        short_id(&version.version_id),
        100.0 * share(watch.low_accepted, watch.low_tested),
        watch.low_tested,
        100.0 * watch.usual()
    )
}

fn explanation(version: &DraftVersion) -> String {
    let id = short_id(&version.version_id);
    match version.trust() {
        DraftTrust::Quarantined => format!(
            "\n{id} is quarantined: {}.\nIts tokens are judged as point masses: exact, but fewer pass. Upgrade the draft, and \
             look for what it does between shaping q and drawing.\n",
            version.detail
        ),
        DraftTrust::Untrusted => {
            format!(
                "\n{id} is untrusted by configuration: its tokens are judged as point masses, whatever it reports.\n"
            )
        }
        DraftTrust::Trusted | DraftTrust::Unspecified => String::new(),
    }
}
