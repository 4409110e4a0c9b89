//! Values laid out for people.
//!
//! In come JSON values, out go lines: what fits stays on one line, a text with line breaks is a
//! block, lists and maps say how much they hold. What is cut says how much there is.

use serde_json::Value;
use unicode_width::UnicodeWidthStr;

use super::out::{cut, one_line};

/// How many items of a list or a map are shown.
const ITEMS: usize = 8;
/// How many lines of a text are shown.
const LINES: usize = 8;
/// How many columns a value that is cut has at least beside what is said of it.
const LEAST: usize = 8;
/// How many levels below a field are taken apart.
const LEVELS: usize = 1;

/// How values are laid out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    /// How many columns there are.
    pub(super) width: usize,
    /// Whether nothing is cut.
    pub(super) full: bool,
}

impl Layout {
    /// The lines of a named value.
    pub(super) fn of(self, name: &str, value: &Value, indent: usize) -> Vec<String> {
        let mut lines = Vec::new();
        self.lay(&mut lines, &one_line(name), value, indent, LEVELS);
        lines
    }

    fn lay(self, lines: &mut Vec<String>, name: &str, value: &Value, indent: usize, levels: usize) {
        let before = format!("{:indent$}{name}: ", "");
        let left = self.width.saturating_sub(before.width()).max(16);
        let text = value.to_string();
        match value {
            Value::String(text) if text.contains('\n') => {
                let count = text.lines().count();
                lines.push(format!(
                    "{before}{}, {}",
                    many(count, "line", "lines"),
                    long(text)
                ));
                self.block(lines, text, indent + 2);
            }
            _ if text.width() <= left => lines.push(before + &text),
            Value::Array(items) if self.full || levels > 0 => {
                lines.push(before + &many(items.len(), "item", "items"));
                let items = items.iter().enumerate();
                let items = items.map(|(place, item)| (format!("[{place}]"), item));
                self.all(lines, items, indent + 2, levels);
            }
            Value::Object(entries) if self.full || levels > 0 => {
                lines.push(before + &many(entries.len(), "entry", "entries"));
                let entries = entries.iter().map(|(key, value)| (one_line(key), value));
                self.all(lines, entries, indent + 2, levels);
            }
            _ if self.full => lines.push(before + &text),
            _ => lines.push(before + &brief(value, left)),
        }
    }

    fn all<'v>(
        self,
        lines: &mut Vec<String>,
        values: impl ExactSizeIterator<Item = (String, &'v Value)>,
        indent: usize,
        levels: usize,
    ) {
        let shown = self.most(ITEMS, values.len());
        let more = values.len() - shown;
        for (name, value) in values.take(shown) {
            self.lay(lines, &name, value, indent, levels.saturating_sub(1));
        }
        if more > 0 {
            lines.push(format!("{:indent$}… {more} more", ""));
        }
    }

    fn block(self, lines: &mut Vec<String>, text: &str, indent: usize) {
        let count = text.lines().count();
        let shown = self.most(LINES, count);
        for line in text.lines().take(shown) {
            let line = match self.full {
                true => line.to_owned(),
                false => cut(line, self.width.saturating_sub(indent).max(16)),
            };
            lines.push(format!("{:indent$}{line}", "").trim_end().to_owned());
        }
        if count > shown {
            lines.push(format!("{:indent$}… {} more lines", "", count - shown));
        }
    }

    fn most(self, some: usize, all: usize) -> usize {
        match self.full {
            true => all,
            false => some.min(all),
        }
    }
}

/// A value on one line, with how much there is where it is cut.
pub(super) fn brief(value: &Value, width: usize) -> String {
    let text = value.to_string();
    if text.width() <= width {
        return text;
    }
    let much = match value {
        Value::Array(items) => format!(" ({})", many(items.len(), "item", "items")),
        Value::Object(entries) => format!(" ({})", many(entries.len(), "entry", "entries")),
        Value::String(text) => format!(" ({})", long(text)),
        _ => String::new(),
    };
    let left = width.saturating_sub(much.width());
    if left < LEAST {
        return cut(&text, width);
    }
    format!("{}{much}", cut(&text, left))
}

fn long(text: &str) -> String {
    many(text.chars().count(), "character", "characters")
}

/// A count with its word.
pub(super) fn many(count: usize, one: &str, more: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        n => format!("{n} {more}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SHORT: Layout = Layout {
        width: 40,
        full: false,
    };
    const FULL: Layout = Layout {
        width: 40,
        full: true,
    };

    #[test]
    fn what_fits_stays_on_its_line_and_what_is_cut_says_how_much_there_is() {
        assert_eq!(SHORT.of("n", &json!([1, 2]), 2), ["  n: [1,2]"]);
        let long = json!("ä".repeat(100));
        let line = SHORT.of("s", &long, 2);
        assert_eq!(line.len(), 1);
        assert_eq!(line[0].width(), 40, "{line:?}");
        assert!(line[0].ends_with("… (100 characters)"), "{line:?}");
        assert_eq!(FULL.of("s", &long, 2), [format!("  s: {long}")]);
        assert_eq!(brief(&long, 16), format!("\"{}…", "ä".repeat(14)));
    }

    #[test]
    fn a_text_with_line_breaks_is_a_block() {
        let text = (1..=10).map(|n| format!("line {n}\n")).collect::<String>();
        let lines = SHORT.of("text", &json!(text), 0);
        assert_eq!(lines[0], "text: 10 lines, 71 characters");
        assert_eq!((&*lines[1], lines.len()), ("  line 1", 10));
        assert_eq!(lines[9], "  … 2 more lines");
        assert_eq!(FULL.of("text", &json!(text), 0)[10], "  line 10");
    }

    #[test]
    fn lists_and_maps_are_taken_apart_to_a_small_depth() {
        let inner = json!({"a": ["x".repeat(30), "y".repeat(30)], "b": 1});
        let deep = json!([[inner], 2]);
        let lines = SHORT.of("deep", &deep, 0);
        assert_eq!(lines[0], "deep: 2 items");
        assert!(lines[1].starts_with("  [0]: [{"), "{lines:#?}");
        assert!(lines[1].ends_with("… (1 item)"), "{lines:#?}");
        assert_eq!(&lines[2..], ["  [1]: 2"]);
        let full = FULL.of("deep", &deep, 0).join("\n");
        assert!(full.contains(&"y".repeat(30)), "{full}");
        let many: Vec<_> = (100..130).collect();
        let lines = SHORT.of("many", &json!(many), 0);
        assert_eq!(lines[0], "many: 30 items");
        assert_eq!(lines[9], "  … 22 more");
        assert_eq!(FULL.of("many", &json!(many), 0).len(), 31);
    }
}
