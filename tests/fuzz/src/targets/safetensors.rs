//! One safetensors file.

use specfleet_model::checkpoint::{SafetensorsFiles, fixture};

use super::memory_folder;
use crate::{Allowance, Answer, Decode, Target};

/// The header is JSON, which takes much more room as a tree than as text.
pub(super) const TARGET: Target =
    Target { name: "safetensors", allowance: Allowance { fixed: 16 << 10, per_byte: 256 }, seeds, start };

fn start() -> Decode {
    let folder = memory_folder();
    Box::new(move |bytes| {
        let path = folder.path().join("model.safetensors");
        std::fs::write(&path, bytes).expect("a file in a temporary folder");
        let opened = SafetensorsFiles::open_file(&path);
        if let Ok(files) = &opened {
            for name in files.names() {
                let Ok(tensor) = files.tensor(name) else { continue };
                assert_eq!(Some(&tensor.shape), files.shape(name).as_ref(), "{name}");
                assert_eq!(tensor.values.len(), tensor.shape.iter().product::<usize>(), "{name}");
                assert!(2 * tensor.values.len() <= bytes.len(), "{name} is larger than its file");
            }
        }
        Answer::of(&opened)
    })
}

fn seeds() -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("model.safetensors");
    let tensors = [("a", vec![3, 4]), ("b.weight", vec![1]), ("c", vec![2, 1, 5])];
    fixture::write_safetensors(&path, &tensors.map(|(name, shape)| (name.to_owned(), shape)));
    let floats = std::fs::read(&path).expect("a file that was written");
    let of_other_types = [("BF16", 2), ("F16", 2), ("I64", 8), ("F8_E4M3", 1), ("BOOL", 1)].map(|(dtype, n_bytes)| {
        let header = format!(r#"{{"t":{{"dtype":"{dtype}","shape":[3],"data_offsets":[0,{}]}}}}"#, 3 * n_bytes);
        let header_len = header.len() as u64;
        [&header_len.to_le_bytes()[..], header.as_bytes(), &vec![0x3C; 3 * n_bytes]].concat()
    });
    [floats].into_iter().chain(of_other_types).collect()
}
