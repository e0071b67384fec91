#![allow(clippy::unwrap_used)]

use clap::{CommandFactory, Parser};

use super::*;

fn parse(flags: &str) -> Config {
    Cli::try_parse_from(format!("draft-service {flags}").split_whitespace()).unwrap().serve
}

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn the_defaults_serve_a_model_on_loopback() {
    let config = parse("--model .");
    config.validate().unwrap();
    assert_eq!(config.listen.listen.to_string(), "127.0.0.1:50052");
    assert_eq!(config.listen.metrics_listen.to_string(), "127.0.0.1:9465");
    assert_eq!(config.options().support, Support::default());
    parse("--engine lookup").validate().unwrap();
}

#[test]
fn every_bad_value_is_reported_at_once() {
    let error = parse("--max-draft-length 1000 --lookup-ngram 9 --listen 127.0.0.1:1 --metrics-listen 127.0.0.1:1")
        .validate()
        .unwrap_err()
        .to_string();
    for flag in ["--model is missing", "--max-draft-length is 1000", "--lookup-ngram is 9", "--metrics-listen"] {
        assert!(error.contains(flag), "{flag} is not in: {error}");
    }
}

#[test]
fn a_model_for_lookup_is_a_contradiction() {
    let error = parse("--engine lookup --model .").validate().unwrap_err().to_string();
    assert!(error.contains("--model"), "{error}");
}

#[test]
fn the_support_is_a_number_or_full() {
    assert_eq!(parse("--model . --support full").options().support, Support::Full);
    assert_eq!(parse("--model . --support 8").drafting.support.to_string(), "8");
    for bad in ["0", "-1", "all", ""] {
        assert!(bad.parse::<SupportArg>().is_err(), "{bad:?}");
    }
}

#[test]
fn assembling_takes_no_serving_flags() {
    let cli = Cli::try_parse_from("draft-service assemble --target t --draft d --out o".split_whitespace()).unwrap();
    assert!(matches!(cli.command, Some(Command::Assemble(_))));
    let mixed = "draft-service --engine lookup assemble --target t --draft d --out o";
    assert!(Cli::try_parse_from(mixed.split_whitespace()).is_err());
}
