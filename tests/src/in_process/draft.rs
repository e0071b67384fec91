//! The draft-service in memory.

use specfleet_draft_service::{LookupOptions, Options, Service, service::Error};
use specfleet_model::load::Loaded;
use specfleet_service::Metrics;
use tonic::transport::Channel;

use super::server::Server;
use crate::metrics;

/// A draft-service. Dropping it cuts its streams, and nothing answers where it was.
pub struct Draft {
    /// What names its model.
    pub version_id: String,
    /// What it counts.
    pub metrics: Metrics,
    server: Server,
}

impl Draft {
    /// Drafts with a model.
    pub fn start(model: Loaded, options: Options) -> Self {
        let Loaded { model, tokenizer, label, .. } = model;
        Self::serve(|metrics| Service::from_model(model, &tokenizer, &label, options, &metrics.meter()))
    }

    /// Drafts by prompt lookup.
    pub fn lookup(options: Options) -> Self {
        let lookup = LookupOptions::default();
        Self::serve(|metrics| Service::from_lookup("lookup", lookup, options, &metrics.meter()))
    }

    fn serve(start: impl FnOnce(&Metrics) -> Result<Service, Error>) -> Self {
        let metrics = Metrics::local().expect("a meter provider");
        let service = start(&metrics).expect("the draft service starts");
        let server = Server::start(service.grpc(), &metrics);
        Self { version_id: service.identity().version_id.clone(), metrics, server }
    }

    /// See [`metrics::value`].
    pub fn metric(&self, name: &str, label: &str) -> f64 {
        metrics::value(&self.metrics, name, label)
    }

    /// The way to it.
    pub fn channel(&self) -> Channel {
        self.server.channel.clone()
    }
}
