//! `doctor --repair`, on the real program: what is sound is in the new store, and the old one is as
//! it was.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use milepost::ThreadId;
use milepost::store::{StoreEngine, ThreadKey};
use serde_json::{Value, json};

use crate::cli_bin::Desk;

/// Three threads: two are finished, the second one is limited.
fn desk() -> Desk {
    desk_on(StoreEngine::Sled)
}

fn desk_on(engine: StoreEngine) -> Desk {
    let desk = Desk::new();
    drop(engine.open(desk.path("mileposts")).unwrap());
    for (thread, exit) in [("a", 0), ("b", 4), ("c", 0)] {
        let words = ["run", "count", "--to", "40", "--thread", thread];
        let limit: &[&str] = match exit {
            4 => &["--step-limit", "30"],
            _ => &[],
        };
        desk.run(&[&words[..], limit].concat()).exits(exit);
    }
    desk
}

/// Changes a row of a thread past the store: the class, the how manieth of that class.
fn alter(desk: &Desk, thread: &str, class: u8, number: usize, change: impl Fn(&mut Vec<u8>)) {
    let mut prefix = ThreadKey::of(&ThreadId::new(thread).unwrap())
        .as_bytes()
        .to_vec();
    prefix.push(class);
    #[cfg(feature = "fjall")]
    if StoreEngine::found(desk.path("mileposts")) == Some(StoreEngine::Fjall) {
        let database = fjall::Database::builder(desk.path("mileposts/fjall"));
        let database = database.open().unwrap();
        let rows = database.keyspace("rows", Default::default).unwrap();
        let row = rows.prefix(prefix).nth(number).unwrap();
        let (key, row) = row.into_inner().unwrap();
        let mut row = row.to_vec();
        change(&mut row);
        match row.is_empty() {
            true => rows.remove(key).unwrap(),
            false => rows.insert(key, row).unwrap(),
        }
        database.persist(fjall::PersistMode::SyncAll).unwrap();
        return;
    }
    let db = sled::open(desk.path("mileposts")).unwrap();
    let (key, row) = db.scan_prefix(prefix).nth(number).unwrap().unwrap();
    let mut row = row.to_vec();
    change(&mut row);
    match row.is_empty() {
        true => db.remove(key).unwrap(),
        false => db.insert(key, row).unwrap(),
    };
    db.flush().unwrap();
}

#[expect(clippy::ptr_arg, reason = "others of its kind change the length")]
fn flip(row: &mut Vec<u8>) {
    *row.last_mut().unwrap() ^= 1;
}

/// Every file below a folder.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => all.extend(
                files(&entry.path())
                    .into_iter()
                    .map(|(inner, bytes)| (format!("{name}/{inner}"), bytes)),
            ),
            false => drop(all.insert(name, fs::read(entry.path()).unwrap())),
        }
    }
    all
}

/// Repairs into `new` and sees that the old store was not touched. Returns what was told.
fn repair(desk: &Desk, exit: i32) -> Vec<Value> {
    let before = files(&desk.path("mileposts"));
    let told = desk.run(&["doctor", "--repair", "--to", "new", "--json"]);
    let values = told.exits(exit).values();
    assert_eq!(
        files(&desk.path("mileposts")),
        before,
        "the old store was touched"
    );
    assert!(!desk.path("new.repair").exists());
    values
}

fn of<'v>(values: &'v [Value], thread: &str) -> &'v Value {
    let mut found = values.iter().filter(|value| value["thread"] == thread);
    found
        .next()
        .unwrap_or_else(|| panic!("no {thread} in {values:?}"))
}

fn export(desk: &Desk, store: &str, thread: &str) -> String {
    desk.run(&["--store", store, "export", thread]).exits(0).out
}

#[test]
fn a_sound_store_is_copied_whole() {
    copied_whole(&desk());
}

#[cfg(feature = "fjall")]
#[test]
fn a_sound_store_of_fjall_is_copied_whole() {
    copied_whole(&desk_on(StoreEngine::Fjall));
}

fn copied_whole(desk: &Desk) {
    let values = repair(desk, 0);
    for thread in ["a", "b", "c"] {
        assert_eq!(of(&values, thread)["saved"], "whole");
        assert_eq!(
            export(desk, "mileposts", thread),
            export(desk, "new", thread)
        );
    }
    let summary = values.last().unwrap();
    assert_eq!(
        (&summary["whole"], &summary["to"]),
        (&json!(3), &json!("new"))
    );
    desk.run(&["--store", "new", "doctor"]).exits(0);
    desk.run(&["--store", "new", "resume", "b"]).exits(0);
}

/// C53 (7), C67: the sound ones as they were, the damaged one as far as it is sound; and it goes on.
#[test]
fn threads_that_are_sound_are_saved_whole_and_a_damaged_one_in_part() {
    saved_in_part(StoreEngine::Sled);
}

#[cfg(feature = "fjall")]
#[test]
fn threads_on_fjall_that_are_sound_are_saved_whole_and_a_damaged_one_in_part() {
    saved_in_part(StoreEngine::Fjall);
}

fn saved_in_part(engine: StoreEngine) {
    // Name, head, run; a record before the newest base, behind it, the last one.
    for (class, number) in [(0, 0), (1, 0), (5, 0), (3, 9), (3, 32), (3, 33)] {
        let what = format!("class {class}, {number}");
        let desk = desk_on(engine);
        alter(&desk, "b", class, number, flip);
        desk.run(&["doctor"]).exits(8);
        let values = repair(&desk, 8);
        for thread in ["a", "c"] {
            assert_eq!(of(&values, thread)["saved"], "whole", "{what}");
            assert_eq!(
                export(&desk, "mileposts", thread),
                export(&desk, "new", thread)
            );
        }
        let key: String = ThreadKey::of(&ThreadId::new("b").unwrap())
            .as_bytes()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let name = match class {
            0 => format!("lost-{key}"),
            _ => "b".to_owned(),
        };
        let told = of(&values, &name);
        assert_eq!(told["saved"], "part", "{what}: {told}");
        assert_eq!(told["named"], class != 0);
        let records = told["records"].as_u64().unwrap();
        match (class, number) {
            // Nothing is lost but what stood beside the log.
            (0 | 1 | 5, _) => {
                assert_eq!(told["missing"], json!([]), "{what}: {told}");
                assert_eq!(told["dropped"], json!([]), "{what}: {told}");
                assert_eq!(told["step"], 30, "{what}: {told}");
            }
            (_, 9) => assert_eq!(told["missing"], json!([[10, 10]]), "{what}: {told}"),
            (_, last) => {
                assert_eq!(told["until"], json!(last), "{what}: {told}");
                assert_eq!(records, last as u64, "{what}: {told}");
            }
        }
        let found = desk.run(&["--store", "new", "doctor", "--json"]).exits(0);
        let summary = found.values().pop().unwrap();
        assert_eq!(
            (&summary["threads"], &summary["errors"]),
            (&json!(3), &json!(0))
        );
        desk.run(&["--store", "new", "resume", &name, "--step-limit", "100"])
            .exits(0);
        let state = desk
            .run(&["--store", "new", "show", &name, "--json"])
            .exits(0);
        let calm = desk
            .run(&["--store", "new", "show", "a", "--json"])
            .exits(0);
        assert_eq!(state.value()["state"], calm.value()["state"], "{what}");
    }
}

#[test]
fn a_thread_of_which_nothing_can_be_saved_is_told() {
    let desk = desk();
    // Without a schema, its bytes mean nothing.
    alter(&desk, "b", 3, 0, flip);
    let values = repair(&desk, 8);
    let told = of(&values, "b");
    assert_eq!(told["saved"], "nothing", "{told}");
    assert_eq!(told["missing"], json!([[1, 1]]), "{told}");
    assert_eq!(values.last().unwrap()["lost"], 1);
    let told = desk
        .run(&["doctor", "--repair", "--to", "newer"])
        .exits(8)
        .out;
    for part in [
        "thread a: whole, ",
        "thread b: nothing can be saved",
        "  records that cannot be read: 1\n",
        "2 saved whole, 0 in part, 1 lost",
        "next: milepost --store newer threads",
    ] {
        assert!(told.contains(part), "no {part:?} in {told}");
    }
    desk.run(&["--store", "newer", "doctor"]).exits(0);
}

#[test]
fn a_thread_can_be_saved_alone_and_under_its_name() {
    let desk = desk();
    alter(&desk, "b", 0, 0, flip);
    // Whoever knows the name gets the thread by it.
    let words = [
        "doctor", "--repair", "--to", "new", "--thread", "b", "--json",
    ];
    let values = desk.run(&words).exits(8).values();
    assert_eq!(of(&values, "b")["until"], 34);
    let threads = desk.run(&["--store", "new", "threads", "--json"]).exits(0);
    assert_eq!(threads.values().len(), 1, "{}", threads.out);
    desk.run(&["--store", "new", "resume", "b"]).exits(0);
    let words = ["doctor", "--repair", "--to", "newer", "--thread", "nobody"];
    let refused = desk.run(&words).exits(2).err;
    assert!(refused.contains("there is no thread nobody"), "{refused}");
    assert!(!desk.path("newer").exists() && !desk.path("newer.repair").exists());
}

/// A file that keeps the store from opening is left out of a copy, and the doctor says what to do.
#[test]
fn a_store_that_does_not_open_is_opened_as_a_copy() {
    let desk = desk();
    let snapshot = fs::read_dir(desk.path("mileposts"))
        .unwrap()
        .find_map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            name.starts_with("snap.").then_some(path)
        });
    fs::write(snapshot.unwrap(), "").unwrap();
    let told = desk.run(&["doctor"]).exits(8).out;
    assert!(told.contains("store mileposts: not opened"), "{told}");
    assert!(told.contains("milepost doctor --repair --to NEW"), "{told}");
    let values = repair(&desk, 8);
    assert_eq!(values[0]["type"], "store");
    assert_eq!(values[0]["left_out"], json!(["snap."]));
    assert_eq!(values.last().unwrap()["whole"], 3, "{values:?}");
    desk.run(&["--store", "new", "doctor"]).exits(0);
    desk.run(&["--store", "new", "resume", "b"]).exits(0);
}

/// Whatever an interrupted tail has taken: what is left is in the new store, and sound.
#[test]
fn a_store_that_lost_its_end_is_saved_as_far_as_it_goes() {
    for cut in [3_000, 20_000, 60_000] {
        let desk = desk();
        let db = desk.path("mileposts/db");
        // sled makes its file longer than what is in it: the end is where the last byte is.
        let mut bytes = fs::read(&db).unwrap();
        let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
        bytes.truncate(end.saturating_sub(cut));
        fs::write(&db, bytes).unwrap();
        let told = desk.run(&["doctor", "--repair", "--to", "new", "--json"]);
        let values = told.exits(8).values();
        let Some(summary) = values.last() else {
            continue;
        };
        if summary["to"].is_null() {
            continue;
        }
        desk.run(&["--store", "new", "doctor"]).exits(0);
    }
}

/// Whichever file of fjall is missing or cut: what is saved is what was written, and what is not is told.
#[cfg(feature = "fjall")]
#[test]
fn a_store_of_fjall_that_lacks_a_file_is_saved_as_far_as_it_goes() {
    let desk = desk_on(StoreEngine::Fjall);
    let was = ["a", "b", "c"].map(|thread| (thread, export(&desk, "mileposts", thread)));
    let was = BTreeMap::from(was);
    let sound = files(&desk.path("mileposts"));
    let mut cases: Vec<_> = sound.keys().map(|name| (name.as_str(), None)).collect();
    let journal = "fjall/0.jnl";
    let end = sound[journal].iter().rposition(|byte| *byte != 0).unwrap();
    cases.extend([8, 5, 2].map(|tenth| (journal, Some(end * tenth / 10))));
    let mut whole = Vec::new();
    for (name, cut) in cases {
        let what = format!("{name} {cut:?}");
        let path = desk.path("mileposts").join(name);
        match cut {
            None => fs::remove_file(&path).unwrap(),
            Some(cut) => fs::write(&path, &sound[name][..cut]).unwrap(),
        }
        let told = desk.run(&["doctor", "--repair", "--to", "new", "--json"]);
        let code = told.code.unwrap();
        assert!(
            [0, 8].contains(&code),
            "{what}: {code} {}{}",
            told.out,
            told.err
        );
        assert!(!told.err.contains("panic"), "{what}: {}", told.err);
        let values = told.values();
        let saved = values
            .iter()
            .filter(|value| value["saved"] == "whole")
            .count();
        assert!(code == 8 || saved == 3, "{what}: {values:?}");
        assert!(
            !values.is_empty() || !told.err.is_empty(),
            "{what}: nothing is told"
        );
        if desk.path("new").exists() {
            desk.run(&["--store", "new", "doctor"]).exits(0);
            for value in values.iter().filter(|value| value["saved"] == "whole") {
                let thread = value["thread"].as_str().unwrap();
                let text = export(&desk, "new", thread);
                let was = &was[thread];
                // Of a store that lost its end, a thread may be whole as it was at an earlier moment.
                let is_record = |line: &&str| line.starts_with(r#"{"record""#);
                let known: Vec<_> = was.lines().filter(is_record).collect();
                let left: Vec<_> = text.lines().filter(is_record).collect();
                let same = *was == text || (cut.is_some() && !left.is_empty());
                assert!(
                    same && known.starts_with(&left),
                    "{what}: {thread} is another"
                );
            }
            fs::remove_dir_all(desk.path("new")).unwrap();
        }
        whole.push((what, saved));
        fs::write(&path, &sound[name]).unwrap();
    }
    assert!(whole.iter().any(|(_, saved)| *saved == 3), "{whole:?}");
    assert!(whole.iter().any(|(_, saved)| *saved < 3), "{whole:?}");
}

#[test]
fn what_is_there_already_is_not_touched() {
    let desk = desk();
    fs::create_dir(desk.path("new")).unwrap();
    fs::write(desk.path("new/mine"), "mine").unwrap();
    let words = ["doctor", "--repair", "--to", "new"];
    let refused = desk.run(&words).exits(2).err;
    assert!(refused.contains("new is there already"), "{refused}");
    fs::remove_file(desk.path("new/mine")).unwrap();
    fs::create_dir(desk.path("new.repair")).unwrap();
    fs::write(desk.path("new.repair/mine"), "mine").unwrap();
    let refused = desk.run(&words).exits(2).err;
    assert!(refused.contains("was not made by a repair"), "{refused}");
    assert_eq!(fs::read(desk.path("new.repair/mine")).unwrap(), b"mine");
    fs::remove_dir_all(desk.path("new.repair")).unwrap();
    // An empty folder is as good as none.
    desk.run(&words).exits(0);
    let refused = desk.run(&words).exits(2).err;
    assert!(refused.contains("new is there already"), "{refused}");
    for words in [&["doctor", "--repair"][..], &["doctor", "--to", "x"]] {
        desk.run(words).exits(2);
    }
    let nowhere = ["doctor", "--repair", "--to", "no/such/folder"];
    let refused = desk.run(&nowhere).exits(2).err;
    assert!(refused.contains("cannot be made"), "{refused}");
    let none = Desk::new();
    assert!(none.run(&words).exits(2).err.contains("no store"));
}

#[test]
fn a_store_in_use_is_not_repaired() {
    let desk = desk();
    let words = [
        "run", "count", "--to", "9", "--thread", "t", "--pace", "1h", "--json",
    ];
    let mut child = desk.start(&words);
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut out, &mut String::new()).unwrap();
    let refused = desk
        .run(&["doctor", "--repair", "--to", "new"])
        .exits(7)
        .err;
    let pid = format!("by process {}", child.id());
    assert!(refused.contains(&pid), "{refused}");
    assert!(!desk.path("new").exists() && !desk.path("new.repair").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    desk.run(&["doctor", "--repair", "--to", "new"]).exits(0);
}

/// Killed at any moment: either there is no new store yet, or all of it is there.
#[test]
fn a_repair_that_is_killed_is_simply_begun_again() {
    let desk = desk();
    alter(&desk, "b", 3, 32, flip);
    // Before the files are looked at: who reads a store by sled writes to it, too.
    let old = export(&desk, "mileposts", "a");
    let before = files(&desk.path("mileposts"));
    let words = ["doctor", "--repair", "--to", "new"];
    for time in 0..25u64 {
        let mut child = desk.start(&words);
        std::thread::sleep(Duration::from_micros(time * time * 250));
        // It may have come to its end.
        let _ = child.kill();
        child.wait().unwrap();
        if desk.path("new").exists() {
            desk.run(&["--store", "new", "doctor"]).exits(0);
            assert_eq!(old, export(&desk, "new", "a"));
            fs::remove_dir_all(desk.path("new")).unwrap();
        }
        assert!(
            files(&desk.path("mileposts")) == before,
            "the old store was written to"
        );
    }
    desk.run(&words).exits(8);
    desk.run(&["--store", "new", "doctor"]).exits(0);
}

/// Values that are encrypted need their key; nothing is taken for damage because it is not at hand.
#[test]
#[cfg(feature = "encryption")]
fn an_encrypted_store_is_repaired_with_its_key_alone() {
    let desk = Desk::new();
    let key = format!("1:{}", "a7".repeat(32));
    let run = |words: &[&str], keys: Option<&str>| -> crate::cli_bin::Ran {
        let mut command = desk.command(words);
        command.env_remove("MILEPOST_KEYS");
        command.envs(keys.map(|keys| ("MILEPOST_KEYS", keys)));
        command.output().unwrap().into()
    };
    let start = ["run", "count", "--to", "9", "--thread", "a"];
    run(&start, Some(&key)).exits(0);
    let words = ["doctor", "--repair", "--to", "new"];
    let refused = run(&words, None).exits(1).err;
    assert!(refused.contains("MILEPOST_KEYS"), "{refused}");
    assert!(!desk.path("new").exists());
    run(&words, Some(&key)).exits(0);
    let export = |store| {
        run(&["--store", store, "export", "a"], Some(&key))
            .exits(0)
            .out
    };
    assert_eq!(export("mileposts"), export("new"));
    let closed = run(&["--store", "new", "show", "a"], None);
    assert_eq!(closed.code, Some(1), "{}{}", closed.out, closed.err);
}
