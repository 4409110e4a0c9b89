//! How much room text needs.
//!
//! No font is read: the widths are those of Helvetica and of the fonts made like it, and a share
//! more, so that text fits in whatever font without serifs a viewer has.

/// Widths of the characters from the blank to the tilde, in thousandths of the size.
const WIDTHS: [u16; 95] = [
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556,
    556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667,
    611, 778, 722, 278, 500, 667, 556, 833, 722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667,
    667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500,
    222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584,
];

/// What other fonts need more than Helvetica.
const MORE: f64 = 1.14;

/// The height of a line, in sizes.
pub(super) const LINE_HEIGHT: f64 = 1.25;

/// The width of a line of text.
pub(super) fn width(text: &str, size: f64) -> f64 {
    let sum: f64 = text.chars().map(advance).sum();
    sum * size
}

/// The width and height of lines of text.
pub(super) fn size(lines: &[String], size: f64) -> (f64, f64) {
    let width = lines
        .iter()
        .map(|line| width(line, size))
        .fold(0.0, f64::max);
    (width, lines.len() as f64 * size * LINE_HEIGHT)
}

fn advance(c: char) -> f64 {
    match c {
        ' '..='~' => {
            let width = WIDTHS[c as usize - 32].max(260);
            f64::from(width) / 1000.0 * MORE
        }
        // Marks above and below the letter before.
        '\u{300}'..='\u{36f}' | '\u{200b}'..='\u{200f}' | '\u{fe00}'..='\u{fe0f}' => 0.0,
        // Latin, Greek, Cyrillic, Hebrew, Arabic.
        '\u{a0}'..='\u{6ff}' => 0.8,
        // Pictures are wider than they are high.
        '\u{1f000}'.. => 1.35,
        // Chinese, Japanese, Korean, symbols, and whatever else there is.
        _ => 1.08,
    }
}

/// Breaks text into lines no wider than this where it can; the lines together are the text, less
/// its own line breaks.
pub(super) fn wrap(text: &str, size: f64, most: f64) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.split('\n') {
        let mut rest = line;
        while let Some(cut) = cut(rest, size, most) {
            let (head, tail) = rest.split_at(cut);
            lines.push(head.to_owned());
            rest = tail;
        }
        lines.push(rest.to_owned());
    }
    lines
}

/// Where a line that is too wide is best broken.
fn cut(line: &str, size: f64, most: f64) -> Option<usize> {
    let mut sum = 0.0;
    let mut best = None;
    let mut before: Option<char> = None;
    for (at, c) in line.char_indices() {
        sum += advance(c) * size;
        if sum > most && at > 0 && advance(c) > 0.0 {
            // Not far to the left, or one line would be short and the next broken in a word.
            let near = best.filter(|&best: &usize| width(&line[..best], size) > most * 0.4);
            return Some(near.unwrap_or(at));
        }
        let is_end = |c: char| c == ' ' || (c.is_ascii_punctuation() && c != '\'');
        if before.is_some_and(is_end) && !is_end(c) {
            best = Some(at);
        }
        before = Some(c);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapped_lines_are_narrow_and_lose_nothing() {
        let names = [
            "fetch_the_documents_that_the_planner_has_asked_for",
            "a b",
            "verylongwordwithoutanyplacewhereitcouldbebrokenintotwo",
            "深層学習モデルを使って文書を要約するノード",
            "  two  blanks  and  some  more  of  them  in  a  row  ",
            "",
        ];
        for name in names {
            let lines = wrap(name, 13.0, 180.0);
            assert_eq!(lines.concat(), name);
            for line in &lines {
                assert!(width(line, 13.0) <= 180.0, "{line:?}");
            }
        }
        assert_eq!(wrap("one\ntwo", 13.0, 180.0), ["one", "two"]);
        let long = wrap(names[0], 13.0, 180.0);
        assert!(long[0].ends_with('_'), "{long:?}");
    }
}
