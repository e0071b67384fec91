//! `specctl chat`: a conversation. The client keeps it and sends it whole each time; the verifier recognises the part
//! that it has seen, so a turn costs only what is new.

use std::io::{self, Write};
use std::process::ExitCode;

use specfleet_client::v1::ChatMessage;
use specfleet_client::{Client, request};

use crate::chat::input::{Input, Line};
use crate::chat::line::Action;
use crate::cli::{ChatArgs, Global};
use crate::stats::Stats;
use crate::stream::{Answer, View};

mod input;
mod line;

const HELP: &str = "\
/help    this text
/reset   forget the conversation
/stats   what speculation did for the last answer
/quit    leave (Ctrl-D too)
Ctrl-C stops an answer. A message that begins with / is written with //.";

pub(crate) async fn run(args: &ChatArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let client = Client::connect(&global.endpoint).await?;
    let view = View::new(&args.answer, global);
    let mut input = Input::open()?;
    if input.is_terminal() && !global.json {
        eprintln!("Talking to {}. /help lists the commands.", client.endpoint());
    }
    let mut chat = Chat { args, client, view, messages: Vec::new(), last: None };
    chat.reset();
    loop {
        match input.next().await? {
            Line::Text(line) => match line::parse(&line) {
                Action::Quit => return Ok(ExitCode::SUCCESS),
                action => chat.act(action, input.is_terminal()).await?,
            },
            Line::Interrupted => eprintln!("/quit or Ctrl-D leaves."),
            Line::End => return Ok(ExitCode::SUCCESS),
        }
    }
}

struct Chat<'a> {
    args: &'a ChatArgs,
    client: Client,
    view: View,
    messages: Vec<ChatMessage>,
    last: Option<Answer>,
}

impl Chat<'_> {
    /// Does what a line asks for. With a person at the keyboard a failed turn is told and forgotten; in a pipe, where
    /// later lines may build on it, it ends the program.
    async fn act(&mut self, action: Action, is_terminal: bool) -> anyhow::Result<()> {
        let mut err = io::stderr();
        match action {
            Action::Nothing | Action::Quit => {}
            Action::Help => writeln!(err, "{HELP}")?,
            Action::Reset => self.reset(),
            Action::Stats => match &self.last {
                Some(answer) => write!(err, "{}", Stats::of(&answer.observed))?,
                None => writeln!(err, "no answer yet")?,
            },
            Action::Unknown(command) => writeln!(err, "no command {command}; /help lists them")?,
            Action::Say(text) => match self.say(text).await {
                Err(error) if is_terminal => writeln!(err, "error: {error:#}\nThe message is not kept; say it again.")?,
                result => result?,
            },
        }
        Ok(())
    }

    async fn say(&mut self, text: String) -> anyhow::Result<()> {
        let mut messages = self.messages.clone();
        messages.push(request::message("user", text));
        let request = self.args.request.apply(request::conversation(messages.clone()))?;
        let answers = self.view.stream(&self.client, request).await?;
        answers.comment(self.view, self.args.answer.stats)?;
        let answer = answers.into_first();
        // A stopped answer is part of the conversation too: it was read.
        messages.push(request::message("assistant", answer.text.clone()));
        self.messages = messages;
        self.last = Some(answer);
        Ok(())
    }

    fn reset(&mut self) {
        self.messages = self.args.answer.system.iter().map(|text| request::message("system", text)).collect();
        self.last = None;
    }
}
