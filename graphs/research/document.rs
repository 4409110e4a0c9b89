//! A document as the graph reads it: a title, and passages below their headings.
//!
//! In come the bytes of a file, out goes a [`Document`] with its text normalised, or the reason
//! why there is none. Menus and the like are left out, so that they are never quoted. It never
//! touches a disk.

use serde::{Deserialize, Serialize};

use super::draft::Draft;
use super::library::SkipReason;
use super::{html, markdown, plain};

/// What a file says, ready to be searched and quoted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    /// The canonical id: the path below the folder, with `/`.
    pub id: String,
    /// The title, or the id where the document names none.
    pub title: String,
    /// The text in reading order.
    pub passages: Vec<Passage>,
    /// Whether single broken characters were replaced to read it.
    pub repaired: bool,
}

/// A run of text below one heading.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passage {
    /// The headings above, outermost first; the first is the document's title.
    pub heading: Vec<String>,
    /// One line a paragraph, list item or table row, with single spaces between words; lines of
    /// code start with four spaces.
    pub text: String,
}

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// HTML or XHTML.
    Html,
    /// Markdown.
    Markdown,
    /// Text without markup.
    Plain,
}

impl Format {
    /// The format that a file's name tells; `None` for what is no document.
    pub fn of_name(name: &str) -> Option<Self> {
        let Some((_, ending)) = name.rsplit_once('.') else {
            return Some(Self::Plain);
        };
        match ending.to_ascii_lowercase().as_str() {
            "html" | "htm" | "xhtml" => Some(Self::Html),
            "md" | "markdown" | "mdown" => Some(Self::Markdown),
            "txt" | "text" | "rst" | "adoc" | "org" => Some(Self::Plain),
            _ => None,
        }
    }
}

impl Document {
    /// Reads a document from the bytes of a file.
    ///
    /// # Errors
    ///
    /// The reason when the bytes are no text. A few broken characters in a long text are replaced
    /// and said so in [`repaired`](Document::repaired).
    pub fn parse(id: &str, format: Format, bytes: &[u8]) -> Result<Self, SkipReason> {
        let (text, repaired) = decode(bytes)?;
        let mut draft = Draft::default();
        match format {
            Format::Html => html::read(&text, &mut draft),
            Format::Markdown => markdown::read(&text, &mut draft),
            Format::Plain => plain::read(&text, &mut draft),
        }
        let document = draft.finish(id, repaired);
        if document.passages.is_empty() {
            return Err(SkipReason::Empty);
        }
        Ok(document)
    }

    /// Whether these words occur in the document, ignoring how they are spaced.
    pub fn has_words(&self, quoted: &str) -> bool {
        let wanted: Vec<&str> = quoted.split_whitespace().collect();
        if wanted.is_empty() {
            return false;
        }
        let wanted = wanted.join(" ");
        self.passages.iter().any(|passage| {
            let text: Vec<&str> = passage.text.split_whitespace().collect();
            has_whole(&text.join(" "), &wanted)
        })
    }
}

/// Whether `wanted` stands in `text` and is not cut out of the middle of a word.
pub(super) fn has_whole(text: &str, wanted: &str) -> bool {
    let inside = |near: Option<char>, edge: Option<char>| {
        near.is_some_and(char::is_alphanumeric) && edge.is_some_and(char::is_alphanumeric)
    };
    text.match_indices(wanted).any(|(at, found)| {
        let before = text[..at].chars().next_back();
        let after = text[at + found.len()..].chars().next();
        !inside(before, found.chars().next()) && !inside(after, found.chars().next_back())
    })
}

/// How many bytes of a text may be broken before it counts as no text: one in this many.
const BROKEN_ONE_IN: usize = 200;

fn decode(bytes: &[u8]) -> Result<(String, bool), SkipReason> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if bytes.contains(&0) {
        return Err(SkipReason::Binary);
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok((text.to_owned(), false)),
        Err(_) => {
            let broken: usize = bytes.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
            if broken * BROKEN_ONE_IN > bytes.len() {
                return Err(SkipReason::NotUtf8 { broken });
            }
            Ok((String::from_utf8_lossy(bytes).into_owned(), true))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_tells_the_format() {
        assert_eq!(Format::of_name("a.HTML"), Some(Format::Html));
        assert_eq!(Format::of_name("a.b.md"), Some(Format::Markdown));
        assert_eq!(Format::of_name("README"), Some(Format::Plain));
        assert_eq!(Format::of_name("a.png"), None);
    }

    #[test]
    fn bytes_that_are_no_text_are_refused_and_single_flaws_repaired() {
        let read = |bytes: &[u8]| Document::parse("a", Format::Plain, bytes);
        assert_eq!(read(b"a\0b"), Err(SkipReason::Binary));
        assert_eq!(read(b"\xff\xfe"), Err(SkipReason::NotUtf8 { broken: 2 }));
        assert_eq!(read(b" \n"), Err(SkipReason::Empty));
        let mut long = "Long text. ".repeat(100).into_bytes();
        long.push(0xff);
        assert!(read(&long).unwrap().repaired);
    }

    #[test]
    fn quoted_words_are_found_whole_or_not_at_all() {
        let text = b"The default is\n100 connections.";
        let document = Document::parse("a", Format::Plain, text).unwrap();
        assert!(document.has_words("default  is 100 connections"));
        assert!(!document.has_words("default is 10"));
        assert!(!document.has_words(" "));
    }
}
