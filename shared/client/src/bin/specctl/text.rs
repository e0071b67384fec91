//! Small things in words.

use std::collections::BTreeMap;

/// Enough of a version id to tell versions apart by eye.
pub(crate) fn short_id(version_id: &str) -> &str {
    version_id.get(..12).unwrap_or(version_id)
}

/// "46% 44% 40%".
pub(crate) fn percentages(shares: &[f64]) -> String {
    shares.iter().map(|share| format!("{:.0}%", 100.0 * share)).collect::<Vec<_>>().join(" ")
}

/// "late 2, budget 1".
pub(crate) fn list(reasons: &BTreeMap<String, u64>) -> String {
    reasons.iter().map(|(reason, count)| format!("{reason} {count}")).collect::<Vec<_>>().join(", ")
}

/// "1 stream", "4 streams".
pub(crate) fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
