#![allow(clippy::unwrap_used)]
use super::*;

/// Statuses are read by the other service after a trip through HTTP trailers, so the tests read them that way too.
fn over_the_wire(status: Status) -> Status {
    let mut headers = http::HeaderMap::new();
    status.add_header(&mut headers).unwrap();
    Status::from_header_map(&headers).unwrap()
}

#[test]
fn every_reason_survives_the_wire_with_its_code() {
    for reason in Reason::ALL {
        let received = over_the_wire(Refusal::new(reason, "text").into());
        assert_eq!(Reason::of(&received), Some(reason));
        assert_eq!(received.code(), reason.code());
    }
}

#[test]
fn statuses_of_others_have_no_reason() {
    assert_eq!(Reason::of(&Status::internal("plain")), None);
    let foreign = Status::with_error_details(
        Code::Internal,
        "foreign",
        ErrorDetails::with_error_info("OVERLOADED", "example.org", HashMap::new()),
    );
    assert_eq!(Reason::of(&foreign), None);
}

#[test]
fn details_name_fields_delays_and_both_sides() {
    let received = over_the_wire(
        Refusal::new(Reason::InvalidArgument, "two bad fields")
            .field("top_p", "is 0")
            .field("max_tokens", "is 0")
            .into(),
    );
    let violations = received.get_details_bad_request().unwrap().field_violations;
    let fields: Vec<_> = violations.iter().map(|v| v.field.as_str()).collect();
    assert_eq!(fields, ["top_p", "max_tokens"]);

    let received = over_the_wire(overloaded("queue full", Duration::from_millis(250)));
    let delay = received.get_details_retry_info().unwrap().retry_delay;
    assert_eq!(delay, Some(Duration::from_millis(250)));
    assert!(is_retryable(&received));

    let received = over_the_wire(version_mismatch("aaaa", "bbbb"));
    let metadata = received.get_details_error_info().unwrap().metadata;
    assert_eq!(metadata["pin"], "aaaa");
    assert_eq!(metadata["served"], "bbbb");
    assert!(!is_retryable(&received));
}

/// A status larger than the 16 KiB of headers that HTTP/2 peers commonly accept would never arrive.
#[test]
fn long_texts_of_callers_are_cut() {
    let pin = "\u{10ffff}".repeat(100_000);
    for status in [version_mismatch(&pin, &"f".repeat(64)), draft_unavailable(&pin)] {
        let received = over_the_wire(status.clone());
        assert_eq!(received.get_details_error_info().unwrap().metadata["pin"].chars().count(), MOST_REPEATED);
        let mut headers = http::HeaderMap::new();
        status.add_header(&mut headers).unwrap();
        let n_bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        assert!(n_bytes < 8 << 10, "{n_bytes} bytes");
    }
}
