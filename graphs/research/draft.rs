//! A document while it is being read.
//!
//! In come headings, lines and code in reading order from the reader of a format; out goes the
//! [`Document`]. It keeps the path of headings and cuts long text into passages. It never knows
//! which format is read.

use super::document::{Document, Passage};

/// A passage is closed at the next line once it has this many bytes.
const PASSAGE_BYTES: usize = 1_200;

/// Gathers headings and text.
#[derive(Debug, Default)]
pub(super) struct Draft {
    title: Option<String>,
    path: Vec<(usize, String)>,
    text: String,
    passages: Vec<Passage>,
    /// Whether the innermost heading is a term with no text below it yet.
    fresh_term: bool,
}

impl Draft {
    /// Names the document. The first name counts.
    pub(super) fn title(&mut self, text: &str) {
        let text = squeeze(text);
        if self.title.is_none() && !text.is_empty() {
            self.title = Some(text);
        }
    }

    /// Starts a part; it ends all parts of the same level and below.
    pub(super) fn heading(&mut self, level: usize, text: &str) {
        let text = squeeze(text);
        self.end(level);
        if !text.is_empty() {
            self.path.push((level, text));
        }
        self.fresh_term = false;
    }

    /// Starts the explanation of a term. Terms that follow each other share it.
    pub(super) fn term(&mut self, level: usize, text: &str) {
        let text = squeeze(text);
        if text.is_empty() {
            return;
        }
        if self.fresh_term
            && let Some((_, last)) = self.path.last_mut().filter(|(last, _)| *last == level)
        {
            last.push_str(", ");
            last.push_str(&text);
            return;
        }
        self.heading(level, &text);
        self.fresh_term = true;
    }

    /// Ends all parts of this level and below.
    pub(super) fn end(&mut self, level: usize) {
        self.close();
        self.path.retain(|(above, _)| *above < level);
        self.fresh_term = false;
    }

    /// Adds a paragraph, list item or table row.
    pub(super) fn line(&mut self, text: &str) {
        let text = squeeze(text);
        if text.is_empty() {
            return;
        }
        if self.text.len() >= PASSAGE_BYTES {
            self.close();
        }
        self.add(&text);
    }

    /// Adds code, line by line.
    pub(super) fn code(&mut self, text: &str) {
        for line in text.lines() {
            let line = squeeze(line);
            if !line.is_empty() {
                // Code stays in the passage that announces it, within reason.
                if self.text.len() >= 2 * PASSAGE_BYTES {
                    self.close();
                }
                self.add(&format!("    {line}"));
            }
        }
    }

    /// The document as gathered.
    pub(super) fn finish(mut self, id: &str, repaired: bool) -> Document {
        self.close();
        let named = self.title.take();
        if let Some(title) = named.as_ref().filter(|_| self.passages.is_empty()) {
            // A page of links alone can still be found by its title.
            self.passages.push(Passage {
                heading: vec![title.clone()],
                text: String::new(),
            });
        }
        let first = self
            .passages
            .iter()
            .find_map(|p| p.heading.first().cloned());
        let title = named.or(first).unwrap_or_else(|| id.to_owned());
        for passage in &mut self.passages {
            if passage.heading.first() != Some(&title) {
                passage.heading.insert(0, title.clone());
            }
        }
        Document {
            id: id.to_owned(),
            title,
            passages: self.passages,
            repaired,
        }
    }

    fn add(&mut self, line: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(line);
        self.fresh_term = false;
    }

    fn close(&mut self) {
        if !self.text.is_empty() {
            self.passages.push(Passage {
                heading: self.path.iter().map(|(_, text)| text.clone()).collect(),
                text: std::mem::take(&mut self.text),
            });
        }
    }
}

/// The text with single spaces between its words and without invisible characters.
pub(super) fn squeeze(text: &str) -> String {
    let mut squeezed = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !squeezed.is_empty() && !squeezed.ends_with(' ') {
            squeezed.push(' ');
        }
        let visible = |c: &char| !matches!(c, '\u{ad}' | '\u{200b}'..='\u{200d}' | '\u{feff}');
        if word.is_ascii() {
            squeezed.push_str(word);
        } else {
            squeezed.extend(word.chars().filter(visible).filter(|c| !c.is_control()));
        }
    }
    squeezed.truncate(squeezed.trim_end().len());
    squeezed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passage_carries_the_headings_above_it() {
        let mut draft = Draft::default();
        draft.heading(1, "Guide");
        draft.line("intro");
        draft.heading(2, "Setup");
        draft.term(9, "-F format");
        draft.term(9, "--format");
        draft.line("Selects\n  the format.");
        draft.end(9);
        draft.line("after");
        let document = draft.finish("guide.md", false);
        let paths: Vec<_> = document
            .passages
            .iter()
            .map(|p| p.heading.join("/"))
            .collect();
        assert_eq!(document.title, "Guide");
        assert_eq!(
            paths,
            ["Guide", "Guide/Setup/-F format, --format", "Guide/Setup"]
        );
        assert_eq!(document.passages[1].text, "Selects the format.");
    }

    #[test]
    fn long_text_is_cut_into_passages_at_lines() {
        let mut draft = Draft::default();
        for _ in 0..10 {
            draft.line(&"word ".repeat(100));
        }
        let document = draft.finish("a", false);
        assert_eq!(document.passages.len(), 4);
        assert_eq!(document.title, "a");
    }

    #[test]
    fn squeezing_leaves_single_spaces_and_nothing_invisible() {
        assert_eq!(squeeze(" a\u{a0}\n b\u{ad}c \u{200b} "), "a bc");
    }
}
