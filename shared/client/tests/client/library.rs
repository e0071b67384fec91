//! The library: events in order, errors in words, cancelling by dropping.

use futures::StreamExt;
use specfleet_client::v1::GenerateRequest;
use specfleet_client::{Client, DraftClient, Error, Event, Generation, request};
use specfleet_protocol::status::Reason;

use crate::fake::{Fake, TARGET_VERSION};

async fn generate(fake: &Fake, prompt: &str) -> Result<Generation, Error> {
    Client::connect(&fake.endpoint).await.unwrap().generate(request::chat(prompt)).await
}

/// The error that a prompt ends with.
async fn error_of(fake: &Fake, prompt: &str) -> Error {
    let events = match generate(fake, prompt).await {
        Ok(generation) => generation.collect::<Vec<_>>().await,
        Err(error) => return error,
    };
    events.into_iter().find_map(Result::err).expect("no error came")
}

#[tokio::test]
async fn an_answer_is_started_then_committed_then_finished() {
    let fake = Fake::start().await;
    let events: Vec<Event> = generate(&fake, "Hi").await.unwrap().map(|event| event.unwrap()).collect().await;
    let Some(Event::Started(started)) = events.first() else { panic!("{events:?}") };
    assert_eq!(started.target_version_id, TARGET_VERSION);
    assert!(matches!(events.last(), Some(Event::Finished(_))));
    let tokens = events.iter().filter_map(|event| match event {
        Event::Committed(committed) => Some(&committed.tokens),
        _ => None,
    });
    let text: String = tokens.flatten().map(|token| token.text.as_str()).collect();
    assert_eq!(text, "The capital is Paris.");
}

#[tokio::test]
async fn several_answers_are_told_apart() {
    let fake = Fake::start().await;
    let client = Client::connect(&fake.endpoint).await.unwrap();
    let several = GenerateRequest { n: 3, ..request::chat("Hi") };
    let events: Vec<Event> = client.generate(several.clone()).await.unwrap().map(Result::unwrap).collect().await;
    let ends: Vec<_> = events.iter().filter(|event| matches!(event, Event::Finished(_))).collect();
    assert_eq!(ends.iter().map(|end| end.choice_index()).collect::<Vec<_>>(), [Some(2), Some(1), Some(0)]);
    assert_eq!(events.last(), ends.last().copied(), "nothing follows the last end");
    let answers = client.generate(several).await.unwrap().answers().await.unwrap();
    assert_eq!(answers.len(), 3);
    for (index, answer) in answers.iter().enumerate() {
        assert_eq!((answer.text().as_str(), answer.token_ids().len()), ("The capital is Paris.", 7));
        assert_eq!(answer.finished.choice_index as usize, index);
    }
}

#[tokio::test]
async fn an_answer_that_nobody_asked_for_is_an_error() {
    let fake = Fake::start().await;
    // The prompt makes the fake send two.
    assert!(matches!(error_of(&fake, "twice").await, Error::Sequence(_)));
}

#[tokio::test]
async fn dropping_the_stream_cancels_the_request() {
    let fake = Fake::start().await;
    let mut generation = generate(&fake, "endless").await.unwrap();
    assert!(matches!(generation.next().await, Some(Ok(Event::Started(_)))));
    drop(generation);
    fake.cancelled().await;
}

#[tokio::test]
async fn half_an_answer_is_an_error() {
    let fake = Fake::start().await;
    assert!(matches!(error_of(&fake, "truncated").await, Error::Sequence("it ended before the last Finished")));
    assert!(matches!(error_of(&fake, "headless").await, Error::Sequence("its first message was not Started")));
    let Error::Refused(refusal) = error_of(&fake, "breaks").await else { panic!("not a refusal") };
    assert_eq!(refusal.reason, Some(Reason::ModelFailed));
}

#[tokio::test]
async fn nothing_comes_after_an_error() {
    let fake = Fake::start().await;
    let events: Vec<_> = generate(&fake, "breaks").await.unwrap().collect().await;
    assert_eq!(events.len(), 3);
    assert!(events.last().unwrap().is_err());
}

#[tokio::test]
async fn errors_say_what_was_wrong_and_what_to_do() {
    let fake = Fake::start().await;
    let mut texts = Vec::new();
    for prompt in ["bad", "busy", "unpinned", "breaks", "truncated"] {
        texts.push(error_of(&fake, prompt).await.to_string());
    }
    // A port that was free a moment ago.
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let endpoint = format!("http://{free}");
    let unreachable = Client::connect(&endpoint).await.unwrap_err().to_string();
    texts.push(unreachable.replace(&endpoint, "http://NOWHERE"));
    texts.push(DraftClient::connect(&endpoint).await.unwrap_err().to_string().replace(&endpoint, "http://NOWHERE"));
    texts.push(Client::connect("https://127.0.0.1:1").await.unwrap_err().to_string());
    insta::assert_snapshot!(texts.join("\n\n"));
}

/// The gRPC library panics at such a status, in whatever task reads it.
#[tokio::test]
async fn a_status_that_cannot_be_read_is_an_error_and_no_panic() {
    let fake = Fake::start().await;
    for prompt in ["garbled", "garbled-later"] {
        let text = error_of(&fake, prompt).await.to_string();
        assert!(text.contains("cannot be read"), "{text}");
    }
}

#[tokio::test]
async fn a_broken_connection_is_told_from_a_refusal() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        // Accepts and hangs up.
        while let Ok((socket, _)) = listener.accept().await {
            drop(socket);
        }
    });
    let client = Client::connect(&endpoint).await;
    let error = match client {
        Ok(client) => client.identity().await.unwrap_err(),
        Err(error) => error,
    };
    assert!(matches!(error, Error::ConnectionLost { .. } | Error::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().contains(&endpoint));
}

#[tokio::test]
async fn both_services_say_who_they_are() {
    let fake = Fake::start().await;
    let response = Client::connect(&fake.endpoint).await.unwrap().identity().await.unwrap();
    assert_eq!(response, crate::fake::identity_response());
    let draft = DraftClient::connect(&fake.endpoint).await.unwrap().identity().await.unwrap();
    assert_eq!(draft, crate::fake::draft_identity());
}
