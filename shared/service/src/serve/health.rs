//! `grpc.health.v1`, driven by [`Readiness`].

use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;
use tonic_health::{
    ServingStatus,
    pb::health_server::{Health, HealthServer},
    server::HealthReporter,
};

use crate::{Readiness, lifecycle::State};

/// The name by which health as a whole is asked for.
const WHOLE_SERVER: &str = "";

/// The health service, and the task that keeps it up to date; it ends when dropped.
pub(super) async fn service(
    readiness: &Readiness,
    service_names: &[&'static str],
) -> (HealthServer<impl Health>, AbortOnDropHandle<()>) {
    let (reporter, service) = tonic_health::server::health_reporter();
    let mut names = vec![WHOLE_SERVER];
    names.extend(service_names);
    // Before the first connection: the reporter's own start value says SERVING while the model still loads.
    let mut changes = readiness.subscribe();
    let state = *changes.borrow_and_update();
    report(&reporter, &names, state).await;
    let following = tokio::spawn(follow(changes, reporter, names));
    (service, AbortOnDropHandle::new(following))
}

async fn follow(mut changes: watch::Receiver<State>, reporter: HealthReporter, names: Vec<&'static str>) {
    while changes.changed().await.is_ok() {
        let state = *changes.borrow_and_update();
        report(&reporter, &names, state).await;
    }
}

async fn report(reporter: &HealthReporter, names: &[&str], state: State) {
    let status = match state {
        State::Ready => ServingStatus::Serving,
        State::Starting | State::Stalled | State::Draining => ServingStatus::NotServing,
    };
    for name in names {
        reporter.set_service_status(name, status).await;
    }
}
