//! The flags of `run` that come from the fields of a state.

mod given;
mod program;
mod state;

use std::fs::{self, File};
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cli_bin::Ran;

/// The text as it stands in `tests/data/inputs`; written anew where `MILEPOST_BLESS` is set.
fn golden(name: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/inputs")
        .join(name);
    if std::env::var_os("MILEPOST_BLESS").is_some() {
        fs::write(&file, text).unwrap();
    }
    let kept = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        kept == text,
        "{} differs; look at it, then run again with MILEPOST_BLESS=1\n{text}",
        file.display()
    );
}

/// A folder with the files that the words name.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &[u8]| fs::write(folder.path().join(name), text).unwrap();
    write("text.txt", b"null\nand a line\n");
    write("part.json", br#"{"name": "p", "size": 1, "inner": []}"#);
    write("broken.json", b"{\"name\": \"p\",\n  \"size\": 1,}");
    write("latin.txt", b"caf\xe9");
    fs::create_dir(folder.path().join("folder")).unwrap();
    folder
}

/// The state after a run with these words.
fn state(words: &[&str], piped: &[u8]) -> Value {
    let start = ["--json", "--store", "memory", "run", "all", "--name", "n"];
    let ran = ran(&folder(), &[&start, words].concat(), piped).exits(0);
    ran.values().pop().unwrap()["state"].take()
}

fn ran(folder: &TempDir, words: &[&str], piped: &[u8]) -> Ran {
    program::ran(folder.path(), words, piped)
}

#[test]
fn the_help_is_made_of_the_comments_of_the_fields() {
    let folder = folder();
    let mut text = String::new();
    for help in ["-h", "--help"] {
        let ran = ran(&folder, &["run", "all", help], b"").exits(0);
        // The flags that every run has are not of interest here.
        let (own, _) = ran.out.split_once("The run:").unwrap();
        text = format!("{text}$ run all {help}\n{own}");
    }
    golden("help.txt", &text);
}

#[test]
fn what_makes_no_sense_is_refused_with_where_and_what_to_type() {
    let folder = folder();
    let large = File::create(folder.path().join("large.txt")).unwrap();
    large.set_len((64 << 20) + 1).unwrap();
    let nested = "[".repeat(200) + &"]".repeat(200);
    let cases: &[&[&str]] = &[
        &["--tiny", "many"],
        &["--tiny", "256"],
        &["--tiny", "-1"],
        &["--small=-40000"],
        &["--huge", "-1"],
        &["--double", "1e999"],
        &["--double", "ten"],
        &["--flag", "yes"],
        &["--letter", "ab"],
        &["--speed", "fast"],
        &["--many-paces", "Slow", "--many-paces", "Quick"],
        &["--many-paces", "[\"Slow\", 1]"],
        &["--numbers", "1", "--numbers", "x"],
        &["--tiny", "1", "--tiny", "2"],
        &["--part", "{"],
        &["--part", "@broken.json"],
        &["--part", r#"{"name": "a", "sise": 1}"#],
        &["--part", r#"{"name": "a", "name": "b"}"#],
        &["--part", r#"{"name": "a", "size": 1}"#],
        &[
            "--part",
            r#"{"name": "a", "size": 1, "inner": [null, {"name": 5}]}"#,
        ],
        &["--figure", "Circle"],
        &["--figure", r#"{"Square": 1}"#],
        &["--figure", r#"{"Line": [1, 2, 3]}"#],
        &["--figure", r#"{"Box": {"wide": 1, "hight": 2}}"#],
        &["--by-name", r#"{"a": [1, 256]}"#],
        &["--by-number", r#"{"a": null}"#],
        &["--fixed", "[1, 2]"],
        &["--blob", r#"{"$bytes": "0g"}"#],
        &["--value", &nested],
        &["--text", "@"],
        &["--text", "@nosuch.txt"],
        &["--text", "@folder"],
        &["--text", "@latin.txt"],
        &["--text", "@large.txt"],
        &["--text", "-", "--part", "-"],
        &["--input", r#"{"texd": "a"}"#],
        &["--input", r#"{"text": 5}"#],
        &["--input", r#"{"text": "a", "text": "b"}"#],
        &["--input", r#"{"part": {"inner": [{"size": "x"}]}}"#],
        &["--input", "[]"],
        &["--input", "{\"text\": \"a\",\n\"tiny\" 5}"],
        &["--input", "@part.json"],
        &["--input", "-", "--text", "-"],
        &["--input", r#"{"text": "a"}"#],
        &[],
    ];
    let mut text = String::new();
    for words in cases {
        let all = [&["--store", "store", "run", "all", "--thread", "t"], *words].concat();
        let ran = ran(&folder, &all, b"{}").exits(2);
        assert_eq!(ran.out, "");
        let said = ran.err.replace(&nested, "[[…]]");
        let shown = words.join(" ").replace(&nested, "[[…]]");
        text = format!("{text}$ run all {shown}\n{said}\n");
    }
    golden("errors.txt", &text);
    let threads = ran(&folder, &["--store", "store", "threads"], b"").exits(0);
    assert_eq!(threads.out, "There is no thread yet.\n");
}

#[test]
fn a_value_comes_from_a_file_or_from_what_is_piped_in() {
    let given = state(&["--text", "@text.txt", "--maybe", "@text.txt"], b"");
    assert_eq!(given["text"], "null\nand a line\n");
    assert_eq!(given["maybe"], "null\nand a line\n");
    let given = state(
        &["--part", "@part.json", "--text", "-"],
        b"piped \xc3\xa9\n",
    );
    assert_eq!(
        given["part"],
        json!({"name": "p", "size": 1.0, "inner": []})
    );
    assert_eq!(given["text"], "piped é\n");
    let given = state(&["--tiny", "-", "--text", "@@text.txt"], b" 5\n");
    assert_eq!(
        (&given["tiny"], &given["text"]),
        (&json!(5), &json!("@text.txt"))
    );
    let given = state(&["--numbers", "1", "--numbers", "-"], b"[2, 3.5]\n");
    assert_eq!(given["numbers"]["$bytes"].as_str().unwrap().len(), 64);
    let given = state(
        &["--said", "a", "--said", "@text.txt", "--said", "[\"b\"]"],
        b"",
    );
    assert_eq!(given["said"], json!(["a", "null\nand a line\n", "b"]));
}

#[test]
fn types_inside_themselves_and_with_names_of_their_own_are_read_to_the_end() {
    let words = [
        "--part",
        r#"{"name": "a", "size": 1, "inner": [null, {"name": "b", "size": 2,
            "inner": [{"name": "c", "size": 3, "inner": []}]}]}"#,
        "--figure",
        r#"{"Both": [{"Both": ["Nothing", {"Box": {"wide": 1, "high": 2}}]}, {"Circle": 3}]}"#,
        "--tagged",
        r#"{"kind": "A", "size": 4}"#,
        "--loose",
        r#"{"old": 5.5}"#,
    ];
    let given = state(&words, b"");
    assert_eq!(given["part"]["inner"][1]["inner"][0]["size"], 3.0);
    let both = &given["figure"]["Both"];
    assert_eq!(both[0]["Both"][1]["Box"]["wide"], 1.0);
    assert_eq!(both[1], json!({"Circle": 3.0}));
    assert_eq!(given["tagged"], json!({"kind": "A", "size": 4.0}));
    assert_eq!(given["loose"], json!({"a": 0, "b": 5.5}));
}

#[test]
fn a_flag_wins_over_the_same_field_of_the_whole() {
    let whole = br#"{"tiny": 1, "small": -2, "said": ["a"], "thread": "inside"}"#;
    let given = state(&["--tiny", "9", "--said", "b", "--input", "-"], whole);
    assert_eq!((&given["tiny"], &given["small"]), (&json!(9), &json!(-2)));
    assert_eq!(given["said"], json!(["b"]));
    assert_eq!(given["thread"], "inside");
}

#[test]
fn what_json_cannot_say_is_given_as_it_is_shown() {
    let words = [
        "--single=-inf",
        "--double",
        r#"NaN"#,
        "--part",
        r#"{"name": "p", "size": {"$float": "inf"}, "inner": []}"#,
        "--blob",
        r#"{"$bytes": "00ff"}"#,
        "--by-pair",
        r#"{"$entries": [[[1, "a"], true], [[2, "b"], false]]}"#,
    ];
    let given = state(&words, b"");
    assert_eq!(given["single"], json!({"$float": "-inf"}));
    assert_eq!(given["double"], json!({"$float": "NaN"}));
    assert_eq!(given["part"]["size"], json!({"$float": "inf"}));
    assert_eq!(given["blob"], json!({"$bytes": "00ff"}));
    let pairs = json!({"$entries": [[[1, "a"], true], [[2, "b"], false]]});
    assert_eq!(given["by_pair"], pairs);
}

#[test]
fn a_thread_keeps_what_a_later_input_does_not_give() {
    let folder = folder();
    let run = |words: &[&str]| {
        let start = ["--json", "--store", "store", "run", "all", "--thread", "t"];
        let ran = ran(&folder, &[&start, words].concat(), b"").exits(0);
        ran.values().pop().unwrap()["state"].take()
    };
    run(&["--name", "n", "--sum", "2", "--maybe", "x", "--said", "a"]);
    let second = run(&["--sum", "3", "--maybe", "null", "--said", "b"]);
    assert_eq!((&second["name"], &second["sum"]), (&json!("n"), &json!(5)));
    assert_eq!(second["maybe"], json!(null));
    assert_eq!(second["said"], json!(["a", "b"]));
}

#[test]
fn comments_are_shown_with_the_graph_and_flags_are_completed() {
    let folder = folder();
    let shown = ran(&folder, &["graphs", "show", "all"], b"").exits(0).out;
    assert!(
        shown.contains("fields of All: Everything that can be given."),
        "{shown}"
    );
    assert!(
        shown.contains("replace            What is to be said.\n"),
        "{shown}"
    );
    let shown = ran(&folder, &["graphs", "show", "all", "--json"], b"").exits(0);
    let value = shown.value();
    assert_eq!(
        value["doc"],
        "Everything that can be given.\n\nMore about it stands here."
    );
    let doc = "What is to be said.\nIt has two lines.\n\nAnd a second paragraph.";
    assert_eq!(value["fields"][0]["doc"], doc);
    assert_eq!(value["fields"][1]["doc"], "");
    for shell in ["bash", "zsh", "fish"] {
        let text = ran(&folder, &["completions", shell], b"").exits(0).out;
        for part in [
            "many-paces",
            "input-thread",
            "input-input",
            "Fast",
            "by-name",
        ] {
            assert!(text.contains(part), "no {part} for {shell}");
        }
    }
}
