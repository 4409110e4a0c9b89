//! Sections of Markdown files and their links: plain text in, plain text out.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// A heading of a file with the text below it, code left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    /// The file.
    pub file: String,
    /// The heading's text; empty above the first one.
    pub title: String,
    /// What stands below it.
    pub text: String,
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Path::new(&self.file).file_name().unwrap_or_default();
        write!(f, "{}, \"{}\"", name.to_string_lossy(), self.title)
    }
}

impl Section {
    /// The sections of a file, in its order.
    ///
    /// # Errors
    /// That the file cannot be read.
    pub fn all(file: &str) -> io::Result<Vec<Self>> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{file}: {error}"));
        let text = fs::read_to_string(file).map_err(named)?;
        let mut sections = vec![Self::begin(file, "")];
        let mut is_code = false;
        for line in text.lines() {
            let heading = line.trim_start_matches('#');
            if line.trim_start().starts_with("```") {
                is_code = !is_code;
            } else if !is_code && line.starts_with('#') && heading.starts_with(' ') {
                sections.push(Self::begin(file, heading.trim()));
            } else if let Some(last) = sections.last_mut().filter(|_| !is_code) {
                last.text.push_str(line);
                last.text.push('\n');
            }
        }
        sections.retain(|section| !section.title.is_empty() || !section.text.trim().is_empty());
        Ok(sections)
    }

    fn begin(file: &str, title: &str) -> Self {
        let (file, title) = (file.to_owned(), title.to_owned());
        Self {
            file,
            title,
            text: String::new(),
        }
    }

    /// Where its links lead, each once.
    pub fn links(&self) -> Vec<String> {
        let mut links: Vec<String> = Vec::new();
        for rest in self.text.split("](").skip(1) {
            let to = rest.split([')', ' ', '\n']).next().unwrap_or_default();
            if !links.iter().any(|known| known == to) {
                links.push(to.to_owned());
            }
        }
        links
    }

    /// What is wrong with a link to a file, a heading of one, or a heading of this file.
    pub fn fault(&self, link: &str) -> Option<String> {
        let (path, heading) = link.split_once('#').unwrap_or((link, ""));
        let here = Path::new(&self.file);
        let file = match path {
            "" => here.to_owned(),
            path => here.parent().unwrap_or(here).join(path),
        };
        if !file.exists() {
            return Some(format!("{self}: {link} is not there"));
        }
        let sections = Self::all(&file.to_string_lossy()).unwrap_or_default();
        let is_there =
            heading.is_empty() || sections.iter().any(|one| anchor(&one.title) == heading);
        (!is_there).then(|| format!("{self}: {link} names no heading"))
    }
}

/// A heading as links name it.
fn anchor(title: &str) -> String {
    let kept = title
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}
