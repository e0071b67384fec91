//! Typed key-value pairs. Arrays (the vocabulary) stay in the mapped file and are decoded when asked for.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use super::super::error::Error;
use super::reader::{Reader, copy};

/// The metadata of a file, without the bytes that its arrays refer to.
pub(super) struct Metadata {
    entries: BTreeMap<String, Value>,
}

#[derive(Clone, Debug)]
enum Value {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Bool(bool),
    String(String),
    Array { kind: Kind, count: usize, span: Range<usize> },
}

/// Value types by their number in the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    String,
    Array,
    U64,
    I64,
    F64,
}

impl Metadata {
    /// Reads `n_entries` pairs.
    pub(super) fn parse(reader: &mut Reader<'_>, n_entries: u64) -> Result<Self, Error> {
        // A key's length, a type and one byte of value.
        let n_entries = reader.count(n_entries, 8 + 4 + 1, "metadata entries")?;
        let mut entries = BTreeMap::new();
        for _ in 0..n_entries {
            let key = reader.string("a metadata key")?;
            let kind = Kind::parse(reader, key)?;
            let value = Value::parse(reader, kind, key)?;
            if entries.insert(key.to_owned(), value).is_some() {
                return Err(reader.damaged(format!("the key {key} occurs twice")));
            }
        }
        Ok(Self { entries })
    }

    /// Access to the values; `bytes` are those of the file that was parsed.
    pub(super) fn view<'a>(&'a self, path: &'a Path, bytes: &'a [u8]) -> View<'a> {
        View { metadata: self, path, bytes }
    }
}

/// Typed look-ups. A key of an unexpected type is an error, an absent one is `None`.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    metadata: &'a Metadata,
    path: &'a Path,
    bytes: &'a [u8],
}

impl<'a> View<'a> {
    pub(super) fn path(&self) -> &'a Path {
        self.path
    }

    /// Bytes of the file, at a place that has been checked.
    pub(super) fn file_bytes(&self, span: Range<usize>) -> &'a [u8] {
        &self.bytes[span]
    }

    pub(super) fn unsigned(&self, key: &str) -> Result<Option<u64>, Error> {
        self.get(key, "an unsigned integer", |value| match value {
            Value::Unsigned(number) => Some(*number),
            Value::Signed(number) => u64::try_from(*number).ok(),
            _ => None,
        })
    }

    pub(super) fn float(&self, key: &str) -> Result<Option<f64>, Error> {
        self.get(key, "a number", |value| match value {
            Value::Float(number) => Some(*number),
            Value::Unsigned(number) => Some(*number as f64),
            Value::Signed(number) => Some(*number as f64),
            _ => None,
        })
    }

    pub(super) fn bool(&self, key: &str) -> Result<Option<bool>, Error> {
        self.get(key, "true or false", |value| match value {
            Value::Bool(flag) => Some(*flag),
            _ => None,
        })
    }

    pub(super) fn string(&self, key: &str) -> Result<Option<&'a str>, Error> {
        self.get(key, "a string", |value| match value {
            Value::String(text) => Some(text.as_str()),
            _ => None,
        })
    }

    pub(super) fn strings(&self, key: &str) -> Result<Option<Vec<&'a str>>, Error> {
        let Some((count, mut reader)) = self.array(key, Kind::String)? else { return Ok(None) };
        (0..count).map(|_| reader.string(key)).collect::<Result<_, _>>().map(Some)
    }

    pub(super) fn floats(&self, key: &str) -> Result<Option<Vec<f32>>, Error> {
        let Some((count, mut reader)) = self.array(key, Kind::F32)? else { return Ok(None) };
        let bytes = reader.take(count * 4, key)?;
        Ok(Some(bytes.chunks_exact(4).map(|chunk| f32::from_le_bytes(copy(chunk))).collect()))
    }

    pub(super) fn signed_integers(&self, key: &str) -> Result<Option<Vec<i32>>, Error> {
        let Some((count, mut reader)) = self.array(key, Kind::I32)? else { return Ok(None) };
        let bytes = reader.take(count * 4, key)?;
        Ok(Some(bytes.chunks_exact(4).map(|chunk| i32::from_le_bytes(copy(chunk))).collect()))
    }

    fn array(&self, key: &str, expected: Kind) -> Result<Option<(usize, Reader<'a>)>, Error> {
        self.get(key, &format!("an array of {expected:?}"), |value| match value {
            Value::Array { kind, count, span } if *kind == expected => {
                Some((*count, Reader::at(self.path, &self.bytes[..span.end], span.start)))
            }
            _ => None,
        })
    }

    fn get<T>(
        &self,
        key: &str,
        expected: &str,
        convert: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some(value) = self.metadata.entries.get(key) else { return Ok(None) };
        convert(value)
            .map(Some)
            .ok_or_else(|| Error::damaged(self.path, format!("the metadata key {key} is not {expected}")))
    }
}

impl Value {
    fn parse(reader: &mut Reader<'_>, kind: Kind, key: &str) -> Result<Self, Error> {
        let mut take = |n: usize| reader.take(n, key);
        Ok(match kind {
            Kind::U8 => Self::Unsigned(u64::from(u8::from_le_bytes(copy(take(1)?)))),
            Kind::U16 => Self::Unsigned(u64::from(u16::from_le_bytes(copy(take(2)?)))),
            Kind::U32 => Self::Unsigned(u64::from(u32::from_le_bytes(copy(take(4)?)))),
            Kind::U64 => Self::Unsigned(u64::from_le_bytes(copy(take(8)?))),
            Kind::I8 => Self::Signed(i64::from(i8::from_le_bytes(copy(take(1)?)))),
            Kind::I16 => Self::Signed(i64::from(i16::from_le_bytes(copy(take(2)?)))),
            Kind::I32 => Self::Signed(i64::from(i32::from_le_bytes(copy(take(4)?)))),
            Kind::I64 => Self::Signed(i64::from_le_bytes(copy(take(8)?))),
            Kind::F32 => Self::Float(f64::from(f32::from_le_bytes(copy(take(4)?)))),
            Kind::F64 => Self::Float(f64::from_le_bytes(copy(take(8)?))),
            Kind::Bool => Self::Bool(take(1)? != [0]),
            Kind::String => Self::String(reader.string(key)?.to_owned()),
            Kind::Array => Self::parse_array(reader, key)?,
        })
    }

    /// Walks over an array once, so that later decoding finds it whole.
    fn parse_array(reader: &mut Reader<'_>, key: &str) -> Result<Self, Error> {
        let kind = Kind::parse(reader, key)?;
        let count = reader.u64(key)?;
        let count = reader.count(count, kind.least_bytes(), &format!("elements of {key}"))?;
        let start = reader.offset();
        match kind {
            Kind::Array => return Err(reader.damaged(format!("{key} is an array of arrays, which no reader accepts"))),
            Kind::String => {
                for _ in 0..count {
                    reader.string(key)?;
                }
            }
            _ => {
                reader.take(count * kind.least_bytes(), key)?;
            }
        }
        Ok(Self::Array { kind, count, span: start..reader.offset() })
    }
}

impl Kind {
    fn parse(reader: &mut Reader<'_>, key: &str) -> Result<Self, Error> {
        const KINDS: [Kind; 13] = [
            Kind::U8,
            Kind::I8,
            Kind::U16,
            Kind::I16,
            Kind::U32,
            Kind::I32,
            Kind::F32,
            Kind::Bool,
            Kind::String,
            Kind::Array,
            Kind::U64,
            Kind::I64,
            Kind::F64,
        ];
        let offset = reader.offset();
        let number = reader.u32(key)?;
        KINDS
            .get(number as usize)
            .copied()
            .ok_or_else(|| reader.damaged(format!("{key} at offset {offset} has the unknown type {number}")))
    }

    /// Bytes of a number; for strings and arrays the bytes of their length.
    fn least_bytes(self) -> usize {
        match self {
            Self::U8 | Self::I8 | Self::Bool => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 | Self::String => 8,
            Self::Array => 12,
        }
    }
}
