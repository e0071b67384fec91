//! What callers say in the headers of a call, by gRPC and by HTTP.

use http::HeaderValue;
use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::{Dispatch, dispatcher};
use tracing_subscriber::layer::SubscriberExt;

use crate::{Allowance, Answer, Decode, Target};

mod grpc_timeout;
mod of_http;
mod trace_context;

/// A call has a span, buffers and, by HTTP, a body: some kilobytes, whatever its headers say.
pub(super) const TARGET: Target =
    Target { name: "headers", allowance: Allowance { fixed: 256 << 10, per_byte: 64 }, seeds, start };

/// Makes a call with these headers.
type Door = Box<dyn FnMut(&[HeaderValue]) -> Answer>;

/// The first byte is the digit of a door, the lines of the others are the values of the headers that are sent there.
fn start() -> Decode {
    let provider = SdkTracerProvider::builder().build();
    let traces = tracing_opentelemetry::layer().with_tracer(provider.tracer("fuzz"));
    // For all doors: what somebody has called without it is not traced for anybody.
    let subscriber = Dispatch::new(tracing_subscriber::registry().with(traces));
    let doors = || [trace_context::door(), grpc_timeout::door(), of_http::door()];
    let mut doors = dispatcher::with_default(&subscriber, doors);
    Box::new(move |bytes| {
        let Some((&choice, lines)) = bytes.split_first() else { return Answer::Refused };
        let values: Result<Vec<HeaderValue>, _> =
            lines.split(|byte| *byte == b'\n').map(HeaderValue::from_bytes).collect();
        let Ok(values) = values else { return Answer::Refused };
        let door = usize::from(choice) % doors.len();
        dispatcher::with_default(&subscriber, || doors[door](&values))
    })
}

fn seeds() -> Vec<Vec<u8>> {
    [
        "000-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\nvendor=value,other@tenant=1",
        "000-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00",
        "000-ffffffffffffffffffffffffffffffff-ffffffffffffffff-ff\na=1,a=2,,=,b",
        "199999999H",
        "1250u",
        "230000\n0b5ad3c7-7f49-4dc1-9d26-6b24e83d3a5f",
        "24294967295\na",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}
