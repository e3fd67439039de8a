//! Memory for true values: overwritten when it is dropped, also where it has to grow.

use zeroize::{Zeroize, Zeroizing};

/// A value as its client wrote it, perhaps the true value of a person. Overwritten when it is
/// dropped; nothing prints it.
#[derive(Clone, PartialEq)]
pub struct TrueText(Zeroizing<String>);

impl TrueText {
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// For the code that randomises it, or that sends the value of another column.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// Bytes of true values that come one after the other. A `Vec` that grows leaves its old memory as
/// it is; here the old memory is overwritten.
#[derive(Default)]
pub struct TrueBytes(Zeroizing<Vec<u8>>);

impl TrueBytes {
    /// Room for this many bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        Self(Zeroizing::new(Vec::with_capacity(bytes)))
    }

    pub fn push(&mut self, byte: u8) {
        self.reserve(1);
        self.0.push(byte);
    }

    pub fn extend(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        self.0.extend_from_slice(bytes);
    }

    pub fn push_char(&mut self, of: char) {
        let mut encoded = [0; 4];
        self.extend(of.encode_utf8(&mut encoded).as_bytes());
        encoded.zeroize();
    }

    pub fn truncate(&mut self, bytes: usize) {
        self.0.truncate(bytes);
    }

    /// Takes the first bytes away, and overwrites what they left behind.
    pub fn cut(&mut self, bytes: usize) {
        let bytes = bytes.min(self.0.len());
        if bytes == 0 {
            return;
        }
        let kept = self.0.len() - bytes;
        self.0.copy_within(bytes.., 0);
        self.0[kept..].zeroize();
        self.0.truncate(kept);
    }

    /// How many bytes of memory it has.
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// The text that the bytes are; `None` where they are no UTF-8.
    pub fn text(&self) -> Option<TrueText> {
        let text = std::str::from_utf8(&self.0).ok()?;
        Some(TrueText::new(text.to_owned()))
    }

    fn reserve(&mut self, more: usize) {
        let wanted = self.0.len() + more;
        if wanted > self.0.capacity() {
            let room = wanted.max(2 * self.0.capacity()).max(16);
            let mut grown = Zeroizing::new(Vec::with_capacity(room));
            grown.extend_from_slice(&self.0);
            self.0 = grown;
        }
    }
}

impl std::ops::Deref for TrueBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// For numbers and times, which are written in parts.
impl std::fmt::Write for TrueBytes {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.extend(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_kept_and_cut_as_a_vector_does() {
        let (mut bytes, mut wanted) = (TrueBytes::default(), Vec::new());
        for round in 0..200u8 {
            bytes.push(round);
            bytes.extend(&[round; 7]);
            bytes.push_char('é');
            wanted.push(round);
            wanted.extend([round; 7]);
            wanted.extend("é".as_bytes());
            if round % 11 == 0 {
                bytes.cut(5);
                wanted.drain(..5);
            }
            assert_eq!(*bytes, *wanted);
        }
        assert!(bytes.capacity() >= wanted.len() && bytes.capacity() <= 4 * wanted.len());
        bytes.truncate(3);
        assert_eq!(*bytes, wanted[..3]);
        bytes.cut(10);
        assert!(bytes.is_empty());
        bytes.extend(b"\xff");
        assert!(bytes.text().is_none());
    }
}
