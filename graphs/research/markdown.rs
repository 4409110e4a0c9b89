//! Reads Markdown.
//!
//! In comes Markdown, out go headings, paragraphs, list items, table rows and code to the draft,
//! without their marks. Embedded HTML, front matter and pictures are left out.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::draft::Draft;
use super::html::COLUMNS_LEVEL;

/// Reads a Markdown text into the draft.
pub(super) fn read(text: &str, draft: &mut Draft) {
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_YAML_STYLE_METADATA_BLOCKS;
    let mut line = String::new();
    let (mut in_code, mut hidden) = (false, 0usize);
    for event in Parser::new_ext(text, options) {
        match event {
            Event::Start(Tag::Image { .. } | Tag::MetadataBlock(_) | Tag::HtmlBlock) => hidden += 1,
            Event::End(TagEnd::Image | TagEnd::MetadataBlock(_) | TagEnd::HtmlBlock) => {
                hidden = hidden.saturating_sub(1);
            }
            Event::Start(Tag::CodeBlock(_)) => {
                draft.line(&std::mem::take(&mut line));
                in_code = true;
            }
            Event::End(TagEnd::CodeBlock) => {
                draft.code(&std::mem::take(&mut line));
                in_code = false;
            }
            Event::End(TagEnd::Heading(level)) => {
                draft.heading(level as usize, &std::mem::take(&mut line));
            }
            Event::End(TagEnd::TableHead) => {
                draft.heading(COLUMNS_LEVEL, &std::mem::take(&mut line));
            }
            Event::End(TagEnd::Table) => draft.end(COLUMNS_LEVEL),
            Event::Start(Tag::TableCell) if !line.is_empty() => line.push_str(" | "),
            Event::Start(Tag::Item | Tag::Heading { .. } | Tag::Paragraph | Tag::TableRow)
            | Event::End(TagEnd::Item | TagEnd::Paragraph | TagEnd::TableRow)
            | Event::Rule => draft.line(&std::mem::take(&mut line)),
            Event::Text(text) | Event::Code(text) if hidden == 0 => line.push_str(&text),
            Event::SoftBreak | Event::HardBreak => line.push(if in_code { '\n' } else { ' ' }),
            _ => {}
        }
    }
    draft.line(&line);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_go_and_structure_stays() {
        let text = "---\ntitle: x\n---\n# Guide\nSee [the *docs*](a.md) and `code`.\n\n\
                    - one\n- two\n  words\n\n## Run\nLike this:\n\n```sh\ncargo run\n```\n\n\
                    | Name | Size |\n|---|---|\n| row | 1 GB |\n\n![logo](a.png)<br>\n";
        let mut draft = Draft::default();
        read(text, &mut draft);
        let document = draft.finish("g.md", false);
        let texts: Vec<_> = document.passages.iter().map(|p| p.text.as_str()).collect();
        assert_eq!(document.title, "Guide");
        assert_eq!(
            texts,
            [
                "See the docs and code.\none\ntwo words",
                "Like this:\n    cargo run",
                "row | 1 GB"
            ]
        );
        assert_eq!(
            document.passages[2].heading,
            ["Guide", "Run", "Name | Size"]
        );
    }
}
