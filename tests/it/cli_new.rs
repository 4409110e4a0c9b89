//! `new` writes a project that builds, passes its test, and whose README runs.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::cli_bin::{Desk, Ran};

const CHECKOUT: &str = env!("CARGO_MANIFEST_DIR");

/// The lines of the commands in a text, without what is said about them.
fn commands(text: &str) -> Vec<&str> {
    let blocks = text.split("```sh\n").skip(1);
    let blocks = blocks.map(|block| block.split("```").next().unwrap());
    blocks
        .flat_map(str::lines)
        .map(|line| line.split("  #").next().unwrap().trim())
        .filter(|line| !line.is_empty())
        .collect()
}

#[test]
fn a_new_project_builds_and_its_readme_runs() {
    let desk = Desk::new();
    // The guide begins a project inside of a clone, which is a workspace.
    fs::write(desk.path("Cargo.toml"), "[workspace]\n").unwrap();
    let told = desk.run(&["--json", "new", "my-agent", "--milepost", CHECKOUT]);
    assert_eq!(told.exits(0).value()["graph"], "my-agent");
    let project = desk.path("my-agent");
    // The versions that this checkout is tested with, which are on this machine already.
    fs::copy(
        Path::new(CHECKOUT).join("Cargo.lock"),
        project.join("Cargo.lock"),
    )
    .unwrap();
    let readme = fs::read_to_string(project.join("README.md")).unwrap();
    let commands = commands(&readme);
    assert!(commands.len() > 5, "{commands:?}");
    let mut all = String::new();
    for line in commands {
        let ran: Ran = Command::new("sh")
            .args(["-c", line])
            .current_dir(&project)
            .env("CARGO_TARGET_DIR", target())
            .env("CARGO_NET_OFFLINE", "true")
            .env("RUSTFLAGS", "-D warnings")
            .env_remove("MILEPOST_STORE")
            .output()
            .unwrap()
            .into();
        let is_killed = line.contains("--crash-after");
        assert_eq!(ran.code == Some(0), !is_killed, "{line}: {ran:?}");
        all.push_str(&ran.out);
    }
    for part in [
        "2 passed",
        "9 words in 2 sentences",
        "3 words in 3 sentences",
    ] {
        assert!(all.contains(part), "no {part:?} in {all}");
    }
    let picture = fs::read_to_string(project.join("first.svg")).unwrap();
    assert!(picture.contains("judge"), "{picture}");
    let formatted = Command::new("cargo")
        .args(["fmt", "--check"])
        .current_dir(&project)
        .output();
    assert_eq!(Ran::from(formatted.unwrap()).exits(0).out, "");
}

/// Built once for all runs of this test, beside what it shares nothing with.
fn target() -> String {
    let tests = Path::new(env!("CARGO_TARGET_TMPDIR"));
    tests.join("new").display().to_string()
}

#[test]
fn a_project_is_refused_where_it_cannot_be() {
    let desk = Desk::new();
    fs::write(desk.path("there"), "mine").unwrap();
    fs::create_dir(desk.path("folder")).unwrap();
    for (words, said) in [
        (&["new", "there"][..], "is there already"),
        (&["new", "folder"], "is there already"),
        (&["new", "there/agent"], "could not be written"),
        (&["new", "Agent"], "small letters"),
        (&["new", "2agents"], "begins with a small letter"),
        (&["new", "loop"], "has a meaning already"),
        (&["new", ".."], "is no name"),
        (
            &["new", "a", "--milepost", "folder"],
            "no sources of milepost",
        ),
        (
            &["new", "a", "--milepost", "nosuch"],
            "no sources of milepost",
        ),
    ] {
        let ran = desk.run(words).exits(2);
        assert!(ran.err.contains(said), "no {said:?} in {}", ran.err);
        assert!(ran.err.contains("next: "), "{}", ran.err);
    }
    assert_eq!(fs::read_to_string(desk.path("there")).unwrap(), "mine");
    let left = fs::read_dir(desk.path("")).unwrap().count();
    assert_eq!(left, 2, "nothing half-made is left");
}
