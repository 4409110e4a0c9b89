//! The guide: its pages are there, and its commands print what it says.
//!
//! In a block of `console`, a line with `$` is a command, what follows is its output, lines with
//! `!` what it says on the error channel, and `?` how it ended if not well. `…` stands for any text,
//! alone on a line for any lines.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cli_bin::{Desk, Ran};

fn guide() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/guide/src")
}

/// A command of the guide, and what is said of it.
#[derive(Debug, Default)]
struct Shown {
    command: String,
    out: Vec<String>,
    err: Vec<String>,
    end: String,
}

fn shown(page: &str) -> Vec<Shown> {
    let mut shown: Vec<Shown> = Vec::new();
    for block in page.split("```console\n").skip(1) {
        for line in block.split("```").next().unwrap().lines() {
            if let Some(command) = line.strip_prefix("$ ") {
                shown.push(Shown {
                    command: command.to_owned(),
                    ..Shown::default()
                });
                continue;
            }
            let last = shown.last_mut().expect("a block begins with a command");
            match line.split_once(' ') {
                Some(("!", err)) => last.err.push(err.to_owned()),
                Some(("?", end)) => last.end = end.to_owned(),
                _ => last.out.push(line.to_owned()),
            }
        }
    }
    shown
}

/// Whether lines are as shown.
fn fits(shown: &[String], lines: &[&str]) -> bool {
    match (shown.split_first(), lines.split_first()) {
        (None, None) => true,
        (Some((any, rest)), _) if any == "…" => {
            (0..=lines.len()).any(|skipped| fits(rest, &lines[skipped..]))
        }
        (Some((one, rest)), Some((line, lines))) => {
            fits_line(one, line.trim_end()) && fits(rest, lines)
        }
        _ => false,
    }
}

fn fits_line(shown: &str, line: &str) -> bool {
    let mut parts = shown.split('…');
    let Some(mut rest) = line.strip_prefix(parts.next().unwrap()) else {
        return false;
    };
    let mut parts: Vec<_> = parts.collect();
    let Some(last) = parts.pop() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[test]
fn the_commands_of_the_guide_print_what_it_says() {
    let summary = fs::read_to_string(guide().join("SUMMARY.md")).unwrap();
    let desk = Desk::new();
    symlink(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("docs"),
        desk.path("docs"),
    )
    .unwrap();
    let mut count = 0;
    for page in links(&summary) {
        let text = fs::read_to_string(guide().join(&page)).unwrap();
        for Shown {
            command,
            out,
            err,
            end,
        } in shown(&text)
        {
            let ran: Ran = Command::new("sh")
                .args([
                    "-c",
                    r#"cargo() { shift; "$MILEPOST" "$@"; }; eval "$COMMAND""#,
                ])
                .env("MILEPOST", env!("CARGO_BIN_EXE_milepost"))
                .env("COMMAND", &command)
                .env_remove("MILEPOST_STORE")
                .env_remove("MILEPOST_ENGINE")
                .env_remove("MILEPOST_LOG")
                .current_dir(desk.path(""))
                .output()
                .unwrap()
                .into();
            let said = format!("{page}: {command}\n{}{}", ran.out, ran.err);
            match end.as_str() {
                // A shell says that its child was killed by 128 and the number of the signal.
                "killed" => assert!(ran.code.is_none_or(|code| code > 128), "{said}"),
                "" => assert_eq!(ran.code, Some(0), "{said}"),
                code => assert_eq!(ran.code, code.parse().ok(), "{said}"),
            }
            assert!(fits(&out, &ran.out.lines().collect::<Vec<_>>()), "{said}");
            let lines: Vec<_> = ran.err.lines().collect();
            // What the shell says of a killed child is not ours.
            assert!(end == "killed" || fits(&err, &lines), "{said}");
            count += 1;
        }
    }
    assert!(count > 15, "{count}");
}

/// The pages that a text leads to, in order.
fn links(text: &str) -> Vec<String> {
    let ends = text.split("](").skip(1);
    let targets = ends.filter_map(|end| end.split(')').next());
    targets
        .filter(|target| !target.contains("://"))
        .map(|target| target.split('#').next().unwrap().to_owned())
        .collect()
}

#[test]
fn every_page_of_the_guide_is_listed_and_every_link_leads_somewhere() {
    let listed = links(&fs::read_to_string(guide().join("SUMMARY.md")).unwrap());
    for file in fs::read_dir(guide()).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        assert!(name == "SUMMARY.md" || listed.contains(&name), "{name}");
        let text = fs::read_to_string(guide().join(&name)).unwrap();
        for link in links(&text).iter().filter(|link| !link.is_empty()) {
            assert!(guide().join(link).exists(), "{name} leads to {link}");
        }
    }
}

#[test]
fn what_stands_for_any_text_stands_for_nothing_more() {
    assert!(fits_line("a … c", "a b c") && fits_line("a…", "a") && !fits_line("a … c", "a b"));
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    assert!(fits(&lines("a\n…\nd"), &["a", "b", "c", "d"]));
    assert!(!fits(&lines("a\n…\nd"), &["a", "b", "c"]) && !fits(&lines("a"), &["a", "b"]));
}
