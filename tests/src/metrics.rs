//! What a service has counted, as its scrapers read it.

use specfleet_service::Metrics;

/// The value of a metric; those of all its series whose labels contain `label` added up.
pub fn value(metrics: &Metrics, name: &str, label: &str) -> f64 {
    let text = metrics.text().expect("the metrics can be written");
    (text.lines())
        .filter_map(|line| line.strip_prefix(name))
        .filter(|rest| rest.starts_with(['{', ' ']) && rest.contains(label))
        .filter_map(|rest| rest.rsplit(' ').next()?.parse::<f64>().ok())
        .fold(0.0, |sum, value| sum + value)
}
