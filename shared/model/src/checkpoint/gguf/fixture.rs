//! Writes small GGUF files, right and wrong ones, for tests.

/// A value of a metadata entry.
pub enum Entry<'a> {
    /// A 32-bit number.
    U32(u32),
    /// A float.
    F32(f32),
    /// A flag.
    Bool(bool),
    /// A string.
    Text(&'a str),
    /// An array of strings.
    Texts(&'a [&'a str]),
    /// An array of 32-bit numbers.
    I32s(&'a [i32]),
    /// An array of floats.
    F32s(&'a [f32]),
}

/// A GGUF file under construction.
#[derive(Clone)]
pub struct GgufBuilder {
    version: u32,
    entries: Vec<(String, Vec<u8>)>,
    tensors: Vec<(String, Vec<u64>, u32, Vec<u8>)>,
}

impl Default for GgufBuilder {
    fn default() -> Self {
        Self { version: 3, entries: Vec::new(), tensors: Vec::new() }
    }
}

impl GgufBuilder {
    /// Another version than 3.
    #[must_use]
    pub fn version(self, version: u32) -> Self {
        Self { version, ..self }
    }

    /// Adds an entry, or replaces the one of that key.
    #[must_use]
    pub fn entry(mut self, key: &str, entry: Entry<'_>) -> Self {
        let mut bytes = Vec::new();
        match entry {
            Entry::U32(number) => push(&mut bytes, 4, &number.to_le_bytes()),
            Entry::F32(number) => push(&mut bytes, 6, &number.to_le_bytes()),
            Entry::Bool(flag) => push(&mut bytes, 7, &[u8::from(flag)]),
            Entry::Text(text) => push(&mut bytes, 8, &string(text)),
            Entry::Texts(texts) => {
                push(&mut bytes, 9, &8_u32.to_le_bytes());
                bytes.extend((texts.len() as u64).to_le_bytes());
                bytes.extend(texts.iter().flat_map(|text| string(text)));
            }
            Entry::I32s(numbers) => {
                push(&mut bytes, 9, &5_u32.to_le_bytes());
                bytes.extend((numbers.len() as u64).to_le_bytes());
                bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
            }
            Entry::F32s(numbers) => {
                push(&mut bytes, 9, &6_u32.to_le_bytes());
                bytes.extend((numbers.len() as u64).to_le_bytes());
                bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
            }
        }
        self = self.without_entry(key);
        self.entries.push((key.to_owned(), bytes));
        self
    }

    /// Removes an entry.
    #[must_use]
    pub fn without_entry(mut self, key: &str) -> Self {
        self.entries.retain(|(name, _)| name != key);
        self
    }

    /// Adds an F32 tensor; `shape` is outermost first.
    #[must_use]
    pub fn tensor(self, name: &str, shape: &[usize], values: &[f32]) -> Self {
        self.raw_tensor(name, shape, 0, values.iter().flat_map(|value| value.to_le_bytes()).collect())
    }

    /// Adds a tensor of the element type that has the number `kind`, or replaces the one of that name.
    #[must_use]
    pub fn raw_tensor(mut self, name: &str, shape: &[usize], kind: u32, bytes: Vec<u8>) -> Self {
        self.tensors.retain(|(existing, ..)| existing != name);
        self.tensors.push((name.to_owned(), shape.iter().rev().map(|size| *size as u64).collect(), kind, bytes));
        self
    }

    /// Removes a tensor.
    #[must_use]
    pub fn without_tensor(mut self, name: &str) -> Self {
        self.tensors.retain(|(existing, ..)| existing != name);
        self
    }

    /// The file's bytes.
    pub fn build(&self) -> Vec<u8> {
        let mut file = b"GGUF".to_vec();
        file.extend(self.version.to_le_bytes());
        file.extend((self.tensors.len() as u64).to_le_bytes());
        file.extend((self.entries.len() as u64).to_le_bytes());
        for (key, bytes) in &self.entries {
            file.extend(string(key));
            file.extend(bytes);
        }
        let mut data = Vec::new();
        for (name, sizes, kind, bytes) in &self.tensors {
            file.extend(string(name));
            file.extend((sizes.len() as u32).to_le_bytes());
            file.extend(sizes.iter().flat_map(|size| size.to_le_bytes()));
            file.extend(kind.to_le_bytes());
            file.extend((data.len() as u64).to_le_bytes());
            data.extend(bytes);
            data.resize(data.len().next_multiple_of(32), 0);
        }
        file.resize(file.len().next_multiple_of(32), 0);
        file.extend(data);
        file
    }
}

fn push(bytes: &mut Vec<u8>, kind: u32, value: &[u8]) {
    bytes.extend(kind.to_le_bytes());
    bytes.extend(value);
}

fn string(text: &str) -> Vec<u8> {
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes
}
