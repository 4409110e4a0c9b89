//! Writing any text so that it comes back as it was.
//!
//! All formats read meanings into harmless characters: Graphviz resolves `\N` and `&lt;` inside of
//! quoted strings, Mermaid reads Markdown and turns `\n` into a line break, XML joins blanks. What could be taken for
//! more than itself is therefore written by its number.

use std::fmt::{self, Write};

/// Text for a quoted string of DOT.
pub(super) struct DotText<'t>(pub(super) &'t str);

impl fmt::Display for DotText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars().map(shown) {
            match c {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                // Graphviz resolves entities in labels.
                '&' => f.write_str("&amp;")?,
                '\t' => f.write_char(c)?,
                c if is_unseen(c) => write!(f, "&#{};", c as u32)?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// Text for a quoted string of Mermaid.
pub(super) struct MermaidText<'t>(pub(super) &'t str);

impl fmt::Display for MermaidText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = None;
        let mut rest = self.0.chars().map(shown);
        while let Some(c) = rest.next() {
            let inside = |near: Option<char>| near.is_some_and(char::is_alphanumeric);
            let after = rest.clone().next();
            let plain = match c {
                // Between two letters these are part of a word, elsewhere they begin a list or
                // end an emphasis; a blank at an end or beside another would be dropped.
                '-' | '_' | '.' | ' ' => inside(before) && inside(after),
                // With these two Mermaid marks the entities that it has set aside.
                'ﬂ' | '¶' => false,
                c => !c.is_ascii_punctuation() && !is_unseen(c),
            };
            if plain {
                f.write_char(c)?;
            } else {
                write!(f, "#{};", c as u32)?;
            }
            before = Some(c);
        }
        Ok(())
    }
}

/// Text for a quoted string of YAML, as it stands before a Mermaid picture.
pub(super) struct YamlText<'t>(pub(super) &'t str);

impl fmt::Display for YamlText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                'a'..='z' | 'A'..='Z' | '0'..='9' | ' ' | ',' | '.' => f.write_char(c)?,
                c => {
                    let mut units = [0; 2];
                    for unit in c.encode_utf16(&mut units) {
                        write!(f, "\\u{unit:04x}")?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Text for an element or a quoted attribute of XML.
pub(super) struct XmlText<'t>(pub(super) &'t str);

impl fmt::Display for XmlText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars().map(shown) {
            match c {
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '&' => f.write_str("&amp;")?,
                '"' => f.write_str("&quot;")?,
                c if is_unseen(c) => write!(f, "&#{};", c as u32)?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// The character, or what stands for it: SVG can hold no control characters but three, not even by
/// number, so the others are shown by their symbols.
fn shown(c: char) -> char {
    let symbol = match c {
        '\t' | '\n' | '\r' => return c,
        '\0'..='\u{1f}' => char::from_u32(0x2400 + c as u32),
        '\u{7f}' => Some('␡'),
        '\u{fffe}' | '\u{ffff}' => Some(char::REPLACEMENT_CHARACTER),
        _ => return c,
    };
    symbol.unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// Whether a character moves, hides or turns its neighbours instead of being seen: it would make
/// the written text look other than it is, or end its line.
fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}')
}

/// A type's name as pictures and tables show it, without modules: `Vec<Topic>` for
/// `alloc::vec::Vec<app::Topic>`.
pub fn short_type(path: &str) -> String {
    let mut short = String::with_capacity(path.len());
    let mut segment = 0;
    let mut rest = path;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("::") {
            short.truncate(segment);
            rest = after;
            continue;
        }
        short.push(c);
        rest = &rest[c.len_utf8()..];
        if !(c.is_alphanumeric() || matches!(c, '_' | '{' | '}' | '#')) {
            segment = short.len();
        }
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_dot_would_interpret_is_written_otherwise() {
        let dot = |text| DotText(text).to_string();
        assert_eq!(dot("say \"hi\""), "say \\\"hi\\\"");
        assert_eq!(dot("\\N \\"), "\\\\N \\\\");
        assert_eq!(dot("a\nb\tc"), "a\\nb\tc");
        assert_eq!(dot("&lt;<b>"), "&amp;lt;<b>");
        assert_eq!(dot("a\0b\r"), "a␀b&#13;");
        assert_eq!(dot("é 🦀 \u{202e}x"), "é 🦀 &#8238;x");
    }

    #[test]
    fn what_mermaid_would_interpret_is_written_as_a_number() {
        let mermaid = |text| MermaidText(text).to_string();
        assert_eq!(mermaid("draft-report v1.5_b"), "draft-report v1.5_b");
        assert_eq!(mermaid("1. _x_"), "1#46;#32;#95;x#95;");
        assert_eq!(mermaid("#quot;"), "#35;quot#59;");
        assert_eq!(mermaid("\\n\n"), "#92;n#10;");
        assert_eq!(mermaid("straße ¶"), "straße#32;#182;");
    }

    #[test]
    fn a_type_is_shown_without_its_modules() {
        assert_eq!(short_type("u32"), "u32");
        assert_eq!(
            short_type("alloc::vec::Vec<(app::a::Topic, core::option::Option<u8>)>"),
            "Vec<(Topic, Option<u8>)>"
        );
        assert_eq!(short_type("app::f::{{closure}}::Topic"), "Topic");
        assert_eq!(
            short_type("&'static [app::Topic; 3]"),
            "&'static [Topic; 3]"
        );
    }
}
