//! Threads leave a store as lines and come back the same, or are refused with the line.

use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::cli_bin::{Desk, Ran, bakery};

/// Two threads: one finished, one that a crash has left in the middle.
fn desk() -> Desk {
    let desk = Desk::new();
    let words = ["run", "count", "--to", "3", "--thread", "a"];
    desk.run(&words).exits(0);
    let words = [
        "run",
        "count",
        "--to",
        "6",
        "--thread",
        "b c",
        "--step-limit",
        "2",
    ];
    desk.run(&words).exits(4);
    desk
}

fn says(ran: &Ran, parts: &[&str]) {
    for part in parts {
        assert!(ran.err.contains(part), "no {part:?} in {}", ran.err);
    }
}

/// Imports this text into a new store.
fn import(desk: &Desk, text: &[u8]) -> Ran {
    fs::write(desk.path("in.jsonl"), text).unwrap();
    let _ = fs::remove_dir_all(desk.path("new"));
    desk.run(&["--store", "new", "import", "in.jsonl"])
}

fn names(desk: &Desk, store: &str) -> Vec<Value> {
    let listed = desk.run(&["--store", store, "threads", "--json"]).exits(0);
    let names = listed.values();
    names.iter().map(|one| one["thread"].clone()).collect()
}

#[test]
fn an_export_is_imported_and_exported_again_byte_for_byte() {
    let desk = desk();
    let out = desk.run(&["export", "--all"]).exits(0).out;
    let kinds: Vec<_> = out
        .lines()
        .map(|line| {
            let value: Value = serde_json::from_str(line).unwrap();
            value.as_object().unwrap().keys().next().unwrap().clone()
        })
        .collect();
    assert_eq!(kinds[..3], ["milepost", "thread", "record"]);
    assert_eq!(kinds[kinds.len() - 2..], ["end", "done"]);
    let told = import(&desk, out.as_bytes()).exits(0);
    assert!(told.out.contains("thread a is imported"), "{}", told.out);
    assert!(told.out.contains("superstep 2, limited"), "{}", told.out);
    let again = desk.run(&["--store", "new", "export", "--all"]).exits(0);
    assert_eq!(again.out, out);
    // One thread, by name, through a pipe, under another name and back.
    let one = desk.run(&["export", "b c"]).exits(0).out;
    let mut child = desk
        .command(&["import", "-", "--as", "d", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(one.as_bytes()).unwrap();
    drop(input);
    let ran: Ran = child.wait_with_output().unwrap().into();
    let value = ran.exits(0).value();
    assert_eq!(
        (&value["thread"], &value["records"], &value["step"]),
        (&json!("d"), &json!(6), &json!(2))
    );
    let renamed = desk.run(&["export", "d"]).exits(0).out;
    desk.run(&["delete", "b c"]).exits(0);
    fs::write(desk.path("d.jsonl"), renamed).unwrap();
    desk.run(&["import", "d.jsonl", "--as", "b c"]).exits(0);
    assert_eq!(desk.run(&["export", "b c"]).exits(0).out, one);
}

#[test]
fn an_export_goes_to_a_file_that_is_there_only_when_it_is_whole() {
    let desk = desk();
    fs::write(desk.path("all.jsonl"), "older").unwrap();
    let words = ["export", "--all", "--out", "all.jsonl"];
    let told = desk.run(&words).exits(0);
    assert!(told.out.contains("2 threads"), "{}", told.out);
    assert!(told.out.contains("import all.jsonl"), "{}", told.out);
    let out = desk.run(&["export", "--all"]).exits(0).out;
    assert_eq!(fs::read_to_string(desk.path("all.jsonl")).unwrap(), out);
    let value = desk.run(&[&words[..], &["--json"]].concat()).value();
    assert_eq!(value["bytes"], out.len());
    assert_eq!(value["threads"][1]["records"], 6);
    // Nothing is left beside it, whatever happens.
    desk.run(&["export", "nosuch", "--out", "no.jsonl"])
        .exits(2);
    let nowhere = desk.run(&["export", "a", "--out", "no/such/file"]).exits(2);
    says(&nowhere, &["no/such/file cannot be written", "--out"]);
    let folder = desk.run(&["export", "a", "--out", "mileposts"]).exits(2);
    says(&folder, &["it is a folder"]);
    let mut left: Vec<_> = fs::read_dir(desk.path(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, ["all.jsonl", "mileposts"]);
}

#[cfg(target_os = "linux")]
#[test]
fn an_export_that_cannot_be_written_says_so_and_one_that_nobody_reads_ends() {
    let desk = desk();
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let ran = desk.command(&["export", "--all"]).stdout(full).output();
    let ran: Ran = ran.unwrap().into();
    says(&ran, &["cannot be written", "make room"]);
    assert_eq!(ran.code, Some(1));
    desk.run(&["run", "count", "--to", "900", "--thread", "long"])
        .exits(0);
    let mut child = desk.start(&["export", "--all"]);
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let ran: Ran = child.wait_with_output().unwrap().into();
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
}

#[test]
fn a_crashed_run_goes_on_in_another_store_and_ends_as_if_nothing_had_been() {
    let docs = bakery();
    let query = "How hot are ovens, how long does flour keep, and when does the shop open?";
    let words = [
        "run",
        "research",
        "--question",
        query,
        "--docs",
        &docs,
        "--thread",
        "t",
    ];
    let calm = Desk::new();
    calm.run(&words).exits(0);
    let state = |desk: &Desk, store: &str| {
        let words = ["--store", store, "show", "t", "--json"];
        desk.run(&words).exits(0).value()["state"].clone()
    };
    for node in ["discover", "analyse", "report"] {
        let desk = Desk::new();
        let crash = ["--crash-after", node, "--tally", "tally"];
        let crashed = desk.run(&[&words[..], &crash].concat());
        assert_eq!(crashed.code, None, "ended by a signal");
        let before = desk.tally();
        desk.run(&["export", "t", "--out", "t.jsonl"]).exits(0);
        desk.run(&["--store", "new", "import", "t.jsonl"]).exits(0);
        fs::remove_dir_all(desk.path("mileposts")).unwrap();
        let resume = ["--store", "new", "resume", "t", "--tally", "tally"];
        desk.run(&resume).exits(0);
        let after = desk.tally();
        assert!(after.len() > before.len());
        let finished = desk.run(&["--store", "new", "doctor"]).exits(0);
        assert!(finished.out.contains("1 finished"), "{}", finished.out);
        assert_eq!(state(&desk, "new"), state(&calm, "mileposts"), "{node}");
    }
}

#[test]
fn a_pruned_thread_is_exported_with_its_gaps() {
    let desk = Desk::new();
    desk.run(&["run", "count", "--to", "200", "--thread", "t"])
        .exits(0);
    desk.run(&["prune", "t"]).exits(0);
    let out = desk.run(&["export", "t"]).exits(0).out;
    import(&desk, out.as_bytes()).exits(0);
    let again = desk.run(&["--store", "new", "export", "t"]).exits(0).out;
    assert_eq!(again, out);
    let history = |store| desk.run(&["--store", store, "history", "t"]).exits(0).out;
    assert_eq!(history("new"), history("mileposts"));
    let show = desk
        .run(&["--store", "new", "show", "t", "--json"])
        .exits(0);
    assert_eq!(show.value()["state"]["n"], 200);
}

#[test]
fn a_thread_that_is_there_is_refused_or_skipped() {
    let desk = desk();
    desk.run(&["export", "--all", "--out", "all.jsonl"])
        .exits(0);
    desk.run(&["delete", "a"]).exits(0);
    let before = desk.run(&["export", "b c"]).exits(0).out;
    let refused = desk.run(&["import", "all.jsonl"]).exits(2);
    says(
        &refused,
        &[
            "all.jsonl, line 17: thread b c exists already",
            "imported before that, and kept: a",
            "import all.jsonl with --skip-existing",
            "delete 'b c'",
        ],
    );
    assert_eq!(names(&desk, "mileposts"), ["a", "b c"]);
    let skipped = desk
        .run(&["import", "all.jsonl", "--skip-existing"])
        .exits(0);
    assert!(
        skipped.out.contains("thread b c is skipped"),
        "{}",
        skipped.out
    );
    assert_eq!(desk.run(&["export", "b c"]).exits(0).out, before);
    let two = desk.run(&["import", "all.jsonl", "--as", "d"]).exits(2);
    says(&two, &["more than one thread"]);
    assert_eq!(names(&desk, "mileposts"), ["a", "b c"]);
    desk.run(&["export", "a", "--out", "a.jsonl"]).exits(0);
    let exists = desk.run(&["import", "a.jsonl", "--as", "b c"]).exits(2);
    says(&exists, &["thread b c exists already"]);
    let memory = desk
        .run(&["--store", "memory", "import", "a.jsonl"])
        .exits(2);
    says(&memory, &["gone with this process"]);
}

/// A text whose sums are right again, after its lines were changed.
fn summed(lines: &[String]) -> String {
    let mut text = String::new();
    let (mut thread, mut records, mut segments) = (0, 0, 0);
    for line in lines {
        let mut value: Value = serde_json::from_str(line).unwrap();
        let hash = |text: &str| blake3::hash(text.as_bytes()).to_hex().to_string();
        let kind = value.as_object().unwrap().keys().next().unwrap().clone();
        match kind.as_str() {
            "thread" => (thread, records, segments) = (text.len(), 0, 0),
            "record" => records += 1,
            "segment" => segments += 1,
            "end" => {
                value[&kind]["sum"] = json!(hash(&text[thread..]));
                let id = value[&kind]["id"].to_string();
                let sum = hash(&text[thread..]);
                text += &format!(
                    "{{\"end\":{{\"id\":{id},\"records\":{records},\"segments\":{segments},\
                     \"sum\":\"{sum}\"}}}}\n"
                );
                continue;
            }
            "done" => {
                let (threads, sum) = (value[&kind]["threads"].clone(), hash(&text));
                text += &format!("{{\"done\":{{\"threads\":{threads},\"sum\":\"{sum}\"}}}}\n");
                continue;
            }
            _ => {}
        }
        text += line;
        text.push('\n');
    }
    text
}

/// The lines of a small export.
fn small() -> (Desk, Vec<String>) {
    let desk = Desk::new();
    let words = ["run", "count", "--to", "1", "--thread", "t"];
    desk.run(&words).exits(0);
    let out = desk.run(&["export", "t"]).exits(0).out;
    assert_eq!(summed(&lines(&out)), out);
    (desk, lines(&out))
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

#[test]
fn whatever_is_no_export_is_refused_with_its_line_and_makes_no_store() {
    let (desk, good) = small();
    let with = |number: usize, line: &str| {
        let mut lines = good.clone();
        line.clone_into(&mut lines[number - 1]);
        lines.join("\n") + "\n"
    };
    let whole = good.join("\n") + "\n";
    let deep = format!("{{\"record\":{}", "[".repeat(100_000));
    for (text, parts) in [
        (String::new(), &["line 1: the file is empty"][..]),
        ("\n".to_owned(), &["line 1: this is no export"]),
        ("{}\n".to_owned(), &["line 1: this is no export"]),
        (
            "\u{0}\u{1}\u{2}\n".to_owned(),
            &["line 1: this is no export"],
        ),
        ("hello".to_owned(), &["line 1: the file is cut off"]),
        (
            with(1, r#"{"milepost":"graphs","version":1}"#),
            &["line 1: this is no export"],
        ),
        (
            with(1, r#"{"milepost":"threads","version":2}"#),
            &[
                "line 1",
                "version 2",
                "reads up to 1",
                "the program that wrote it",
            ],
        ),
        (
            with(1, r#"{"milepost":"threads", "version":1}"#),
            &["line 1", "altered"],
        ),
        (with(3, "not JSON"), &["line 3: it is not JSON", "column"]),
        (with(3, ""), &["line 3: it is not JSON"]),
        (with(3, &deep), &["line 3: it is no"]),
        (
            with(3, r#"{"nosuch":{}}"#),
            &["line 3: it is no line of an export", "nosuch"],
        ),
        (
            with(3, r#"{"record":{"seq":1}}"#),
            &["line 3: it is no line of an export", "missing field"],
        ),
        (
            with(3, &good[1]),
            &["line 3: expected record, segment or end, found thread"],
        ),
        (
            with(2, &good[2]),
            &["line 2: expected thread or done, found record"],
        ),
        (
            with(3, &good[2].replace("\"seq\":1", "\"seq\": 1")),
            &["line 3: it was altered"],
        ),
        (
            with(2, &good[1].replace("\"next\":5", "\"next\":6")),
            &["line 7: the lines of thread t were altered", "checksum"],
        ),
        (
            with(7, &good[6].replace("\"records\":4", "\"records\":6")),
            &["line 7: thread t should have 6 records"],
        ),
        (
            with(7, &good[6].replace("\"id\":\"t\"", "\"id\":\"u\"")),
            &["line 7: thread t ends as thread u"],
        ),
        (
            good[..7].join("\n") + "\n",
            &["line 8", "cut off before this line", "kept: t"],
        ),
        (
            good[..5].join("\n") + "\n",
            &["line 6", "cut off before this line"],
        ),
        (
            whole[..whole.len() - 1].to_owned(),
            &["line 8: the file is cut off in this line", "kept: t"],
        ),
        (
            with(8, &good[7].replace("\"threads\":1", "\"threads\":2")),
            &[
                "line 8: the file should have 2 threads, it has 1",
                "kept: t",
            ],
        ),
        (
            whole.clone() + "\n",
            &["line 9: the export has ended", "kept: t"],
        ),
        (
            whole.clone() + &whole,
            &["line 9: the export has ended", "kept: t"],
        ),
    ] {
        let told = import(&desk, text.as_bytes()).exits(2);
        says(&told, parts);
        says(&told, &["in.jsonl, line", "next: "]);
        let is_kept = told.err.contains("kept: t");
        assert_eq!(desk.path("new").exists(), is_kept, "{}", told.err);
    }
    let none = desk.run(&["import", "nosuch.jsonl"]).exits(2);
    says(&none, &["nosuch.jsonl cannot be read", "next: "]);
    let folder = desk.run(&["import", "mileposts"]).exits(2);
    says(&folder, &["mileposts cannot be read"]);
}

#[test]
fn a_thread_that_does_not_hold_together_is_refused_though_its_sums_are_right() {
    let (desk, good) = small();
    type Change = fn(&mut Vec<String>);
    let changes: [(Change, &str); 7] = [
        (|lines| lines.swap(2, 3), "record 2: there is no schema"),
        (
            |lines| drop(lines.remove(4)),
            "records between 1 and 4 are missing",
        ),
        (|lines| drop(lines.remove(5)), "the last one is 3"),
        (
            |lines| lines[1] = lines[1].replace("\"seq\":4", "\"seq\":3"),
            "head: it points to record 3",
        ),
        (
            |lines| lines[1] = lines[1].replace("\"base\":3", "\"base\":4"),
            "head: it names base 4",
        ),
        (
            |lines| lines[1] = lines[1].replace("\"input\":2", "\"input\":1"),
            "says that its input is record 1",
        ),
        (
            |lines| lines[4] = lines[4].replace("\"at\":2", "\"at\":1"),
            "position 1, which is another kind",
        ),
    ];
    for (change, said) in changes {
        let mut lines = good.clone();
        change(&mut lines);
        assert_ne!(lines, good, "{said}");
        let told = import(&desk, summed(&lines).as_bytes()).exits(2);
        says(&told, &["line ", "does not hold together"]);
        says(&told, &[said]);
        if desk.path("new").exists() {
            assert_eq!(names(&desk, "new"), [""; 0]);
        }
    }
}

#[test]
fn a_flipped_bit_or_a_cut_is_refused_or_changes_nothing() {
    let (desk, good) = small();
    let text = (good.join("\n") + "\n").into_bytes();
    let mut refused = 0;
    for place in (0..text.len()).step_by(9) {
        let mut broken = text.clone();
        broken[place] ^= 1 << (place % 8);
        let told = import(&desk, &broken);
        let cut = import(&desk, &text[..place]);
        assert_eq!(cut.code, Some(2), "cut at {place}: {}", cut.err);
        match told.code {
            Some(2) => refused += 1,
            code => panic!("byte {place}: {code:?} {}", told.err),
        }
        if desk.path("new").exists() && !names(&desk, "new").is_empty() {
            let again = desk.run(&["--store", "new", "export", "t"]).exits(0).out;
            assert_eq!(again.as_bytes(), text, "byte {place}");
        }
    }
    assert!(refused > 200, "{refused} places were tried");
}
