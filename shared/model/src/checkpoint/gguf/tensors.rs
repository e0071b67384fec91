//! The table of tensors: where each one's bytes are, and in which quantisation.

use std::collections::BTreeMap;
use std::ops::Range;

use super::super::dequantise::Quantisation;
use super::super::error::Error;
use super::reader::Reader;

/// Tensors by GGUF name.
pub(super) struct TensorTable {
    pub(super) tensors: BTreeMap<String, TensorEntry>,
}

/// One tensor.
#[derive(Clone, Debug)]
pub(super) struct TensorEntry {
    /// Sizes, outermost first (the file lists them innermost first).
    pub(super) shape: Vec<usize>,
    pub(super) quantisation: Quantisation,
    /// Its bytes in the file.
    pub(super) span: Range<usize>,
}

/// What the table says about a tensor before the data's position is known.
struct Claim {
    name: String,
    shape: Vec<usize>,
    quantisation: Quantisation,
    offset: u64,
    n_bytes: usize,
}

impl TensorTable {
    pub(super) fn parse(reader: &mut Reader<'_>, n_tensors: u64, alignment: u64) -> Result<Self, Error> {
        // A name's length, a number of sizes, one size, a type, an offset.
        let n_tensors = reader.count(n_tensors, 8 + 4 + 8 + 4 + 8, "tensors")?;
        let claims = (0..n_tensors).map(|_| Claim::parse(reader)).collect::<Result<Vec<_>, _>>()?;
        let data_start = usize::try_from(alignment)
            .ok()
            .filter(|alignment| alignment.is_power_of_two())
            .and_then(|alignment| reader.offset().checked_next_multiple_of(alignment))
            .ok_or_else(|| reader.damaged(format!("general.alignment is {alignment}, expected a power of two")))?;
        let mut tensors = BTreeMap::new();
        for claim in claims {
            let name = claim.name.clone();
            if tensors.insert(name.clone(), claim.locate(reader, data_start)?).is_some() {
                return Err(reader.damaged(format!("the tensor {name} occurs twice")));
            }
        }
        refuse_overlaps(reader, &tensors)?;
        Ok(Self { tensors })
    }
}

/// Two tensors on the same bytes are no mistake that a converter makes, and a table of thousands of them would make a small
/// file as large as one likes once its weights are loaded.
fn refuse_overlaps(reader: &Reader<'_>, tensors: &BTreeMap<String, TensorEntry>) -> Result<(), Error> {
    let mut by_start: Vec<_> = tensors.iter().collect();
    by_start.sort_by_key(|(_, entry)| entry.span.start);
    let overlap = by_start.windows(2).find(|pair| pair[0].1.span.end > pair[1].1.span.start);
    overlap.map_or(Ok(()), |pair| {
        let ((first, _), (second, entry)) = (pair[0], pair[1]);
        let text = format!("the tensors {first} and {second} share bytes at offset {}", entry.span.start);
        Err(reader.damaged(text))
    })
}

impl Claim {
    fn parse(reader: &mut Reader<'_>) -> Result<Self, Error> {
        let name = reader.string("a tensor name")?.to_owned();
        let n_dimensions = reader.u32(&name)?;
        if !(1..=4).contains(&n_dimensions) {
            return Err(reader.damaged(format!("the tensor {name} has {n_dimensions} dimensions, expected 1 to 4")));
        }
        let mut shape = Vec::new();
        for _ in 0..n_dimensions {
            let size = reader.u64(&name)?;
            let size = usize::try_from(size).ok().filter(|size| *size > 0);
            shape.push(size.ok_or_else(|| reader.damaged(format!("the tensor {name} has an impossible size")))?);
        }
        let row_len = shape[0];
        shape.reverse();
        let quantisation = Quantisation::from_ggml(reader.u32(&name)?).map_err(|kind| {
            Error::unsupported(
                reader.path(),
                format!("quantisation {kind} (of {name})"),
                format!("use a file with {}", Quantisation::SUPPORTED),
            )
        })?;
        let offset = reader.u64(&name)?;
        let n_bytes = quantisation.n_bytes(row_len, &shape[..shape.len() - 1]).ok_or_else(|| {
            reader.damaged(format!(
                "the tensor {name} has shape {shape:?}, which {quantisation:?} cannot hold (blocks of {} values)",
                quantisation.block_len()
            ))
        })?;
        Ok(Self { name, shape, quantisation, offset, n_bytes })
    }

    fn locate(self, reader: &Reader<'_>, data_start: usize) -> Result<TensorEntry, Error> {
        let end = usize::try_from(self.offset)
            .ok()
            .and_then(|offset| data_start.checked_add(offset))
            .and_then(|start| Some((start, start.checked_add(self.n_bytes)?)))
            .filter(|(_, end)| *end <= reader.file_len());
        let (start, end) = end.ok_or_else(|| {
            reader.damaged(format!(
                "the tensor {} occupies {} bytes from offset {data_start} + {}, but the file has only {}",
                self.name,
                self.n_bytes,
                self.offset,
                reader.file_len()
            ))
        })?;
        Ok(TensorEntry { shape: self.shape, quantisation: self.quantisation, span: start..end })
    }
}
