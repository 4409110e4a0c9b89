//! `new`: a small project with one graph, one test and a README, ready to build.
//!
//! In comes a name or a path, out goes a folder that was not there before. It is written beside its
//! place and renamed, so there is never half of it.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::args::NewArgs;
use super::exit::{Exit, Failure};
use super::shell::{Shell, quoted};

/// The files, by their place in the project.
const FILES: [(&str, &str); 6] = [
    (".gitignore", include_str!("project/gitignore.txt")),
    ("Cargo.toml", include_str!("project/Cargo.toml.txt")),
    ("README.md", include_str!("project/README.md.txt")),
    ("src/lib.rs", include_str!("project/lib.rs.txt")),
    ("src/main.rs", include_str!("project/main.rs.txt")),
    ("tests/graph.rs", include_str!("project/test.rs.txt")),
];

/// Names that cargo or the compiler keeps for itself, or that would hide a crate the project uses.
const TAKEN: [&str; 12] = [
    "alloc",
    "build",
    "core",
    "deps",
    "examples",
    "incremental",
    "milepost",
    "proc_macro",
    "std",
    "test",
    "tests",
    "tokio",
];

/// Writes the project.
pub(super) fn new(shell: &mut Shell, args: &NewArgs) -> Result<Exit, Failure> {
    let name = name(&args.path)?;
    let milepost = match &args.milepost {
        Some(path) => Some(checkout(path)?),
        None => built_in_checkout(),
    };
    let is_there = || {
        let what = format!("{} is there already", args.path.display());
        Failure::usage(what).next("choose another name, or move what is there")
    };
    if args.path.symlink_metadata().is_ok() {
        return Err(is_there());
    }
    let files = FILES.map(|(place, text)| (place, filled(text, name, milepost.as_deref())));
    write(&args.path, &files).map_err(|(place, error)| {
        if error.kind() == io::ErrorKind::DirectoryNotEmpty {
            // Another one of these was faster.
            return is_there();
        }
        let what = format!("{} could not be written: {error}", place.display());
        Failure::usage(what).next("choose a place that can be written")
    })?;
    let places = files.iter().map(|(place, _)| *place);
    let folder = quoted(&args.path.to_string_lossy());
    let run = format!("cd {folder} && cargo run -- run {name} --text 'One. Two.' --thread first");
    shell.out.value(&json!({
        "project": args.path,
        "graph": name,
        "files": places.clone().collect::<Vec<_>>(),
        "milepost": milepost,
        "next": run,
    }));
    shell.out.say(format!(
        "{} holds a project with the graph {name}: {}\n  next: {run}",
        args.path.display(),
        places.collect::<Vec<_>>().join(", "),
    ));
    Ok(Exit::Done)
}

/// The project's name: the last part of its path, as cargo and the compiler can take it.
fn name(path: &Path) -> Result<&str, Failure> {
    let refused = |why: &str| {
        let what = format!("{} cannot be the name of a project: {why}", path.display());
        Failure::usage(what).next("choose a name such as my-agent")
    };
    let name = path.file_name().and_then(OsStr::to_str);
    let name = name.ok_or_else(|| refused("it is no name"))?;
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    if !name.chars().all(fits) {
        return Err(refused("it takes small letters, digits, - and _"));
    }
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        return Err(refused("it begins with a small letter"));
    }
    let word = name.replace('-', "_");
    if TAKEN.contains(&word.as_str()) || is_keyword(&word) {
        return Err(refused("that word has a meaning already"));
    }
    Ok(name)
}

fn is_keyword(word: &str) -> bool {
    const KEYWORDS: &str = "abstract as async await become box break const continue crate do dyn \
        else enum extern false final fn for gen if impl in let loop macro match mod move mut \
        override priv pub ref return self static struct super trait true try type typeof unsafe \
        unsized use virtual where while yield";
    KEYWORDS.split_whitespace().any(|keyword| keyword == word)
}

/// A folder with the library's sources, as it is named in a project's description.
fn checkout(path: &Path) -> Result<PathBuf, Failure> {
    let refused = |why: String| {
        let what = format!("{} holds no sources of milepost: {why}", path.display());
        Failure::usage(what).next("name the folder of a checkout with --milepost")
    };
    let path = path
        .canonicalize()
        .map_err(|error| refused(error.to_string()))?;
    let description = fs::read_to_string(path.join("Cargo.toml"));
    let description = description.map_err(|error| refused(format!("Cargo.toml: {error}")))?;
    let says = |line: &str| description.lines().any(|found| found.trim() == line);
    if says("name = \"milepost\"") {
        Ok(path)
    } else {
        Err(refused("its Cargo.toml is of another package".to_owned()))
    }
}

/// The checkout in which this program was built, if it is still there. What was fetched by cargo
/// has no history beside it, and is better named by its version.
fn built_in_checkout() -> Option<PathBuf> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR"));
    if sources.join(".git").exists() {
        checkout(sources).ok()
    } else {
        None
    }
}

fn filled(text: &str, name: &str, milepost: Option<&Path>) -> String {
    let source = match milepost {
        // A literal string of TOML takes every path but one with its own quotes.
        Some(path) => format!("path = {}", toml(&path.to_string_lossy())),
        None => format!("version = \"{}\"", env!("CARGO_PKG_VERSION")),
    };
    text.replace("{name}", name)
        .replace("{crate}", &name.replace('-', "_"))
        .replace("{source}", &source)
}

/// A text as TOML writes it.
fn toml(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", c as u32)),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

fn write(to: &Path, files: &[(&str, String)]) -> Result<(), (PathBuf, io::Error)> {
    let mut beside = to.as_os_str().to_owned();
    beside.push(format!(".{}.part", std::process::id()));
    let beside = PathBuf::from(beside);
    let written = files
        .iter()
        .try_for_each(|(place, text)| {
            let file = beside.join(place);
            let folder = file.parent().unwrap_or(&beside);
            fs::create_dir_all(folder)?;
            fs::write(&file, text)
        })
        .and_then(|()| fs::rename(&beside, to));
    written.map_err(|error| {
        // What could not be finished is not left behind; if even that fails, the first error counts.
        let _ = fs::remove_dir_all(&beside);
        (to.to_owned(), error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_that_cargo_takes() {
        for good in ["a", "my-agent", "x/y/agent_2", "./shop"] {
            assert!(name(Path::new(good)).is_ok(), "{good}");
        }
        for bad in [
            "", "..", "/", "Agent", "2nd", "-x", "a b", "fn", "std", "é", "a.b", "milepost",
        ] {
            assert!(name(Path::new(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn any_path_can_be_written_down() {
        assert_eq!(toml("C:\\a \"b\""), r#""C:\\a \"b\"""#);
        assert_eq!(toml("a\nb"), "\"a\\u000Ab\"");
    }
}
