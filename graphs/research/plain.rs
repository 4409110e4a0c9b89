//! Reads text without markup.
//!
//! In comes text, out go its paragraphs to the draft; a line that is underlined with `=` or `-` is
//! a heading. It never guesses any other structure.

use super::draft::Draft;

/// Reads a plain text into the draft.
pub(super) fn read(text: &str, draft: &mut Draft) {
    let mut paragraph = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let underline = lines.peek().map_or("", |next| next.trim_end());
        if paragraph.is_empty() && !line.trim().is_empty() && is_underline(underline, line) {
            let level = if underline.starts_with('=') { 1 } else { 2 };
            draft.heading(level, line);
            lines.next();
        } else if line.trim().is_empty() {
            draft.line(&std::mem::take(&mut paragraph));
        } else {
            paragraph.push_str(line);
            paragraph.push('\n');
        }
    }
    draft.line(&paragraph);
}

fn is_underline(below: &str, line: &str) -> bool {
    let long = below.len() >= 3 && below.len() * 2 >= line.trim_end().len();
    long && (below.bytes().all(|b| b == b'=') || below.bytes().all(|b| b == b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_are_joined_and_underlined_lines_are_headings() {
        let mut draft = Draft::default();
        read("Notes\n=====\n\nfirst\nparagraph\n\nsecond\n", &mut draft);
        let document = draft.finish("n.txt", false);
        assert_eq!(document.title, "Notes");
        assert_eq!(document.passages[0].text, "first paragraph\nsecond");
    }
}
