//! The flags of `run research`.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use milepost::cli::{Input, InputError};

use super::library::{Library, Limits};
use super::state::{ResearchState, ResearchStateUpdate};

/// Answer a question from a folder of documents, with citations that were checked
#[derive(Debug, Clone, clap::Args)]
pub struct ResearchArgs {
    /// The question; several in one are answered one by one
    #[arg(long, value_name = "TEXT")]
    question: String,
    /// The folder of documents: Markdown, HTML, plain text
    #[arg(long, value_name = "FOLDER")]
    docs: PathBuf,
    /// Where to write the report, seen from where the run or its resume is started [default: it is
    /// only shown]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Documents that must be used, separated by commas
    #[arg(long, value_name = "PATH,..")]
    require: Option<String>,
}

impl Input for ResearchArgs {
    type State = ResearchState;

    fn input(self) -> Result<ResearchStateUpdate, InputError> {
        if self.question.trim().is_empty() {
            return Err("--question is empty: say what is to be answered".into());
        }
        let named = self.docs.display();
        // A resume from another folder must find the same documents.
        let docs = fs::canonicalize(&self.docs)
            .map_err(|error| format!("the documents folder {named} cannot be read: {error}"))?;
        if !docs.is_dir() {
            return Err(format!("{named} is a file: --docs takes a folder of documents").into());
        }
        let docs = docs
            .to_str()
            .ok_or_else(|| format!("the name of {named} is not UTF-8"))?;
        let out = self.out.as_deref().map(file);
        let required = self.require.map(|ids| ("require".to_owned(), ids));
        Ok(ResearchState::update()
            .query(self.question)
            .docs(docs.to_owned())
            .out(out.transpose()?)
            .constraints(required.into_iter().collect()))
    }

    fn result(state: &ResearchState) -> Option<String> {
        match &state.report_path {
            Some(path) => Some(format!("The report is in {path}")),
            None => state.report.clone(),
        }
    }
}

/// The name of a file that can be written: it is written when all the work is done.
fn file(out: &Path) -> Result<String, String> {
    let named = out.display();
    if out.is_dir() {
        return Err(format!("{named} is a folder: --out takes a file"));
    }
    let folder = out.parent().filter(|folder| *folder != Path::new(""));
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        let folder = folder.display();
        return Err(format!("{named} cannot be written: {folder} is no folder"));
    }
    let name = out.to_str().map(str::to_owned);
    name.ok_or_else(|| format!("the name of {named} is not UTF-8"))
}

/// What the example asks the repository's own documents.
const ASKED: &str = "What is a store? When is a finished node run again, what does a commit hold, \
                     and how is a run resumed?";
/// How many titles of other documents make a question.
const TITLES: usize = 3;

/// The flags of an example run: a question to the documents of this repository, or one made of the
/// titles of the documents in `folder`.
///
/// # Errors
/// If no folder is given and this is not run inside the repository, or the folder has no document.
pub fn example(folder: Option<&Path>) -> Result<Vec<OsString>, InputError> {
    let (docs, query) = match folder {
        Some(folder) => {
            let library = Library::open(folder, &Limits::default())?;
            let titles = library.documents().iter().take(TITLES);
            let asked = titles.map(|document| format!("What is {}?", document.title));
            (folder.to_owned(), asked.collect::<Vec<_>>().join(" "))
        }
        None => {
            let docs = own_docs().ok_or(
                "the example reads the docs of the repository, and this is not run inside a \
                 clone: give a folder of documents with --docs FOLDER",
            )?;
            (docs, ASKED.to_owned())
        }
    };
    Ok(vec![
        "--question".into(),
        query.into(),
        "--docs".into(),
        docs.into(),
        "--out".into(),
        "report.md".into(),
    ])
}

/// The docs of the clone that the working folder lies in.
fn own_docs() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    let clone = here
        .ancestors()
        .find(|folder| folder.join("graphs/research/args.rs").is_file())?;
    Some(clone.join("docs"))
}
