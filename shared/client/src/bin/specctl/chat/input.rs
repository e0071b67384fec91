//! Lines from a person or from a pipe, read on a thread of their own so that the connection stays alive meanwhile.

use std::io::{self, BufRead, IsTerminal};
use std::path::PathBuf;

use anyhow::Context;
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;

const PROMPT: &str = "> ";

/// What came.
#[derive(Debug)]
pub(super) enum Line {
    Text(String),
    /// Ctrl-C at the prompt.
    Interrupted,
    End,
}

/// Where lines come from.
pub(super) struct Input {
    source: Option<Source>,
    is_terminal: bool,
}

enum Source {
    Terminal(Box<DefaultEditor>),
    Pipe,
}

impl Input {
    pub(super) fn open() -> anyhow::Result<Self> {
        let is_terminal = io::stdin().is_terminal();
        let source = if is_terminal { Source::Terminal(Box::new(editor()?)) } else { Source::Pipe };
        Ok(Self { source: Some(source), is_terminal })
    }

    pub(super) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// The next line. Ctrl-C while a pipe is waited for ends the input.
    pub(super) async fn next(&mut self) -> anyhow::Result<Line> {
        let mut source = self.source.take().context("the input was given up")?;
        let reading = tokio::task::spawn_blocking(move || {
            let line = source.read();
            (source, line)
        });
        tokio::select! {
            result = reading => {
                let (source, line) = result.context("the input thread failed")?;
                self.source = Some(source);
                line
            }
            _ = tokio::signal::ctrl_c() => Ok(Line::End),
        }
    }
}

impl Source {
    fn read(&mut self) -> anyhow::Result<Line> {
        match self {
            Self::Terminal(editor) => read_terminal(editor),
            Self::Pipe => {
                let mut line = String::new();
                let n_bytes = io::stdin().lock().read_line(&mut line).context("cannot read standard input")?;
                Ok(if n_bytes == 0 { Line::End } else { Line::Text(line) })
            }
        }
    }
}

fn read_terminal(editor: &mut DefaultEditor) -> anyhow::Result<Line> {
    match editor.readline(PROMPT) {
        Ok(line) => {
            editor.add_history_entry(&line)?;
            // A history that cannot be kept is no reason to stop talking.
            if let Some(path) = history_path() {
                let _ = editor.save_history(&path);
            }
            Ok(Line::Text(line))
        }
        Err(ReadlineError::Interrupted) => Ok(Line::Interrupted),
        Err(ReadlineError::Eof) => Ok(Line::End),
        Err(error) => Err(error).context("cannot read from the terminal"),
    }
}

fn editor() -> anyhow::Result<DefaultEditor> {
    let mut editor = DefaultEditor::new().context("cannot use the terminal")?;
    if let Some(path) = history_path() {
        // Absent at the first run.
        let _ = editor.load_history(&path);
    }
    Ok(editor)
}

/// `$XDG_STATE_HOME/specfleet/chat_history`, by default under `~/.local/state`; the folder is made.
fn history_path() -> Option<PathBuf> {
    let state = match std::env::var_os("XDG_STATE_HOME").filter(|path| !path.is_empty()) {
        Some(path) => PathBuf::from(path),
        None => PathBuf::from(std::env::var_os("HOME")?).join(".local/state"),
    };
    let folder = state.join("specfleet");
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder.join("chat_history"))
}
