//! Every message of the program: what happened, where, and what to type next.
//!
//! A table of situations, each a line for a shell, kept with what the program says in
//! `tests/data/messages.txt`. Whatever is said fits the rules of [`fits`], and `--json` says the
//! same.

mod lines;
mod shell;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use milepost::store::SledStore;
use serde_json::Value;

use shell::{Said, Shell};

/// How many lines are typed at once, each in a folder of its own.
const AT_ONCE: usize = 4;

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/messages.txt")
}

/// What was kept of each line, under `$ LINE`.
fn kept() -> BTreeMap<String, String> {
    let text = fs::read_to_string(file()).unwrap_or_default();
    let parts = text.split("\n$ ").map(|part| part.trim_start_matches("$ "));
    let part = |part: &str| {
        let (line, said) = part.split_once('\n')?;
        Some((line.to_owned(), said.trim_end().to_owned()))
    };
    parts.filter_map(part).collect()
}

/// Types a line twice, and says what it said, and what is wrong with that.
fn typed(shell: &Shell, line: &str) -> (String, Option<String>) {
    // Which of the two meets a full disk first is up to chance.
    let types = |line: &str| {
        let mut said = shell.types(line);
        said.err = said.err.replace("writing the store", "flushing the store");
        said
    };
    let said = types(line);
    let json = types(&line.replacen("milepost", "milepost --json", 1));
    let mut wrong = fits(&said);
    if (json.code, told(&json.err)) != (said.code, plain(&said.err)) {
        wrong = Some(format!(
            "with --json it ends with {}: {}",
            json.code, json.err
        ));
    }
    let wrong = wrong.map(|wrong| format!("$ {line}\n{said}\n-- {wrong}\n"));
    (said.to_string(), wrong)
}

/// Every failure has a next step, and no message shows how the program is made. Says what is wrong.
fn fits(said: &Said) -> Option<String> {
    for inner in ["{ ", "Some(", "Os {", "::", "unwrap", "panicked", "RUST_"] {
        if said.err.contains(inner) {
            return Some(format!("it has {inner}"));
        }
    }
    if said.code != 0 && said.to_string().lines().count() < 2 {
        return Some("it says nothing".to_owned());
    }
    let step = |part: &str| {
        let next = part.lines().find_map(|line| line.strip_prefix("  next: "));
        next.is_some_and(|next| !next.is_empty())
    };
    // A run that was stopped, or is at a limit, has not failed.
    let failed = !matches!(said.code, 0 | 4 | 6);
    let all = said.err.split("milepost: ").skip(1).all(step);
    (failed && !all).then(|| "it has no next step".to_owned())
}

/// The errors for machines as they are said to people.
fn told(err: &str) -> String {
    let line = |line: &str| match serde_json::from_str::<Value>(line) {
        Ok(value) => {
            let error = &value["error"];
            // A terminal is shown what a program is told.
            let text = |key: &str| {
                let text = error[key].as_str().unwrap_or_default();
                text.replace('\u{1b}', r"\u{1b}")
            };
            format!("milepost: {}\n  next: {}\n", text("what"), text("next"))
        }
        Err(_) => format!("{line}\n"),
    };
    plain(err.lines().map(line).collect::<String>().trim_end())
}

/// The same for both: clap repeats flags that were given.
fn plain(err: &str) -> String {
    err.replace(" --json", "").replace(" [OPTIONS]", "")
}

/// Types all lines, some at once, and compares with what is kept.
fn compare(lines: &[&str]) {
    let (next, said) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let worker = || {
        let shell = Shell::new();
        loop {
            let place = next.fetch_add(1, Ordering::SeqCst);
            let Some(line) = lines.get(place) else { break };
            // Where the system has no such disk, what is kept is believed.
            let text = shell.can(line).then(|| typed(&shell, line));
            let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
            said.insert(place, text);
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(worker)).collect();
        for worker in workers {
            if let Err(panic) = worker.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
    let kept = kept();
    let mut text = String::new();
    let (mut wrong, mut differ) = (Vec::new(), Vec::new());
    for (place, said) in said.into_inner().unwrap() {
        let line = lines[place];
        let old = kept.get(line).cloned().unwrap_or_default();
        let (said, fault) = said.unwrap_or_else(|| (old.clone(), None));
        let said = said.trim_end();
        let old = old.trim_end();
        wrong.extend(fault);
        if said != old {
            differ.push(format!("$ {line}\n{said}\n-- kept:\n{old}\n"));
        }
        text.push_str(&format!("$ {line}\n{said}\n\n"));
    }
    if std::env::var_os("MILEPOST_BLESS").is_some() {
        fs::write(file(), text).unwrap();
        differ.clear();
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(
        differ.is_empty(),
        "{} differs; look at it, then run again with MILEPOST_BLESS=1\n{}",
        file().display(),
        differ.join("\n")
    );
    let mut left = self::kept().into_keys();
    assert_eq!(
        left.find(|line| !lines.contains(&&**line)),
        None,
        "nobody types this any more"
    );
}

#[test]
fn every_message_says_what_happened_where_and_what_to_do_next() {
    let all: Vec<_> = lines::ALL
        .iter()
        .flat_map(|(_, lines)| *lines)
        .copied()
        .collect();
    compare(&all);
}

/// A holder that lets nobody look: no window answers.
#[test]
fn a_store_that_is_locked_without_a_window_says_by_whom_and_what_to_do() {
    let shell = Shell::new();
    let held = SledStore::open(shell.path("mileposts")).unwrap();
    for words in ["show t", "threads", "run count", "delete t", "export t"] {
        let said = shell.types(&format!("milepost {words}"));
        assert_eq!(said.code, 7, "{words}: {}", said.err);
        let who = format!(
            "the store mileposts is locked by process {}",
            std::process::id()
        );
        assert!(said.err.contains(&who), "{words}: {}", said.err);
        let next =
            "next: wait until that process is done, or stop it: nothing acknowledged is lost";
        assert!(said.err.contains(next), "{words}: {}", said.err);
    }
    let said = shell.types("milepost doctor");
    assert_eq!(said.code, 7);
    assert!(said.out.contains("is locked by process"), "{}", said.out);
    drop(held);
    assert_eq!(shell.types("milepost show t").code, 0);
}

/// Nothing acknowledged is lost on a disk that fills up, and the run goes on where there is room.
#[test]
fn what_was_acknowledged_before_the_disk_was_full_is_there_afterwards() {
    let shell = Shell::new();
    for blocks in [60, 1100, 1500] {
        let run =
            format!("limited {blocks} milepost --store new run count --to 800 --thread t --json");
        let full = shell.types(&run);
        assert_eq!(full.code, 1, "{}", full.err);
        assert!(full.err.contains("(os error 27)"), "{}", full.err);
        let committed = full
            .out
            .lines()
            .rev()
            .find(|line| line.contains("\"committed\""));
        let told: Value = serde_json::from_str(committed.unwrap()).unwrap();
        // The next line begins without what this one made.
        let kept = format!("kept{blocks}");
        fs::rename(shell.path("new"), shell.path(&kept)).unwrap();
        let on = |words: &str| shell.types(&format!("milepost --store {kept} {words}"));
        let shown = on("show t --json");
        let shown: Value = serde_json::from_str(&shown.out).unwrap();
        assert!(
            shown["step"].as_u64() >= told["step"].as_u64(),
            "{shown} {told}"
        );
        assert_eq!(on("doctor").code, 0);
        assert_eq!(on("resume t").code, 0);
    }
}

/// S427: each command, once, in a folder of its own; what it writes is JSON, a value a line.
#[test]
fn every_line_of_every_command_is_json_where_that_is_asked_for() {
    let shell = Shell::new();
    let docs = crate::cli_bin::bakery();
    let research = format!("run research --thread r --question flour --docs '{docs}' --out r.md");
    let commands = [
        ("graphs", 0),
        ("graphs show count", 0),
        ("run count --thread j", 0),
        (&research, 0),
        ("resume half", 0),
        ("retry half count", 2),
        ("threads --sizes", 0),
        ("show j", 0),
        ("show j --field n", 0),
        ("history j", 0),
        ("events j", 0),
        ("events j --follow", 0),
        ("diff j 2 4", 0),
        ("dot count", 0),
        ("dot --run j", 0),
        ("copy j k", 0),
        ("prune k", 0),
        ("compact", 0),
        ("compact k --keep 1 --dry-run", 0),
        ("compact --rewrite small", 0),
        ("export --all", 0),
        ("export j --out j.jsonl", 0),
        ("--store new import j.jsonl", 0),
        ("delete k", 0),
        ("doctor", 0),
        ("doctor --repair --to rescued", 0),
        ("fork j 4", 0),
        ("patch j --n 2 --exit Again", 0),
        ("rewind j 4", 0),
        ("switch j 0", 0),
        ("replay j", 0),
        ("questions", 0),
        ("answer j yes", 2),
        ("cancel j", 0),
        ("worker --once", 0),
        ("new agent", 0),
        ("completions bash", 0),
        ("demo research --docs docs --dir demo", 0),
        ("show nosuch", 2),
    ];
    let typed: std::collections::BTreeSet<_> = commands
        .iter()
        .filter_map(|(words, _)| words.split(' ').next())
        .collect();
    let help = shell.types("milepost --help").out;
    let (_, listed) = help.split_once("Commands:\n").unwrap();
    for command in listed.lines().take_while(|line| !line.is_empty()) {
        let name = command.split_whitespace().next().unwrap();
        let known = typed.contains(name) || ["help", "import"].contains(&name);
        assert!(known, "{name} is not run here");
    }
    std::os::unix::fs::symlink(&docs, shell.path("docs")).unwrap();
    for (words, code) in commands {
        let said = shell.types(&format!("milepost --json {words}"));
        assert_eq!(said.code, code, "{words}: {}", said.err);
        let lines = if code == 0 { &said.out } else { &said.err };
        // Where nothing waits and nothing is due, there is nothing to list.
        let is_a_list = ["questions", "worker --once"].contains(&words);
        assert!(is_a_list || !lines.is_empty(), "{words} says nothing");
        for line in lines.lines() {
            let value = serde_json::from_str::<Value>(line);
            assert!(value.is_ok(), "{words}: {line}");
        }
    }
}
