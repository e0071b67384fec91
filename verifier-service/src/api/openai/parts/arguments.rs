//! Where the JSON object of a call's arguments ends.

/// How deep inside the object, which begins with the first byte.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Arguments {
    depth: usize,
    in_string: bool,
    /// Behind a backslash.
    is_escaped: bool,
}

impl Arguments {
    /// Takes the next piece, and says where in it the object is complete.
    pub(super) fn end_in(&mut self, piece: &str) -> Option<usize> {
        piece.bytes().position(|byte| self.is_complete_with(byte)).map(|last| last + 1)
    }

    fn is_complete_with(&mut self, byte: u8) -> bool {
        match byte {
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' if self.in_string => self.is_escaped = true,
            b'"' => self.in_string = !self.in_string,
            _ if self.in_string => {}
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                return self.depth == 0;
            }
            _ => {}
        }
        false
    }
}
