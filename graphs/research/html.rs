//! Reads HTML.
//!
//! In comes HTML as found in the wild, out go headings, terms, paragraphs, list items, table rows
//! and code to the draft. Menus, tables of contents and paragraphs that are all links are left
//! out. It builds no tree: a manual of a thousand pages is read in one pass over its tags.

use std::collections::BTreeMap;

use html5gum::{DefaultEmitter, HtmlString, Spanned, StartTag, Token, Tokenizer};

use super::draft::Draft;

/// The level of the terms of an outermost definition list: below every heading.
const TERM_LEVEL: usize = 7;
/// The level of the columns of a table: they head its rows, below everything else.
pub(super) const COLUMNS_LEVEL: usize = 1_000;
/// A paragraph with more than this share of its letters in links is a menu.
const MENU_SHARE: f64 = 0.8;
/// Elements that hold no text of the document.
const HIDDEN: &[&str] = &[
    "nav", "footer", "script", "style", "template", "noscript", "svg", "iframe",
];
/// Classes by which tools that write HTML mark what is not the text itself.
const MENU_CLASSES: &[&str] = &[
    "breadcrumb",
    "breadcrumbs",
    "footer",
    "index",
    "menu",
    "nav",
    "navbar",
    "navfooter",
    "navheader",
    "navigation",
    "pagination",
    "sidebar",
    "toc",
];
/// Classes of boxes whose own title is no heading of the text around them.
const BOX_CLASSES: &[&str] = &[
    "admonition",
    "caution",
    "important",
    "note",
    "tip",
    "warning",
];

/// Reads an HTML page into the draft.
pub(super) fn read(text: &str, draft: &mut Draft) {
    let mut emitter = DefaultEmitter::default();
    // Else the text of scripts would be read as tags.
    emitter.naively_switch_states(true);
    let mut reader = Reader {
        draft,
        text: String::new(),
        linked: 0,
        links: 0,
        pre: 0,
        cells: 0,
        data_cells: 0,
        lists: 0,
        boxes: Vec::new(),
        hidden: None,
    };
    for token in Tokenizer::new_with_emitter(text, emitter) {
        let Ok(token) = token;
        match token {
            Token::StartTag(tag) => reader.start(&tag),
            Token::EndTag(tag) => reader.end(&name_of(&tag.name)),
            Token::String(string) => reader.text(&String::from_utf8_lossy(&string.value)),
            _ => {}
        }
    }
    reader.paragraph();
}

struct Reader<'a> {
    draft: &'a mut Draft,
    text: String,
    /// How many letters of `text` stand in links.
    linked: usize,
    links: usize,
    pre: usize,
    cells: usize,
    /// How many cells of the row are no headings of columns.
    data_cells: usize,
    lists: usize,
    /// For each open `div`, whether it is a box.
    boxes: Vec<bool>,
    /// The element that hides what is in it, and how many of its name are open.
    hidden: Option<(String, usize)>,
}

impl Reader<'_> {
    fn start(&mut self, tag: &StartTag<()>) {
        let name = name_of(&tag.name);
        if let Some((hiding, depth)) = &mut self.hidden {
            if *hiding == name && !tag.self_closing {
                *depth += 1;
            }
            return;
        }
        if !tag.self_closing && is_hidden(&name, &tag.attributes) {
            self.paragraph();
            self.hidden = Some((name, 1));
            return;
        }
        match name.as_str() {
            "a" if !tag.self_closing && tag.attributes.contains_key(&b"href"[..]) => {
                self.links += 1
            }
            "br" => self.text.push(if self.pre > 0 { '\n' } else { ' ' }),
            "pre" => {
                self.paragraph();
                self.pre += 1;
            }
            "dl" => {
                self.paragraph();
                self.lists += 1;
            }
            "td" | "th" => {
                if !self.text.trim().is_empty() {
                    self.text.push_str(" | ");
                }
                self.cells += 1;
                self.data_cells += usize::from(name == "td");
            }
            "div" => {
                self.paragraph();
                if !tag.self_closing {
                    self.boxes.push(has_class(&tag.attributes, BOX_CLASSES));
                }
            }
            name if is_block(name) => self.paragraph(),
            _ => {}
        }
    }

    fn end(&mut self, name: &str) {
        if let Some((hiding, depth)) = &mut self.hidden {
            if hiding == name {
                *depth -= 1;
                if *depth == 0 {
                    self.hidden = None;
                }
            }
            return;
        }
        match name {
            "a" => self.links = self.links.saturating_sub(1),
            "title" => {
                let text = self.take();
                self.draft.title(&text);
            }
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => self.heading(name),
            "dt" => {
                let text = self.take();
                self.draft.term(TERM_LEVEL + self.lists, &text);
            }
            "dl" => {
                self.paragraph();
                self.draft.end(TERM_LEVEL + self.lists);
                self.lists = self.lists.saturating_sub(1);
            }
            "pre" => {
                let text = self.take();
                self.draft.code(&text);
                self.pre = self.pre.saturating_sub(1);
            }
            "td" | "th" => self.cells = self.cells.saturating_sub(1),
            "tr" => self.row(),
            "table" => {
                self.paragraph();
                self.draft.end(COLUMNS_LEVEL);
            }
            "div" => {
                self.paragraph();
                self.boxes.pop();
            }
            name if is_block(name) => self.paragraph(),
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        if self.hidden.is_some() {
            return;
        }
        if self.links > 0 {
            self.linked += letters(text);
        }
        self.text.push_str(text);
    }

    fn heading(&mut self, name: &str) {
        let text = self.take();
        if !self.boxes.contains(&true) {
            let level = usize::from(name.as_bytes()[1] - b'0');
            self.draft.heading(level, &text);
        } else if text.split_whitespace().count() > 1 {
            self.draft.line(&text);
        }
    }

    /// Ends a table row: columns head the rows below them.
    fn row(&mut self) {
        self.cells = 0;
        if std::mem::take(&mut self.data_cells) > 0 {
            self.paragraph();
        } else {
            let text = self.take();
            if !text.trim().is_empty() {
                self.draft.heading(COLUMNS_LEVEL, &text);
            }
        }
    }

    /// Ends the paragraph that is open. Within a table row and in code, text goes on.
    fn paragraph(&mut self) {
        if self.pre > 0 || self.text.is_empty() {
            return;
        }
        if self.cells > 0 {
            self.text.push(' ');
            return;
        }
        let linked = self.linked as f64;
        let text = self.take();
        let all = letters(&text) as f64;
        if linked <= all * MENU_SHARE {
            self.draft.line(&text);
        }
    }

    fn take(&mut self) -> String {
        self.linked = 0;
        std::mem::take(&mut self.text)
    }
}

type Attributes = BTreeMap<HtmlString, Spanned<HtmlString, ()>>;

fn is_hidden(name: &str, attributes: &Attributes) -> bool {
    if HIDDEN.contains(&name) {
        return true;
    }
    let box_like = matches!(
        name,
        "div" | "ul" | "ol" | "dl" | "table" | "aside" | "section" | "p"
    );
    let is_menu = attributes
        .get(&b"role"[..])
        .is_some_and(|role| role.value.as_slice() == b"navigation");
    box_like && (is_menu || has_class(attributes, MENU_CLASSES))
}

fn has_class(attributes: &Attributes, wanted: &[&str]) -> bool {
    attributes.get(&b"class"[..]).is_some_and(|classes| {
        String::from_utf8_lossy(&classes.value)
            .split_whitespace()
            .any(|class| wanted.contains(&class))
    })
}

fn is_block(name: &str) -> bool {
    matches!(
        name,
        "address"
            | "article"
            | "aside"
            | "blockquote"
            | "body"
            | "caption"
            | "dd"
            | "details"
            | "dt"
            | "fieldset"
            | "figcaption"
            | "figure"
            | "form"
            | "h1"
            | "h2"
            | "h3"
            | "h4"
            | "h5"
            | "h6"
            | "head"
            | "header"
            | "hr"
            | "li"
            | "main"
            | "ol"
            | "p"
            | "section"
            | "summary"
            | "table"
            | "tbody"
            | "tfoot"
            | "thead"
            | "tr"
            | "ul"
    )
}

fn name_of(name: &HtmlString) -> String {
    String::from_utf8_lossy(name).into_owned()
}

fn letters(text: &str) -> usize {
    text.chars().filter(|c| c.is_alphanumeric()).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(html: &str) -> Vec<(String, String)> {
        let mut draft = Draft::default();
        read(html, &mut draft);
        let document = draft.finish("a.html", false);
        let passages = document.passages.into_iter();
        passages.map(|p| (p.heading.join("/"), p.text)).collect()
    }

    fn pair(heading: &str, text: &str) -> (String, String) {
        (heading.to_owned(), text.to_owned())
    }

    #[test]
    fn menus_scripts_and_all_link_paragraphs_are_left_out() {
        let html = "<title>Page</title><div class='navheader'><div><a href=p>Prev</a></div>Up</div>\
                    <script>if (a < b) { x('<p>no</p>') }</script><nav>Menu</nav>\
                    <ul><li><a href=a>Go there</a></li></ul>\
                    <p>Real <b>text</b> with <a href=b>one link</a> &amp; more.";
        assert_eq!(
            texts(html),
            [pair("Page", "Real text with one link & more.")]
        );
    }

    #[test]
    fn terms_head_their_explanations_and_boxes_do_not_end_them() {
        let html = "<h1>Options</h1><dl><dt><code>port</code> (<i>integer</i>)</dt>\
                    <dd><p>The port;\n  5432.</p><div class=note><h3>Note</h3><p>Fixed.</p></div>\
                    </dd></dl><p>After.</p>";
        assert_eq!(
            texts(html),
            [
                pair("Options/port (integer)", "The port; 5432.\nFixed."),
                pair("Options", "After.")
            ]
        );
    }

    #[test]
    fn a_table_row_is_a_line_and_code_keeps_its_lines() {
        let html = "<h1>Limits</h1><table><tr><th>Item</th><th>Limit</th></tr><tr><td><p>field</p></td>\
                    <td>1 GB</td></tr></table><p>Run:</p><pre>\na  b\n<b>c</b>\n</pre>";
        assert_eq!(
            texts(html),
            [
                pair("Limits/Item | Limit", "field | 1 GB"),
                pair("Limits", "Run:\n    a b\n    c")
            ]
        );
    }

    #[test]
    fn broken_pages_are_read_as_far_as_they_go() {
        assert_eq!(
            texts("<p>one<p>two</div></dl></pre></td>three<"),
            [pair("a.html", "one\ntwo"), pair("a.html", "three<")]
        );
        assert_eq!(texts("<div class=toc>never closed <p>x"), []);
    }
}
