//! Words and terms: how the embedded model, and a search in front of it, read text.
//!
//! In comes text, out go its words as slices, or its terms: lower-case, without endings, without
//! the words that every sentence has. An identifier such as `max_connections` gives itself and its
//! parts. One reading for questions and documents, so that both meet. It never looks at meaning.

use super::stem::stem;

/// Words too common to tell one sentence from another. Sorted: they are found by halving.
const STOP_WORDS: &[&str] = &[
    "a", "about", "after", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be",
    "because", "been", "before", "being", "but", "by", "can", "could", "did", "do", "does",
    "doing", "done", "each", "either", "else", "every", "explain", "for", "from", "get", "gets",
    "give", "gives", "had", "has", "have", "having", "he", "her", "here", "his", "how", "i", "if",
    "in", "into", "is", "it", "its", "itself", "just", "let", "like", "many", "may", "me", "might",
    "more", "most", "much", "must", "my", "need", "needed", "needs", "no", "nor", "not", "of",
    "on", "one", "only", "or", "other", "our", "out", "over", "own", "please", "same", "shall",
    "she", "should", "so", "some", "such", "tell", "than", "that", "the", "their", "them", "then",
    "there", "these", "they", "this", "those", "through", "to", "too", "under", "until", "up",
    "us", "use", "used", "uses", "using", "very", "was", "we", "were", "what", "when", "where",
    "whether", "which", "while", "who", "whom", "whose", "why", "will", "with", "would", "you",
    "your",
];

/// The words of a text, as they stand in it: runs of letters, digits and `_`.
///
/// In scripts without spaces each character is a word.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    Words { rest: text }
}

/// The terms of a text in reading order: see [`terms_of`].
///
/// ```
/// assert_eq!(
///     milepost::agent::terms("What are the defaults of max_connections?"),
///     ["default", "max_connections", "max", "connect"],
/// );
/// ```
pub fn terms(text: &str) -> Vec<String> {
    words(text).flat_map(terms_of).collect()
}

/// The terms of one word: none for a word that every sentence has, the word and its parts for an
/// identifier (`work_mem`, `ChatModel`), else the word in lower case without its ending.
pub fn terms_of(word: &str) -> Vec<String> {
    let mut whole = word.to_lowercase();
    if STOP_WORDS.binary_search(&whole.as_str()).is_ok() {
        return Vec::new();
    }
    let parts = parts(word);
    if parts.len() < 2 {
        stem(&mut whole);
        return vec![whole];
    }
    let mut terms = vec![whole];
    for part in parts {
        let mut part = part.to_lowercase();
        if STOP_WORDS.binary_search(&part.as_str()).is_err() {
            stem(&mut part);
            terms.push(part);
        }
    }
    terms
}

/// The parts of an identifier: between `_`, and where a lower-case letter meets an upper-case one.
fn parts(word: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut last) = (0, None::<char>);
    for (at, c) in word.char_indices() {
        if c == '_' {
            parts.push(&word[start..at]);
            start = at + 1;
        } else if c.is_uppercase() && last.is_some_and(char::is_lowercase) {
            parts.push(&word[start..at]);
            start = at;
        }
        last = Some(c);
    }
    parts.push(&word[start..]);
    parts.retain(|part| !part.is_empty());
    parts
}

struct Words<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let mut start = None;
        for (at, c) in self.rest.char_indices() {
            let belongs = c == '_' || c.is_alphanumeric();
            match start {
                None if belongs && stands_alone(c) => {
                    let (word, rest) = (&self.rest[at..][..c.len_utf8()], at + c.len_utf8());
                    self.rest = &self.rest[rest..];
                    return Some(word);
                }
                None if belongs => start = Some(at),
                Some(from) if !belongs || stands_alone(c) => {
                    let word = &self.rest[from..at];
                    self.rest = &self.rest[at..];
                    return Some(word);
                }
                None | Some(_) => {}
            }
        }
        let word = start.map(|from| &self.rest[from..]);
        self.rest = "";
        word
    }
}

/// Whether a character is a word of its own: Chinese and Japanese put no spaces between words.
fn stands_alone(c: char) -> bool {
    matches!(c, '\u{2e80}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stop_words_are_sorted_so_that_halving_finds_them() {
        assert!(STOP_WORDS.is_sorted());
    }

    #[test]
    fn words_are_cut_at_everything_but_letters_digits_and_underscores() {
        let cut: Vec<_> = words("Set `work_mem` to 4MB (per-sort).").collect();
        assert_eq!(cut, ["Set", "work_mem", "to", "4MB", "per", "sort"]);
        assert_eq!(words("  ").next(), None);
        assert_eq!(
            words("数据库 port").collect::<Vec<_>>(),
            ["数", "据", "库", "port"]
        );
    }

    #[test]
    fn an_identifier_gives_itself_and_its_parts() {
        assert_eq!(terms("work_mem"), ["work_mem", "work", "mem"]);
        assert_eq!(terms("ChatModel"), ["chatmodel", "chat", "model"]);
        assert_eq!(terms("VACUUM"), ["vacuum"]);
        assert_eq!(terms("__"), ["__"]);
    }

    #[test]
    fn words_of_every_sentence_give_no_term() {
        assert!(terms("what is the of and").is_empty());
    }
}
