//! A model as a folder in the form that Hugging Face libraries write.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::config::Config;
use super::error::Error;
use super::generation::GenerationDefaults;
use super::safetensors::SafetensorsFiles;
use super::small_file::{self, read_json};
use super::tensor::HostTensor;
use super::{Source, config_json};
use crate::chat_template::{ChatTemplate, SpecialTokens};
use crate::tokenizer::Tokenizer;

/// The files of an opened folder.
pub(super) struct Folder {
    path: PathBuf,
    weights: SafetensorsFiles,
    tokenizer_config: Value,
}

/// Opens a folder: configuration, generation defaults, weights.
pub(super) fn open(path: &Path) -> Result<(Config, GenerationDefaults, Folder), Error> {
    let config_path = path.join("config.json");
    let json =
        read_json(&config_path)?.ok_or_else(|| Error::incomplete(path, vec!["there is no config.json".to_owned()]))?;
    let config = config_json::read(&json, &config_path)?;
    let generation_json = read_json(&path.join("generation_config.json"))?.unwrap_or_default();
    let generation = GenerationDefaults::from_json(&generation_json, &json, config.vocab_size);
    let tokenizer_config = read_json(&path.join("tokenizer_config.json"))?.unwrap_or_default();
    let weights = SafetensorsFiles::open_folder(path)?;
    Ok((config, generation, Folder { path: path.to_owned(), weights, tokenizer_config }))
}

impl Source for Folder {
    fn shape(&self, name: &str) -> Option<Vec<usize>> {
        self.weights.shape(name)
    }

    fn tensor(&self, name: &str) -> Result<HostTensor<'_>, Error> {
        self.weights.tensor(name)
    }

    fn token_ids(&self, name: &str) -> Result<Option<Vec<i64>>, Error> {
        self.weights.token_ids(name)
    }

    fn tokenizer(&self, _config: &Config, generation: &GenerationDefaults) -> Result<Tokenizer, Error> {
        let path = self.path.join("tokenizer.json");
        let json = small_file::read(&path)?
            .ok_or_else(|| Error::incomplete(&self.path, vec!["there is no tokenizer.json".to_owned()]))?;
        Tokenizer::from_json(&json, generation).map_err(|source| Error::Tokenizer { path, source })
    }

    /// `chat_template.jinja` where there is one, else the entry in `tokenizer_config.json` (which may be a list of
    /// named templates: then the one called "default").
    fn chat_template(&self) -> Result<Option<ChatTemplate>, Error> {
        let path = self.path.join("chat_template.jinja");
        let (path, source) = match small_file::read(&path)?.map(String::from_utf8).transpose() {
            Ok(Some(source)) => (path, Some(source)),
            Ok(None) => (self.path.join("tokenizer_config.json"), template_in(&self.tokenizer_config)),
            Err(_) => return Err(Error::damaged(&path, "it is not valid UTF-8")),
        };
        let Some(source) = source else { return Ok(None) };
        let token = |key: &str| special_token(self.tokenizer_config.get(key));
        let special = SpecialTokens { begin: token("bos_token"), end: token("eos_token") };
        ChatTemplate::new(&source, special).map(Some).map_err(|source| Error::ChatTemplate { path, source })
    }
}

fn template_in(tokenizer_config: &Value) -> Option<String> {
    match tokenizer_config.get("chat_template")? {
        Value::String(source) => Some(source.clone()),
        Value::Array(named) => named
            .iter()
            .find(|entry| entry.get("name").and_then(Value::as_str) == Some("default"))
            .and_then(|entry| Some(entry.get("template")?.as_str()?.to_owned())),
        _ => None,
    }
}

/// A special token is a string, or an object with the string as its content.
fn special_token(value: Option<&Value>) -> String {
    let text = value.and_then(|value| value.as_str().or_else(|| value.get("content")?.as_str()));
    text.unwrap_or_default().to_owned()
}
