#![allow(clippy::unwrap_used)]

use std::fs;

use super::*;
use crate::checkpoint::fixture;
use crate::identity::VocabularyFingerprint;

/// A draft of one layer on the tiny target, with its own head.
fn draft_tensors() -> Vec<(String, Vec<usize>)> {
    let config = checkpoint::Config { n_layers: 1, tied_embeddings: false, ..fixture::config() };
    let mut tensors: Vec<_> = config.layout(6).into_iter().map(|tensor| (tensor.name, tensor.shape)).collect();
    tensors.retain(|(name, _)| name != "model.embed_tokens.weight");
    tensors
}

struct Setting {
    folder: tempfile::TempDir,
    target: PathBuf,
    draft: PathBuf,
}

fn setting(tensors: &[(String, Vec<usize>)]) -> Setting {
    let folder = tempfile::tempdir().unwrap();
    let target = fixture::write_gguf(folder.path(), &fixture::gguf());
    let draft = folder.path().join("draft.safetensors");
    fixture::write_safetensors(&draft, tensors);
    Setting { folder, target, draft }
}

fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn the_folder_loads_as_a_draft_of_the_target() {
    let setting = setting(&draft_tensors());
    let out = setting.folder.path().join("new/draft");
    let assembled = assemble(&setting.target, &setting.draft, &out).unwrap();
    assert_eq!((assembled.n_layers, assembled.n_head_rows), (1, 6));
    assert_eq!(assembled.n_bytes, fs::metadata(out.join("model.safetensors")).unwrap().len());

    let (target, draft) = (Checkpoint::open(&setting.target).unwrap(), Checkpoint::open(&out).unwrap());
    assert_eq!(draft.label(), "draft");
    assert_eq!(draft.config().n_layers, 1);
    assert!(!draft.config().tied_embeddings);
    assert_eq!(draft.generation(), target.generation());
    let embedding =
        |checkpoint: &Checkpoint| checkpoint.tensor("model.embed_tokens.weight").unwrap().values.to_bf16().into_owned();
    assert_eq!(embedding(&draft), embedding(&target));
    let fingerprint = |checkpoint: &Checkpoint| VocabularyFingerprint::new(&checkpoint.tokenizer().unwrap(), 6);
    assert_eq!(fingerprint(&draft), fingerprint(&target));
    let source = |checkpoint: &Checkpoint| checkpoint.chat_template().unwrap().unwrap().source().to_owned();
    assert_eq!(source(&draft), source(&target));
}

#[test]
fn twice_gives_the_same_bytes_and_leaves_nothing_behind() {
    let setting = setting(&draft_tensors());
    let out = setting.folder.path().join("draft");
    assemble(&setting.target, &setting.draft, &out).unwrap();
    let first = contents(&out);
    assert_eq!(first.len(), 6);
    assemble(&setting.target, &setting.draft, &out).unwrap();
    assert_eq!(contents(&out), first);
    let left: Vec<_> = fs::read_dir(setting.folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "{left:?}");
}

#[test]
fn a_misfit_is_described_in_full_and_writes_nothing() {
    let mut tensors = draft_tensors();
    tensors.retain(|(name, _)| name != "model.norm.weight");
    tensors[0].1 = vec![16];
    tensors.push(("model.layers.0.mlp.router.weight".into(), vec![2]));
    let setting = setting(&tensors);
    let out = setting.folder.path().join("draft");
    let text = assemble(&setting.target, &setting.draft, &out).unwrap_err().to_string();
    for part in ["model.norm.weight is missing", "has shape [16] instead of [8]", "router.weight has no place"] {
        assert!(text.contains(part), "{text}");
    }
    assert!(!out.exists());
}

#[test]
fn other_peoples_folders_are_not_replaced() {
    let setting = setting(&draft_tensors());
    let out = setting.folder.path().join("thesis");
    fs::create_dir(&out).unwrap();
    fs::write(out.join("chapter1.tex"), "all of it").unwrap();
    let text = assemble(&setting.target, &setting.draft, &out).unwrap_err().to_string();
    assert!(text.contains("chapter1.tex"), "{text}");
    assert_eq!(fs::read_to_string(out.join("chapter1.tex")).unwrap(), "all of it");
}

#[test]
fn a_place_that_cannot_be_written_is_an_error() {
    let setting = setting(&draft_tensors());
    let error = assemble(&setting.target, &setting.draft, Path::new("/proc/no/draft")).unwrap_err().to_string();
    assert!(error.contains("cannot create") && error.contains("space and permission"), "{error}");
}

/// The distilled draft of this repository on its target, where the environment names the target's file.
#[test]
fn the_real_draft_is_completed() {
    let Some(target) = std::env::var_os("SPECFLEET_TEST_TARGET") else {
        eprintln!("skipped: SPECFLEET_TEST_TARGET does not name the target's file");
        return;
    };
    let draft = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/models/smollm2-draft/draft.safetensors");
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("draft");
    let assembled = assemble(Path::new(&target), Path::new(&draft), &out).unwrap();
    assert_eq!((assembled.n_layers, assembled.n_head_rows), (3, 8192));
    let (target, draft) = (Checkpoint::open(Path::new(&target)).unwrap(), Checkpoint::open(&out).unwrap());
    let fingerprint = |checkpoint: &Checkpoint| {
        VocabularyFingerprint::new(&checkpoint.tokenizer().unwrap(), checkpoint.config().vocab_size)
    };
    assert_eq!(fingerprint(&draft), fingerprint(&target));
    let text = "In 2024, 12 naïve 🦀s said: <|im_end|>\n";
    let ids = |checkpoint: &Checkpoint| checkpoint.tokenizer().unwrap().encode(text, true).unwrap();
    assert_eq!(ids(&draft), ids(&target));
}
