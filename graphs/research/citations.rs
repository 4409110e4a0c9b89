//! Checks the citations of a report, independent of who wrote it.
//!
//! In come the text of a report and the folder of documents; out go the faults. Every document is
//! read again from the disk, so nothing that a writer kept in memory is believed. It corrects
//! nothing: a report with a fault is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::document::Document;
use super::library::{Limits, SkipReason, read_document};

/// The heading below which each line is a source, not a claim.
pub(super) const SOURCES: &str = "## Sources";
/// The headings below which each list item is a claim.
pub(super) const CLAIMS: [&str; 2] = ["## Short answer", "## Findings"];

/// What is wrong with a citation. Lines are counted from 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum CitationFault {
    /// The report cites nothing at all.
    #[error("the report claims nothing and cites nothing")]
    NoClaims,
    /// A claim names no source.
    #[error("line {line}: a claim without a citation")]
    Uncited {
        /// The line.
        line: usize,
    },
    /// A claim has no quoted words.
    #[error("line {line}: a claim without quoted words")]
    NoQuote {
        /// The line.
        line: usize,
    },
    /// A claim cites a number that is no source.
    #[error("line {line}: [{number}] is no source of the report")]
    UnknownNumber {
        /// The line.
        line: usize,
        /// The number.
        number: usize,
    },
    /// The quoted words are not in the document.
    #[error("line {line}: the words {quote:?} are not in {id}")]
    WordsNotFound {
        /// The line.
        line: usize,
        /// The document.
        id: String,
        /// The words.
        quote: String,
    },
    /// A source is no document that can be read.
    #[error("line {line}: the source [{number}] {id} cannot be read: {reason}")]
    NoDocument {
        /// The line.
        line: usize,
        /// The number.
        number: usize,
        /// The document.
        id: String,
        /// Why.
        reason: SkipReason,
    },
    /// A number stands for two sources.
    #[error("line {line}: the number [{number}] is given twice")]
    GivenTwice {
        /// The line.
        line: usize,
        /// The number.
        number: usize,
    },
    /// A source is cited by no claim.
    #[error("line {line}: the source [{number}] is not cited")]
    Unused {
        /// The line.
        line: usize,
        /// The number.
        number: usize,
    },
}

/// Checks every citation of a report against the documents on the disk.
pub fn check_citations(report: &str, folder: &Path, limits: &Limits) -> Vec<CitationFault> {
    let (claims, sources) = parse(report);
    let mut faults = Vec::new();
    let mut documents: BTreeMap<usize, (String, Option<Document>)> = BTreeMap::new();
    for (line, number, id) in &sources {
        if documents.contains_key(number) {
            faults.push(CitationFault::GivenTwice {
                line: *line,
                number: *number,
            });
            continue;
        }
        let read = read_document(folder, id, limits);
        if let Err(reason) = &read {
            faults.push(CitationFault::NoDocument {
                line: *line,
                number: *number,
                id: id.clone(),
                reason: reason.clone(),
            });
        }
        documents.insert(*number, (id.clone(), read.ok()));
    }
    let mut cited = BTreeSet::new();
    for claim in &claims {
        check_claim(claim, &documents, &mut faults);
        cited.extend(claim.numbers.iter().copied());
    }
    if claims.is_empty() && !sources.is_empty() {
        faults.push(CitationFault::NoClaims);
    }
    for (line, number, _) in sources {
        if !cited.contains(&number) {
            faults.push(CitationFault::Unused { line, number });
        }
    }
    faults
}

struct Claim {
    line: usize,
    quote: String,
    numbers: Vec<usize>,
}

fn check_claim(
    claim: &Claim,
    documents: &BTreeMap<usize, (String, Option<Document>)>,
    faults: &mut Vec<CitationFault>,
) {
    let line = claim.line;
    if claim.numbers.is_empty() {
        faults.push(CitationFault::Uncited { line });
    }
    if claim.quote.trim().is_empty() {
        faults.push(CitationFault::NoQuote { line });
        return;
    }
    for number in &claim.numbers {
        match documents.get(number) {
            None => faults.push(CitationFault::UnknownNumber {
                line,
                number: *number,
            }),
            // That it cannot be read is said once, at the source.
            Some((_, None)) => {}
            Some((id, Some(document))) if !document.has_words(&claim.quote) => {
                faults.push(CitationFault::WordsNotFound {
                    line,
                    id: id.clone(),
                    quote: claim.quote.clone(),
                });
            }
            Some(_) => {}
        }
    }
}

type SourceLine = (usize, usize, String);

/// The claims and the sources (line, number, id) of a report.
fn parse(report: &str) -> (Vec<Claim>, Vec<SourceLine>) {
    let (mut claims, mut sources) = (Vec::new(), Vec::new());
    let mut part = "";
    for (at, line) in report.lines().enumerate() {
        let number = at + 1;
        if line.starts_with("## ") {
            part = line.trim_end();
        } else if CLAIMS.contains(&part) && line.starts_with("- ") {
            claims.push(claim(number, line));
        } else if part == SOURCES
            && let Some((given, id)) = source(line)
        {
            sources.push((number, given, id));
        }
    }
    (claims, sources)
}

/// A claim is `- label: “quoted words” [1] [2]`: the quote reaches from the first opening mark to
/// the last closing one, since the words may have such marks themselves.
fn claim(line: usize, text: &str) -> Claim {
    let mut rest = text.trim_end();
    let mut numbers = Vec::new();
    while let Some((before, number)) = rest
        .strip_suffix(']')
        .and_then(|cut| cut.rsplit_once('['))
        .and_then(|(before, digits)| Some((before, digits.parse().ok()?)))
    {
        numbers.insert(0, number);
        rest = before.trim_end();
    }
    let quote = rest
        .strip_suffix('”')
        .and_then(|cut| cut.split_once('“'))
        .map_or("", |(_, quote)| quote);
    Claim {
        line,
        quote: unescape(quote),
        numbers,
    }
}

/// A source is `1. [id] title`, with the id in backticks instead of brackets.
fn source(line: &str) -> Option<(usize, String)> {
    let (number, rest) = line.split_once(". `")?;
    let (id, _) = rest.split_once('`')?;
    Some((number.parse().ok()?, id.to_owned()))
}

/// Puts a backslash before what Markdown would take as a mark.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut last = ' ';
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let next = chars.peek().copied().unwrap_or(' ');
        let is_mark = match c {
            '\\' | '`' | '*' | '<' | '[' | ']' | '~' => true,
            // Within a word an underscore is no mark, and names are easier to read without.
            '_' => !(last.is_alphanumeric() && next.is_alphanumeric()),
            '&' => next.is_alphabetic() || next == '#',
            _ => false,
        };
        if is_mark {
            escaped.push('\\');
        }
        escaped.push(c);
        last = c;
    }
    escaped
}

fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match chars.peek() {
            Some(next) if c == '\\' && next.is_ascii_punctuation() => {}
            _ => {
                plain.push(c);
                continue;
            }
        }
        plain.extend(chars.next());
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(report: &str) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let text = "# A\n\nThe port is “5432” by default, see max_connections and *a* [b] <c> \\d &amp; __x.";
        std::fs::write(folder.path().join("a.txt"), text).unwrap();
        let faults = check_citations(report, folder.path(), &Limits::default());
        faults.iter().map(ToString::to_string).collect()
    }

    fn report(claim: &str, sources: &str) -> String {
        format!("# R\n\n## Short answer\n\n{claim}\n\n## Sources\n\n{sources}\n")
    }

    #[test]
    fn a_true_citation_has_no_fault_and_marks_in_it_do_no_harm() {
        let words = "is “5432” by default, see max_connections and *a* [b] <c> \\d &amp; __x.";
        let claim = format!("- Port: “{}” [1]", escape(words));
        assert_eq!(faults(&report(&claim, "1. `a.txt` — A")), [""; 0]);
        assert_eq!(unescape(&escape(words)), words);
    }

    #[test]
    fn words_that_are_not_there_and_documents_that_are_not_there_are_faults() {
        let one = "1. `a.txt` — A";
        assert_eq!(
            faults(&report("- “The port is 5433” [1]", one)),
            ["line 5: the words \"The port is 5433\" are not in a.txt"]
        );
        let gone = faults(&report("- “The port” [1]", "1. `b.txt` — B"));
        assert!(
            gone[0].starts_with("line 9: the source [1] b.txt cannot be read"),
            "{gone:?}"
        );
        let outside = faults(&report("- “root” [1]", "1. `../../etc/passwd` — B"));
        assert_eq!(outside.len(), 1);
    }

    #[test]
    fn claims_and_sources_must_name_each_other() {
        let one = "1. `a.txt` — A";
        assert_eq!(
            faults(&report("- “The port”", one)),
            [
                "line 5: a claim without a citation",
                "line 9: the source [1] is not cited"
            ]
        );
        assert_eq!(
            faults(&report("- “The port” [1] [2]", one)),
            ["line 5: [2] is no source of the report"]
        );
        assert_eq!(
            faults(&report("- The port [1]", one)),
            ["line 5: a claim without quoted words"]
        );
        assert_eq!(
            faults(&report("- “The port” [1]", &format!("{one}\n{one}"))),
            ["line 10: the number [1] is given twice"]
        );
    }
}
