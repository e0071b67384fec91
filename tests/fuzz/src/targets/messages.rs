//! Several messages in one input. Where each begins is not said by a length, or one mistake would spoil all of them.

const BORDER: &[u8] = b"\n--\n";

/// An input of these messages.
pub(super) fn join(messages: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
    messages.into_iter().collect::<Vec<_>>().join(BORDER)
}

/// The messages of an input: at least one, which may be empty.
pub(super) fn split(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut messages = Vec::new();
    while let Some(end) = bytes.windows(BORDER.len()).position(|window| window == BORDER) {
        messages.push(&bytes[..end]);
        bytes = &bytes[end + BORDER.len()..];
    }
    messages.push(bytes);
    messages
}
