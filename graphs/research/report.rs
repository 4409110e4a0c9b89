//! Writes the report.
//!
//! In come the plan, the findings and what went wrong; out goes Markdown: a short answer and
//! findings of quotes with numbered sources, and what could not be read. Every claim is a line of
//! a form that the citation check reads. It never says a word about the subject that is not
//! quoted.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::answer::Finding;
use super::citations::{CLAIMS, SOURCES, escape};
use super::coverage::{CoverageReport, ENOUGH_COVERAGE, Missing};
use super::draft::squeeze;
use super::library::{SkipReason, Skipped};
use super::plan::Plan;
use super::state::TaskError;

/// How many quotes the short answer has for a single question, and for each of several.
const SHORT_OF_ONE: usize = 3;
const SHORT_OF_EACH: usize = 2;
/// How many files that could not be read are named one by one.
const NAMED_SKIPS: usize = 20;

/// Writes the report; `findings` has one list for each question of the plan.
pub fn write_report(
    plan: &Plan,
    findings: &[Vec<Finding>],
    coverage: &CoverageReport,
    errors: &[TaskError],
    skipped: &[Skipped],
) -> String {
    let short = if findings.len() > 1 {
        SHORT_OF_EACH
    } else {
        SHORT_OF_ONE
    };
    let mut sources = Sources::default();
    let mut text = String::from("# Research report\n\n");
    line(
        &mut text,
        format_args!("**Question:** {}\n", escape(&squeeze(&plan.question))),
    );
    let [short_answer, all_findings] = CLAIMS;
    line(&mut text, format_args!("{short_answer}\n"));
    for (number, found) in findings.iter().enumerate() {
        for finding in found.iter().take(short) {
            claim(&mut text, finding, &mut sources);
        }
        if found.is_empty() {
            let asked = question(plan, number);
            line(
                &mut text,
                format_args!("No document says anything about: {asked}"),
            );
        }
    }
    line(&mut text, format_args!("\n{all_findings}\n"));
    for (number, found) in findings.iter().enumerate() {
        line(&mut text, format_args!("### {}\n", question(plan, number)));
        for finding in found.iter().skip(short) {
            claim(&mut text, finding, &mut sources);
        }
        if found.len() <= short {
            line(&mut text, format_args!("Nothing beyond the short answer."));
        }
        text.push('\n');
    }
    line(&mut text, format_args!("{SOURCES}\n"));
    for (number, (id, title, headings)) in sources.list.iter().enumerate() {
        let headings = headings.join("; ");
        let place = if headings.is_empty() {
            String::new()
        } else {
            format!(" ({headings})")
        };
        line(
            &mut text,
            format_args!("{}. `{id}` — {title}{place}", number + 1),
        );
    }
    covered(&mut text, plan, coverage);
    failed(&mut text, errors);
    not_read(&mut text, skipped);
    text
}

#[derive(Default)]
struct Sources {
    numbers: BTreeMap<String, usize>,
    list: Vec<(String, String, Vec<String>)>,
}

impl Sources {
    fn cite(&mut self, finding: &Finding) -> usize {
        let number = *self.numbers.entry(finding.id.clone()).or_insert_with(|| {
            let title = label_of(&finding.title);
            self.list.push((finding.id.clone(), title, Vec::new()));
            self.list.len()
        });
        let headings = &mut self.list[number - 1].2;
        if let Some(last) = finding
            .heading
            .last()
            .filter(|last| **last != finding.title)
        {
            let last = label_of(last);
            if !headings.contains(&last) {
                headings.push(last);
            }
        }
        number
    }
}

fn claim(text: &mut String, finding: &Finding, sources: &mut Sources) {
    let number = sources.cite(finding);
    let label = finding.heading.last().unwrap_or(&finding.title);
    let (label, quote) = (label_of(label), escape(&squeeze(&finding.quote)));
    line(text, format_args!("- {label}: “{quote}” [{number}]"));
}

/// A heading as a label: without the marks that enclose a quote.
fn label_of(heading: &str) -> String {
    escape(&squeeze(heading).replace(['“', '”'], "\""))
}

fn question(plan: &Plan, number: usize) -> String {
    let asked = plan
        .sub_questions
        .get(number)
        .map_or("", |one| one.text.as_str());
    escape(&squeeze(asked))
}

fn covered(text: &mut String, plan: &Plan, coverage: &CoverageReport) {
    line(text, format_args!("\n## Coverage\n"));
    let percent = (coverage.score * 100.0).round();
    let judged = if coverage.score < ENOUGH_COVERAGE {
        "not "
    } else {
        ""
    };
    line(
        text,
        format_args!("{percent} % of the question's words, by weight: {judged}enough.\n"),
    );
    for (number, one) in coverage.questions.iter().enumerate() {
        let share = (one.share * 100.0).round();
        let open = match one.open.as_slice() {
            [] => String::new(),
            open => format!(", without: {}", escape(&open.join(", "))),
        };
        line(
            text,
            format_args!("- {}: {share} %{open}", question(plan, number)),
        );
    }
    for missing in &coverage.missing {
        if let Missing::Source(id) = missing {
            line(
                text,
                format_args!("- The required source `{id}` could not be used."),
            );
        }
    }
    if !plan.unknown.is_empty() {
        let unknown = escape(&plan.unknown.join(", "));
        line(text, format_args!("- In no document: {unknown}"));
    }
}

fn failed(text: &mut String, errors: &[TaskError]) {
    if errors.is_empty() {
        return;
    }
    line(text, format_args!("\n## Failed\n"));
    for error in errors {
        let message = escape(&squeeze(&error.message));
        line(text, format_args!("- `{}`: {message}", error.source));
    }
}

fn not_read(text: &mut String, skipped: &[Skipped]) {
    let (other, named): (Vec<_>, Vec<_>) = skipped
        .iter()
        .partition(|skip| skip.reason == SkipReason::NoDocument);
    if skipped.is_empty() {
        return;
    }
    line(text, format_args!("\n## Not read\n"));
    for skip in named.iter().take(NAMED_SKIPS) {
        line(
            text,
            format_args!("- `{}`: {}", skip.path, escape(&skip.reason.to_string())),
        );
    }
    let rest = named.len().saturating_sub(NAMED_SKIPS);
    if rest > 0 {
        line(text, format_args!("- and {rest} more"));
    }
    if !other.is_empty() {
        let count = other.len();
        line(
            text,
            format_args!("- {count} files of kinds that are no documents"),
        );
    }
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{arguments}");
}
