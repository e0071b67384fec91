//! The byte alphabet of GPT-2's vocabularies.
//!
//! Byte-level BPE works on bytes but stores tokens as text, so every byte is given a printable character: itself where
//! it is printable in Latin-1, else one of the characters from U+0100 on, in order (a space becomes U+0120, "Ġ").

/// The bytes of a token's text; `None` if it holds a character outside the alphabet.
pub(super) fn bytes_of(token: &str) -> Option<Vec<u8>> {
    token.chars().map(byte_of).collect()
}

fn byte_of(character: char) -> Option<u8> {
    let code = u32::from(character);
    match u8::try_from(code) {
        Ok(byte) => is_printable(byte).then_some(byte),
        Err(_) => (0..=u8::MAX).filter(|byte| !is_printable(*byte)).nth(usize::try_from(code - 0x100).ok()?),
    }
}

/// Printable in Latin-1, the space and the soft hyphen excepted.
fn is_printable(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF)
}

#[cfg(test)]
mod tests {
    use super::bytes_of;

    #[test]
    fn the_alphabet_covers_every_byte_once() {
        let mut bytes: Vec<u8> =
            (0..0x200).filter_map(char::from_u32).filter_map(|c| bytes_of(&c.to_string())).flatten().collect();
        bytes.sort_unstable();
        assert_eq!(bytes, (0..=u8::MAX).collect::<Vec<_>>());
    }

    #[test]
    fn known_spellings() {
        assert_eq!(bytes_of("Ġthe").as_deref(), Some(b" the".as_slice()));
        assert_eq!(bytes_of("Ċ").as_deref(), Some(b"\n".as_slice()));
        assert_eq!(bytes_of("Ã©").as_deref(), Some("é".as_bytes()));
        assert_eq!(bytes_of("日"), None);
    }
}
