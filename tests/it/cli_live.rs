//! The live view, on a real pseudo-terminal.

use std::fs;
use std::process::Stdio;

use crate::cli_bin::Desk;
use crate::cli_terminal::{Shown, Terminal};

/// A wide and high terminal.
const WIDE: (u16, u16) = (40, 200);

/// Counting, slowly enough to be seen.
const COUNT: [&str; 10] = [
    "run", "count", "--to", "3", "--thread", "t", "--run-id", "r", "--pace", "400ms",
];

/// The text without how long things took: what two runs of one input have in common.
fn timeless(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.trim_end().lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        let mut kept: Vec<&str> = Vec::new();
        for word in words {
            let unit = matches!(word, "ms" | "s");
            match kept.last_mut() {
                Some(last) if unit && last.parse::<f64>().is_ok() => *last = "T",
                _ => kept.push(word),
            }
        }
        lines.push(kept.join(" "));
    }
    lines.join("\n")
}

/// What a run in a folder of its own says where there is no terminal.
fn plainly(words: &[&str], code: i32) -> String {
    timeless(&Desk::new().run(words).exits(code).out)
}

/// The same in the folder of another run.
fn plainly_in(desk: &Desk, words: &[&str]) -> String {
    let store = ["--store", "memory"];
    timeless(&desk.run(&[&store, words].concat()).exits(0).out)
}

/// Nothing of the live region is left, and the cursor is where text goes on.
fn is_left_clean(shown: &Shown) {
    for left in [" done, ", "stopping when", "starting, "] {
        assert!(
            !shown.page.contains(left),
            "{left:?} is left\n{}",
            shown.page
        );
    }
    assert!(!shown.hides_cursor);
    assert_eq!(shown.cursor.1, 0, "the cursor stands at the begin of a row");
    // What a run has to show may end with an empty line.
    let below = shown.cursor.0 - shown.rows;
    assert!(below <= 1, "{below} rows below\n{}", shown.page);
}

#[test]
fn a_run_on_a_terminal_shows_who_runs_and_leaves_its_plain_lines() {
    let desk = Desk::new();
    let terminal = Terminal::start(&desk, WIDE, &[], &COUNT);
    let screen = terminal.until("second superstep", |screen| {
        screen.contains("superstep 2: 0 of 1 done, ")
    });
    let lines: Vec<_> = screen.lines().collect();
    // What has ended stands above, and the region is the last of the screen.
    assert!(lines[2].starts_with("   1  tick"), "{screen}");
    let region = lines.iter().position(|line| line.contains("superstep 2:"));
    let region = &lines[region.unwrap()..];
    assert!(region[0].ends_with("then tick or end"), "{screen}");
    assert!(region[1].starts_with("  tick  0 s"), "{screen}");
    assert_eq!(region.len(), 2, "{screen}");
    let shown = terminal.end();
    assert_eq!(shown.code, Some(0));
    is_left_clean(&shown);
    assert_eq!(timeless(&shown.page), plainly(&COUNT, 0));
}

#[test]
fn where_no_live_view_is_wanted_or_possible_the_bytes_are_those_of_plain_lines() {
    let plain = plainly(&COUNT, 0);
    let with = |word: &'static str| [&COUNT[..], &[word]].concat();
    let ways = [
        ("TERM", "xterm", with("--plain")),
        ("NO_COLOR", "1", COUNT.to_vec()),
        ("TERM", "dumb", COUNT.to_vec()),
        ("TERM", "", COUNT.to_vec()),
    ];
    for (name, value, words) in ways {
        let shown = Terminal::start(&Desk::new(), WIDE, &[(name, value)], &words).end();
        assert_eq!(shown.code, Some(0));
        assert!(!shown.bytes.contains('\x1b'), "{:?}", shown.bytes);
        assert_eq!(timeless(&shown.bytes), plain, "{name}={value} {words:?}");
    }
    let shown = Terminal::start(&Desk::new(), WIDE, &[], &with("--json")).end();
    assert!(!shown.bytes.contains('\x1b'), "{:?}", shown.bytes);
    let report = shown.bytes.lines().next_back().unwrap();
    let report: serde_json::Value = serde_json::from_str(report).unwrap();
    assert_eq!(report["type"], "report");
    // Output into a file, and only the error channel on a terminal.
    let desk = Desk::new();
    let file = fs::File::create(desk.path("out")).unwrap();
    let out = Some(Stdio::from(file));
    let shown = Terminal::start_with(&desk, WIDE, &[], &COUNT, out).end();
    assert_eq!(shown.bytes, "");
    let text = fs::read_to_string(desk.path("out")).unwrap();
    assert_eq!(timeless(&text), plain);
}

#[test]
fn a_wide_fan_out_on_a_small_terminal_names_what_fits_and_counts_the_rest() {
    let desk = Desk::new();
    fs::create_dir(desk.path("docs")).unwrap();
    for n in 0..12 {
        let text = format!("# Bakery {n}\n\nBakery {n} is open from {n} o'clock on.\n");
        fs::write(desk.path(&format!("docs/{n}.md")), text).unwrap();
    }
    let docs = desk.path("docs").display().to_string();
    let words = [
        "run",
        "research",
        "--question",
        "When is the bakery open?",
        "--docs",
        &docs,
        "--thread",
        "t",
        "--run-id",
        "r",
    ];
    let paced = [&words[..], &["--pace", "400ms"]].concat();
    let terminal = Terminal::start(&desk, (5, 20), &[], &paced);
    let screen = terminal.until("fan-out", |screen| {
        screen
            .lines()
            .any(|line| line.starts_with("  and ") && line.ends_with(" more"))
    });
    let lines: Vec<_> = screen.lines().collect();
    let region = lines.iter().position(|line| line.starts_with("superstep "));
    let region = &lines[region.unwrap()..];
    assert_eq!(region.len(), 3, "half of the screen and no more:\n{screen}");
    assert!(region[0].ends_with('…'), "cut, and not wrapped:\n{screen}");
    assert!(region[1].contains("anal"), "{screen}");
    let shown = terminal.end();
    assert_eq!(shown.code, Some(0));
    is_left_clean(&shown);
    // Which of them ends last, and shares its line with the commit, is open; a line that the
    // terminal has wrapped is one line.
    let sorted = |text: &str| {
        let text = text.replace(" → coverage", "");
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let page = timeless(&shown.page);
    assert_eq!(sorted(&page), sorted(&plainly_in(&desk, &words)));
}

#[test]
fn a_terminal_may_become_narrow_and_low_and_wide_again() {
    let desk = Desk::new();
    let words: Vec<_> = COUNT
        .iter()
        .map(|word| if *word == "3" { "5" } else { word })
        .collect();
    let terminal = Terminal::start(&desk, WIDE, &[], &words);
    terminal.until("first superstep", |screen| {
        screen.contains("superstep 1: 0 of 1 done")
    });
    terminal.resize(5, 20);
    terminal.until("cut line", |screen| {
        screen
            .lines()
            .any(|line| line.starts_with("superstep 2: ") && line.ends_with('…'))
    });
    terminal.resize(WIDE.0, WIDE.1);
    terminal.until("whole line", |screen| screen.contains("then tick or end"));
    let shown = terminal.end();
    assert_eq!(shown.code, Some(0));
    is_left_clean(&shown);
    let finished = shown
        .page
        .lines()
        .filter(|line| line.contains("  tick"))
        .count();
    assert_eq!(finished, 5, "every line has stayed:\n{}", shown.page);
}

#[test]
fn the_first_ctrl_c_stays_visible_until_the_running_nodes_are_done() {
    let desk = Desk::new();
    let terminal = Terminal::start(&desk, WIDE, &[], &COUNT);
    terminal.until("first superstep", |screen| {
        screen.contains("superstep 1: 0 of 1 done")
    });
    terminal.type_in(b"\x03");
    let screen = terminal.until("note", |screen| {
        screen.contains("stopping when the running nodes")
    });
    assert!(
        screen.contains("  tick  "),
        "it is still shown who runs:\n{screen}"
    );
    let shown = terminal.end();
    assert_eq!(shown.code, Some(6));
    is_left_clean(&shown);
    assert!(
        shown.page.contains("next: milepost resume t"),
        "{}",
        shown.page
    );
    assert!(!shown.page.contains("^C"), "{}", shown.page);
}

#[test]
fn the_second_ctrl_c_ends_at_once_and_leaves_nothing_on_the_screen() {
    let desk = Desk::new();
    let words: Vec<_> = COUNT
        .iter()
        .map(|word| if *word == "400ms" { "30s" } else { word })
        .collect();
    let terminal = Terminal::start(&desk, WIDE, &[], &words);
    terminal.until("first superstep", |screen| {
        screen.contains("superstep 1: 0 of 1 done")
    });
    terminal.type_in(b"\x03");
    terminal.until("note", |screen| {
        screen.contains("stopping when the running nodes")
    });
    terminal.type_in(b"\x03");
    let shown = terminal.end();
    assert_eq!(shown.code, Some(6));
    is_left_clean(&shown);
    for part in ["every finished node is kept", "next: milepost resume t"] {
        assert!(shown.page.contains(part), "{}", shown.page);
    }
}

#[test]
fn a_failure_takes_the_region_away_and_says_why() {
    let desk = Desk::new();
    fs::write(desk.path("in the way"), "").unwrap();
    let words = [&COUNT[..], &["--blocked-by", "in the way"]].concat();
    let terminal = Terminal::start(&desk, WIDE, &[], &words);
    terminal.until("first superstep", |screen| {
        screen.contains("superstep 1: 0 of 1 done")
    });
    let shown = terminal.end();
    assert_eq!(shown.code, Some(1));
    is_left_clean(&shown);
    for part in ["in the way is in the way", "next: milepost resume t"] {
        assert!(shown.page.contains(part), "{}", shown.page);
    }
    // The next try is a live one, too.
    fs::remove_file(desk.path("in the way")).unwrap();
    let terminal = Terminal::start(&desk, WIDE, &[], &["resume", "--pace", "400ms"]);
    terminal.until("resumed run", |screen| {
        screen.contains("superstep 1: 0 of 1 done")
    });
    let shown = terminal.end();
    assert_eq!(shown.code, Some(0));
    is_left_clean(&shown);
    assert!(shown.page.contains("counted to 3"), "{}", shown.page);
}

#[test]
fn what_the_library_traces_stands_above_the_region() {
    let desk = Desk::new();
    let traced = [("MILEPOST_LOG", "milepost=trace")];
    let shown = Terminal::start(&desk, WIDE, &traced, &COUNT).end();
    assert_eq!(shown.code, Some(0));
    is_left_clean(&shown);
    let plain = plainly(&COUNT, 0);
    let page = timeless(&shown.page);
    assert!(page.contains("TRACE") || page.contains("DEBUG"), "{page}");
    let mut rest = &*page;
    for line in plain.lines() {
        let at = rest
            .find(line)
            .unwrap_or_else(|| panic!("no {line:?} in\n{page}"));
        rest = &rest[at + line.len()..];
    }
}

#[test]
fn a_field_goes_to_a_program_as_it_is_and_to_a_terminal_with_its_control_characters_shown() {
    let desk = Desk::new();
    let file = "\x1b[2Jno such file";
    desk.run(&["run", "count", "--thread", "t", "--blocked-by", file])
        .exits(0);
    let words = ["show", "t", "--field", "blocked_by"];
    assert_eq!(desk.run(&words).exits(0).out, format!("{file}\n"));
    let shown = Terminal::start(&desk, WIDE, &[], &words).end();
    assert_eq!(shown.bytes, "\\u{1b}[2Jno such file\n");
}

#[test]
fn a_table_and_a_tree_fit_the_terminal() {
    let desk = Desk::new();
    desk.run(&["run", "count", "--thread", "t"]).exits(0);
    for words in [&["history", "t"][..], &["history", "t", "--tree"]] {
        let shown = Terminal::start(&desk, (24, 60), &[], words).end();
        let rows = usize::from(shown.rows);
        assert_eq!(shown.page.lines().count(), rows, "{}", shown.page);
        assert_eq!(rows, shown.bytes.lines().count());
        assert!(shown.page.contains('…'), "{}", shown.page);
    }
    // Where no date fits, the table tells how long ago that is.
    let shown = Terminal::start(&desk, (24, 80), &[], &["history", "t"]).end();
    let mut rows = shown.page.lines().skip(1);
    let told = rows.all(|row| row.contains(" now ") || row.contains(" ago "));
    assert!(told, "{}", shown.page);
}
