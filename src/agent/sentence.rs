//! Cuts text into units that can be quoted.
//!
//! In comes text whose lines are paragraphs, list items, table rows or (indented by four spaces)
//! code; out go slices of it, each a whole sentence, row or piece of code. A line that announces
//! the code below it (`as follows:`) stays together with that code. It never changes a character.

/// The most lines of code that make one unit: more is no quote any longer.
const CODE_LINES: usize = 4;

/// Words with a full stop that ends no sentence.
const ABBREVIATIONS: &[&str] = &[
    "approx", "cf", "dr", "e.g", "eg", "etc", "fig", "i.e", "ie", "incl", "jr", "mr", "mrs", "ms",
    "no", "nos", "op", "p", "pp", "prof", "resp", "sec", "sr", "st", "vol", "vs",
];

/// The sentences of a text in reading order, each a trimmed slice of it.
///
/// ```
/// let text = "It is fast, e.g. in tests. Try it:\n    cargo test";
/// assert_eq!(
///     milepost::agent::sentences(text),
///     ["It is fast, e.g. in tests.", "Try it:\n    cargo test"],
/// );
/// ```
pub fn sentences(text: &str) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    let mut code: Option<Code> = None;
    for line in text.split('\n') {
        let from = line.as_ptr() as usize - text.as_ptr() as usize;
        if line.starts_with("    ") && !line.trim().is_empty() {
            match &mut code {
                Some(open) if open.lines < CODE_LINES => {
                    open.to = from + line.len();
                    open.lines += 1;
                }
                _ => {
                    close(text, &mut code, &mut found);
                    code = Some(Code::at(text, from, line, &mut found));
                }
            }
            continue;
        }
        close(text, &mut code, &mut found);
        cut_line(line, &mut found);
    }
    close(text, &mut code, &mut found);
    found
}

/// Lines of code that are still being gathered into one unit.
struct Code {
    from: usize,
    to: usize,
    lines: usize,
}

impl Code {
    fn at(text: &str, from: usize, line: &str, found: &mut Vec<&str>) -> Self {
        let announced = found
            .last()
            .filter(|lead| lead.ends_with(':') && !lead.contains('\n'))
            .map(|lead| lead.as_ptr() as usize - text.as_ptr() as usize)
            .filter(|lead| text[*lead..from].trim_end().ends_with(':'));
        if announced.is_some() {
            found.pop();
        }
        Self {
            from: announced.unwrap_or(from),
            to: from + line.len(),
            lines: 1,
        }
    }
}

fn close<'a>(text: &'a str, code: &mut Option<Code>, found: &mut Vec<&'a str>) {
    if let Some(code) = code.take() {
        found.push(text[code.from..code.to].trim());
    }
}

fn cut_line<'a>(line: &'a str, found: &mut Vec<&'a str>) {
    let mut start = 0;
    let mut chars = line.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let wide = matches!(c, '。' | '！' | '？');
        if !wide && !matches!(c, '.' | '!' | '?') {
            continue;
        }
        let mut end = at + c.len_utf8();
        while let Some((next, closing)) = chars.peek().copied()
            && matches!(
                closing,
                '"' | '\'' | ')' | ']' | '”' | '’' | '»' | '.' | '!' | '?'
            )
        {
            end = next + closing.len_utf8();
            chars.next();
        }
        let at_gap = chars.peek().is_none_or(|(_, c)| c.is_whitespace());
        if wide || (at_gap && !(c == '.' && is_abbreviation(&line[start..at]))) {
            push(&line[start..end], found);
            start = end;
        }
    }
    push(&line[start..], found);
}

fn push<'a>(piece: &'a str, found: &mut Vec<&'a str>) {
    let piece = piece.trim();
    if piece.chars().any(char::is_alphanumeric) {
        found.push(piece);
    }
}

/// Whether what stands before a full stop is an abbreviation, an initial or a list number.
fn is_abbreviation(before: &str) -> bool {
    let word = before
        .rsplit(|c: char| c.is_whitespace() || matches!(c, '(' | '[' | '"' | '“'))
        .next()
        .unwrap_or_default();
    let at_start = word.len() == before.trim_start().len();
    let is_number = !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
    let is_initial = word.len() == 1 && word.bytes().all(|b| b.is_ascii_uppercase());
    is_initial
        || (is_number && at_start)
        || ABBREVIATIONS
            .binary_search(&word.to_ascii_lowercase().as_str())
            .is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abbreviations_numbers_and_names_with_dots_end_no_sentence() {
        assert!(ABBREVIATIONS.is_sorted());
        let text = "See postgresql.conf, e.g. line 5. Version 15.2 has it (really.) Done";
        assert_eq!(
            sentences(text),
            [
                "See postgresql.conf, e.g. line 5.",
                "Version 15.2 has it (really.)",
                "Done"
            ]
        );
        assert_eq!(sentences("1. First do this."), ["1. First do this."]);
    }

    #[test]
    fn a_line_is_never_joined_with_the_next_unless_it_announces_code() {
        let text = "one two\nthree four:\n    let a = 1;\n    let b = 2;\nfive";
        assert_eq!(
            sentences(text),
            [
                "one two",
                "three four:\n    let a = 1;\n    let b = 2;",
                "five"
            ]
        );
        assert_eq!(sentences("so:\nnot code"), ["so:", "not code"]);
    }

    #[test]
    fn long_code_is_cut_into_units() {
        let text = "    a\n    b\n    c\n    d\n    e";
        assert_eq!(sentences(text), ["a\n    b\n    c\n    d", "e"]);
    }

    #[test]
    fn text_without_words_gives_nothing_and_wide_stops_end_sentences() {
        assert!(sentences(" .. \n--- \n").is_empty());
        assert_eq!(sentences("端口是五。好"), ["端口是五。", "好"]);
    }
}
