//! `specctl generate`: one prompt, one answer, or several.

use std::io::{self, IsTerminal, Read};
use std::process::ExitCode;

use anyhow::{Context, ensure};
use specfleet_client::v1::GenerateRequest;
use specfleet_client::{Client, request};

use crate::cli::{GenerateArgs, Global};
use crate::stream::View;

/// What a shell reports for a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

pub(crate) async fn run(args: &GenerateArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let prompt = prompt(args)?;
    let request = GenerateRequest { n: args.n, ..args.request.apply(with_prompt(args, prompt))? };
    let client = Client::connect(&global.endpoint).await?;
    let view = View::new(&args.answer, global);
    let answers = view.stream(&client, request).await?;
    answers.comment(view, args.answer.stats)?;
    Ok(if answers.stopped { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS })
}

fn with_prompt(args: &GenerateArgs, prompt: String) -> GenerateRequest {
    if args.raw {
        return request::text(prompt);
    }
    let system = args.answer.system.iter().map(|text| request::message("system", text));
    request::conversation(system.chain([request::message("user", prompt)]).collect())
}

fn prompt(args: &GenerateArgs) -> anyhow::Result<String> {
    let mut prompt = match (&args.prompt, &args.file) {
        (Some(prompt), _) => prompt.clone(),
        (None, Some(file)) => {
            std::fs::read_to_string(file).with_context(|| format!("cannot read the prompt from {}", file.display()))?
        }
        (None, None) => read_stdin()?,
    };
    if args.prompt.is_none() && prompt.ends_with('\n') {
        prompt.pop();
    }
    ensure!(!prompt.is_empty(), "the prompt is empty; give it as an argument, with --file, or on standard input");
    Ok(prompt)
}

fn read_stdin() -> anyhow::Result<String> {
    if io::stdin().is_terminal() {
        eprintln!("Type the prompt; Ctrl-D on an empty line sends it.");
    }
    let mut prompt = String::new();
    io::stdin().read_to_string(&mut prompt).context("cannot read the prompt from standard input")?;
    Ok(prompt)
}
