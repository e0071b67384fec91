use std::time::Duration;

use tonic_health::{
    ServingStatus,
    pb::{
        HealthCheckRequest, HealthCheckResponse, health_check_response::ServingStatus as Wire,
        health_client::HealthClient,
    },
};

use super::fake;

fn asking(service: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: service.to_owned() }
}

#[tokio::test]
async fn follows_readiness_for_the_whole_and_each_service() {
    let running = fake::start(Duration::from_secs(5));
    let mut client = HealthClient::new(running.channel.clone());
    let names = ["", "specfleet.v1.DraftService"];
    for name in names {
        let answer = client.check(asking(name)).await.unwrap().into_inner();
        assert_eq!(answer.status(), Wire::NotServing, "{name:?} while starting");
    }

    let mut watch = client.watch(asking("")).await.unwrap().into_inner();
    let mut next = async || watch.message().await.unwrap().map(|answer: HealthCheckResponse| answer.status());
    assert_eq!(next().await, Some(Wire::NotServing));
    running.readiness.set_ready();
    assert_eq!(next().await, Some(Wire::Serving));
    let answer = client.check(asking(names[1])).await.unwrap().into_inner();
    assert_eq!(answer.status(), Wire::Serving);

    running.shutdown.begin();
    assert_eq!(next().await, Some(Wire::NotServing));
    assert_eq!(ServingStatus::NotServing as i32, Wire::NotServing as i32);
    running.serving.await.unwrap().unwrap();
}

/// Both versions, because tools of different ages ask for different ones.
#[tokio::test]
async fn reflection_lists_the_services() {
    let running = fake::start(Duration::from_secs(5));

    use tonic_reflection::pb::{v1, v1alpha};
    let request = v1::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(v1::server_reflection_request::MessageRequest::ListServices(String::new())),
    };
    let mut client = v1::server_reflection_client::ServerReflectionClient::new(running.channel.clone());
    let answer = client.server_reflection_info(tokio_stream::once(request)).await.unwrap();
    let answer = answer.into_inner().message().await.unwrap();
    let text = format!("{answer:?}");
    assert!(text.contains("specfleet.v1.DraftService"), "{text}");
    assert!(text.contains("grpc.health.v1.Health"), "{text}");

    let request = v1alpha::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(v1alpha::server_reflection_request::MessageRequest::FileContainingSymbol(
            "specfleet.v1.DraftService".into(),
        )),
    };
    let mut client = v1alpha::server_reflection_client::ServerReflectionClient::new(running.channel.clone());
    let answer = client.server_reflection_info(tokio_stream::once(request)).await.unwrap();
    let answer = answer.into_inner().message().await.unwrap().unwrap();
    assert!(
        matches!(
            answer.message_response,
            Some(v1alpha::server_reflection_response::MessageResponse::FileDescriptorResponse(_))
        ),
        "{answer:?}"
    );
}
