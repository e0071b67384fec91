//! Weights in safetensors files: one `model.safetensors`, or shards listed in `model.safetensors.index.json`.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path};

use half::f16;
use half::slice::HalfFloatSliceExt;
use safetensors::tensor::TensorInfo;
use safetensors::{Dtype, SafeTensors};

use super::error::Error;
use super::mapping::Mapping;
use super::small_file::read_json;
use super::tensor::{HostTensor, Values, view};

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// Mapped safetensors files, looked up by tensor name.
pub struct SafetensorsFiles {
    files: Vec<Mapping>,
    /// For each tensor: which file, and where in it.
    tensors: BTreeMap<String, Location>,
}

struct Location {
    file: usize,
    info: TensorInfo,
    /// Where the tensor's bytes begin in the file.
    start: usize,
}

impl SafetensorsFiles {
    /// Opens the weights of a Hugging Face folder.
    pub(super) fn open_folder(folder: &Path) -> Result<Self, Error> {
        let index = folder.join(INDEX);
        if index.is_file() {
            let shards = shards(&index)?;
            let absent: Vec<_> = shards.iter().filter(|name| !folder.join(name).is_file()).cloned().collect();
            if !absent.is_empty() {
                let text = format!("{} of {} shards are missing: {}", absent.len(), shards.len(), absent.join(", "));
                return Err(Error::incomplete(folder, vec![text]));
            }
            return Self::open_files(shards.iter().map(|name| folder.join(name)));
        }
        let single = folder.join(SINGLE);
        if single.is_file() {
            return Self::open_files([single]);
        }
        let problem = format!("there is neither {SINGLE} nor {INDEX}; other weight formats are not read");
        Err(Error::incomplete(folder, vec![problem]))
    }

    /// Opens one file.
    ///
    /// # Errors
    /// If it cannot be read or is damaged.
    pub fn open_file(path: &Path) -> Result<Self, Error> {
        Self::open_files([path])
    }

    fn open_files(paths: impl IntoIterator<Item = impl AsRef<Path>>) -> Result<Self, Error> {
        let mut opened = Self { files: Vec::new(), tensors: BTreeMap::new() };
        for path in paths {
            opened.add(Mapping::open(path.as_ref())?)?;
        }
        Ok(opened)
    }

    fn add(&mut self, mapping: Mapping) -> Result<(), Error> {
        let (path, bytes) = (mapping.path(), mapping.bytes());
        let (header_len, metadata) = SafeTensors::read_metadata(bytes)
            .map_err(|error| Error::damaged(path, format!("{error} (the file has {} bytes)", bytes.len())))?;
        // Eight bytes of length, the header, then the data; `read_metadata` has checked that all of it is there.
        let data_start = 8 + header_len;
        let file = self.files.len();
        for (name, info) in metadata.tensors() {
            let location = Location { file, info: info.clone(), start: data_start + info.data_offsets.0 };
            if self.tensors.insert(name.clone(), location).is_some() {
                return Err(Error::damaged(path, format!("the tensor {name} occurs in two files")));
            }
        }
        self.files.push(mapping);
        Ok(())
    }

    /// Names of all tensors, ascending.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// The shape of a tensor, if it is there.
    pub fn shape(&self, name: &str) -> Option<Vec<usize>> {
        self.tensors.get(name).map(|location| location.info.shape.clone())
    }

    /// The values of a tensor.
    ///
    /// # Errors
    /// If it is not there, or holds anything but bf16, f16 or f32.
    pub fn tensor(&self, name: &str) -> Result<HostTensor<'_>, Error> {
        let (location, bytes) = self.bytes(name)?;
        let values = match location.info.dtype {
            Dtype::BF16 => Values::Bf16(view(bytes)),
            Dtype::F32 => Values::F32(view(bytes)),
            Dtype::F16 => {
                let halves: Cow<'_, [f16]> = view(bytes);
                let mut widened = vec![0.0; halves.len()];
                halves.convert_to_f32_slice(&mut widened);
                Values::F32(Cow::Owned(widened))
            }
            other => {
                return Err(Error::unsupported(
                    self.files[location.file].path(),
                    format!("element type {other:?} (of {name})"),
                    "convert the weights to bf16, f16 or f32",
                ));
            }
        };
        Ok(HostTensor { shape: location.info.shape.clone(), values })
    }

    /// A list of integers, if there is a tensor of that name.
    pub(crate) fn token_ids(&self, name: &str) -> Result<Option<Vec<i64>>, Error> {
        if !self.tensors.contains_key(name) {
            return Ok(None);
        }
        let (location, bytes) = self.bytes(name)?;
        let ids = match location.info.dtype {
            Dtype::I32 => view::<i32>(bytes).iter().map(|id| i64::from(*id)).collect(),
            Dtype::U32 => view::<u32>(bytes).iter().map(|id| i64::from(*id)).collect(),
            Dtype::I64 => view::<i64>(bytes).into_owned(),
            other => {
                return Err(Error::unsupported(
                    self.files[location.file].path(),
                    format!("element type {other:?} (of {name})"),
                    "store token ids as int32 or int64",
                ));
            }
        };
        Ok(Some(ids))
    }

    fn bytes(&self, name: &str) -> Result<(&Location, &[u8]), Error> {
        let location = self.tensors.get(name).ok_or_else(|| Error::NoSuchTensor { name: name.to_owned() })?;
        let (begin, end) = location.info.data_offsets;
        Ok((location, &self.files[location.file].bytes()[location.start..location.start + (end - begin)]))
    }
}

/// The file names in an index. They must be plain names: an index must not reach outside its folder.
fn shards(index: &Path) -> Result<BTreeSet<String>, Error> {
    let json = read_json(index)?.unwrap_or_default();
    let map = json
        .get("weight_map")
        .and_then(serde_json::Value::as_object)
        .ok_or_else(|| Error::damaged(index, "it has no weight_map"))?;
    map.values()
        .map(|value| {
            let name = value.as_str().unwrap_or_default();
            let mut parts = Path::new(name).components();
            match (parts.next(), parts.next()) {
                (Some(Component::Normal(_)), None) => Ok(name.to_owned()),
                _ => Err(Error::damaged(index, format!("{value} is not a file name"))),
            }
        })
        .collect()
}
