//! Who sends: attributes of every span and metric.

use std::env;

use opentelemetry::{Key, KeyValue};
use opentelemetry_sdk::resource::ResourceDetector;
use opentelemetry_sdk::{Resource, resource::EnvResourceDetector};
use uuid::Uuid;

const SERVICE_NAME: &str = "service.name";

pub(super) fn describe(service_name: &'static str) -> Resource {
    let builder = Resource::builder().with_attributes([
        KeyValue::new("service.namespace", "specfleet"),
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        KeyValue::new("service.instance.id", Uuid::new_v4().to_string()),
    ]);
    let named_by_environment = env::var("OTEL_SERVICE_NAME").is_ok_and(|name| !name.is_empty())
        || EnvResourceDetector::new().detect().get(&Key::from_static_str(SERVICE_NAME)).is_some();
    if named_by_environment { builder.build() } else { builder.with_service_name(service_name).build() }
}
