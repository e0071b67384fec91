#![allow(clippy::unwrap_used)]
use std::time::Duration;

use clap::{CommandFactory, Parser};

use super::*;
use crate::Problems;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    listen: ListenArgs<50052, 9465>,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    telemetry: TelemetryArgs,
}

fn parse(args: &[&str]) -> Command {
    Command::try_parse_from(std::iter::once(&"command").chain(args)).unwrap()
}

#[test]
fn defaults_are_the_services_own_ports_on_loopback() {
    let command = parse(&[]);
    assert_eq!(command.listen.listen.to_string(), "127.0.0.1:50052");
    assert_eq!(command.listen.metrics_listen.to_string(), "127.0.0.1:9465");
    assert_eq!(command.listen.drain_limit, Duration::from_secs(30));
    assert_eq!(command.model.kv_tokens, 16384);
    assert_eq!(command.telemetry.log_format, LogFormat::Text);
    let mut problems = Problems::new();
    command.listen.validate(&mut problems);
    command.model.validate(&mut problems);
    command.telemetry.validate(&mut problems);
    problems.finish().unwrap();
}

#[test]
fn every_flag_is_an_environment_variable_with_help() {
    let command = Command::command();
    for argument in command.get_arguments() {
        let id = argument.get_id();
        let env = argument.get_env().unwrap().to_str().unwrap();
        assert!(env.starts_with("SPECFLEET_") || env.starts_with("OTEL_"), "{id}: {env}");
        assert!(argument.get_help().is_some(), "{id} has no help");
    }
}

#[test]
fn all_bad_values_are_reported_together() {
    let command = parse(&[
        "--listen=127.0.0.1:7000",
        "--metrics-listen=127.0.0.1:7000",
        "--stall-limit=10ms",
        "--model=/no/such/model.gguf",
        "--kv-tokens=0",
        "--log=specfleet=[",
        "--otlp-endpoint=collector:4317",
    ]);
    let mut problems = Problems::new();
    command.listen.validate(&mut problems);
    command.model.validate(&mut problems);
    command.telemetry.validate(&mut problems);
    let text = problems.finish().unwrap_err().to_string();
    for flag in ["--metrics-listen", "--stall-limit", "--model", "--kv-tokens", "--log", "--otlp-endpoint"] {
        assert!(text.contains(&format!("\n  {flag} ")), "{flag} not in: {text}");
    }
    assert!(text.starts_with("6 settings cannot be used:"), "{text}");
}
