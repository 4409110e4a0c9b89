//! Which room may touch which: the sources against the table in `docs/architecture.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What the table allows a room.
#[derive(Debug, Default)]
struct Allowed {
    /// Rooms whose inside may be named: `crate::room::..`.
    rooms: BTreeSet<String>,
    /// Rooms of which only public names may be used: `crate::Name`, or `crate::room::Name` where
    /// the room itself is public.
    public: BTreeSet<String>,
    /// Whether every public name may be used.
    all_public: bool,
}

/// The public surface, as `lib.rs` lists it.
#[derive(Debug, Default)]
struct Surface {
    /// The room of each name that is re-exported at the root.
    names: BTreeMap<String, String>,
    /// The rooms that are public modules.
    modules: BTreeSet<String>,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

/// The rows of the table: a room in the first column, what it may touch in the second.
fn table() -> BTreeMap<String, Allowed> {
    let text = read("docs/architecture.md");
    let (_, section) = text
        .split_once("## Who may touch whom")
        .expect("docs/architecture.md has the table");
    let mut table = BTreeMap::new();
    for line in section.lines().skip_while(|line| !line.starts_with('|')) {
        let Some(row) = line.strip_prefix('|') else {
            break;
        };
        let mut cells = row.split('|').map(str::trim);
        let (Some(room), Some(may)) = (cells.next(), cells.next()) else {
            continue;
        };
        let Some(room) = quoted(room).pop() else {
            continue;
        };
        let mut allowed = Allowed::default();
        for part in may.split(';').map(str::trim) {
            if part == "every public name" {
                allowed.all_public = true;
            } else if part.starts_with("public names of ") {
                allowed.public.extend(quoted(part));
            } else if part != "nothing" {
                let rooms = quoted(part);
                assert!(!rooms.is_empty(), "the table says of {room}: {part}");
                allowed.rooms.extend(rooms);
            }
        }
        assert!(
            table.insert(room.clone(), allowed).is_none(),
            "{room} twice"
        );
    }
    table
}

fn quoted(cell: &str) -> Vec<String> {
    cell.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

fn surface() -> Surface {
    let mut surface = Surface::default();
    let text = code(&read("src/lib.rs"));
    // The plumbing of the derives is public for the compiler alone.
    let text = text.split("mod plumbing").next().unwrap_or_default();
    for statement in text.split([';', '}']).map(str::trim) {
        let statement = match statement.rsplit_once(']') {
            Some((_, after)) => after.trim(),
            None => statement,
        };
        if let Some(module) = statement.strip_prefix("pub mod ") {
            surface.modules.insert(module.to_owned());
        } else if let Some(path) = statement.strip_prefix("pub use ")
            && let Some((room, names)) = path.split_once("::")
        {
            let names = names.trim_start_matches('{').split(',').map(str::trim);
            let named = names.filter(|name| !name.is_empty());
            surface
                .names
                .extend(named.map(|name| (name.to_owned(), room.to_owned())));
        }
    }
    surface
}

/// The text without comments on lines of their own, where paths are only mentioned.
fn code(text: &str) -> String {
    let lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// The first names of all paths that begin with `start`, groups in braces taken apart.
fn first_names(text: &str, start: &str) -> Vec<String> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    let mut found = Vec::new();
    for (at, _) in text.match_indices(start) {
        if text[..at].ends_with(is_word) || text[..at].ends_with("::") {
            continue;
        }
        let path = text[at + start.len()..].trim_start();
        let Some(group) = path.strip_prefix('{') else {
            found.push(path.chars().take_while(|c| is_word(*c)).collect());
            continue;
        };
        let mut depth = 0;
        let mut item = String::new();
        for c in group.chars() {
            match c {
                '}' if depth == 0 => break,
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => found.push(std::mem::take(&mut item)),
                _ => {}
            }
            if depth == 0 && c != ',' && c != '}' {
                item.push(c);
            }
        }
        found.push(item);
    }
    let first = |item: &String| item.trim().chars().take_while(|c| is_word(*c)).collect();
    let names: Vec<String> = found.iter().map(first).collect();
    names.into_iter().filter(|name| !name.is_empty()).collect()
}

/// Every Rust file below a folder, in a fixed order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    let Ok(entries) = std::fs::read_dir(folder) else {
        return all;
    };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(files(&path));
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            all.push(path);
        }
    }
    all.sort();
    all
}

/// The room of a file below `src`, and how deep its module lies under the root.
fn room_of(file: &Path) -> (String, usize) {
    let inside = file.strip_prefix(root().join("src")).unwrap();
    let mut parts: Vec<_> = inside
        .with_extension("")
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    parts.retain(|part| part != "mod");
    (parts[0].clone(), parts.len())
}

fn complaint(
    room: &str,
    name: &str,
    table: &BTreeMap<String, Allowed>,
    surface: &Surface,
) -> Option<String> {
    let allowed = &table[room];
    if name == room || allowed.rooms.contains(name) {
        return None;
    }
    if table.contains_key(name) {
        let public =
            surface.modules.contains(name) && (allowed.all_public || allowed.public.contains(name));
        return (!public).then(|| format!("the inside of `{name}`"));
    }
    match surface.names.get(name) {
        Some(of) if allowed.all_public || allowed.public.contains(of) => None,
        Some(of) if of == room || allowed.rooms.contains(of) => None,
        Some(of) => Some(format!("`{name}` of `{of}`")),
        None => Some(format!("`{name}`, which is no public name")),
    }
}

#[test]
fn every_room_touches_only_what_the_table_allows() {
    let (table, surface) = (table(), surface());
    let mut wrong = Vec::new();
    for file in files(&root().join("src")) {
        let (room, depth) = room_of(&file);
        if matches!(room.as_str(), "lib" | "main" | "derive") {
            continue;
        }
        let shown = file.strip_prefix(root()).unwrap().display();
        if !table.contains_key(&room) {
            wrong.push(format!("{shown}: `{room}` is not in the table"));
            continue;
        }
        let text = code(&read(&file));
        let mut named = first_names(&text, "crate::");
        named.extend(first_names(&text, "milepost::"));
        // A room is never reached by climbing out of one's own.
        let out = "super::".repeat(depth);
        let climbed = first_names(&text, &out);
        named.extend(climbed.into_iter().filter(|name| table.contains_key(name)));
        for name in named {
            if let Some(what) = complaint(&room, &name, &table, &surface) {
                wrong.push(format!("{shown}: `{room}` uses {what}"));
            }
        }
    }
    wrong.dedup();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn worked_graphs_and_the_program_use_public_names_only() {
    let surface = surface();
    let mut all = files(&root().join("graphs"));
    assert!(!all.is_empty());
    all.push(root().join("src/main.rs"));
    let mut wrong = Vec::new();
    for file in all {
        let shown = file.strip_prefix(root()).unwrap().display();
        let text = code(&read(&file));
        for name in first_names(&text, "milepost::") {
            if !surface.names.contains_key(&name) && !surface.modules.contains(&name) {
                wrong.push(format!("{shown} uses `{name}`, which is no public name"));
            }
        }
        for name in first_names(&text, "crate::") {
            if name != "graphs" {
                wrong.push(format!("{shown} uses `crate::{name}`"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_table_has_no_circle() {
    let table = table();
    let mut done: BTreeSet<&str> = BTreeSet::new();
    while done.len() < table.len() {
        let ready = table.iter().find(|(room, allowed)| {
            let mut below = allowed.rooms.iter().chain(&allowed.public);
            !done.contains(room.as_str()) && below.all(|room| done.contains(room.as_str()))
        });
        let Some((room, _)) = ready else {
            panic!("rooms in a circle, or not in the table: all but {done:?}");
        };
        done.insert(room);
    }
}

#[test]
fn a_path_out_of_bounds_is_seen_however_it_is_written() {
    let text = code(
        "use crate::{ids::Seq, run::{Runner, Run}};\n// crate::store::Record\nlet a = crate::policy::now_ms();\n$crate::x; my_crate::y",
    );
    assert_eq!(first_names(&text, "crate::"), ["ids", "run", "policy"]);
    let (table, surface) = (table(), surface());
    let wrong = |room: &str, name: &str| complaint(room, name, &table, &surface).is_some();
    assert!(!wrong("engine", "graph"));
    assert!(wrong("engine", "run") && wrong("engine", "Runner") && wrong("state", "node"));
    assert!(!wrong("agent", "State") && wrong("agent", "state") && wrong("agent", "Runner"));
    assert!(!wrong("cli", "Runner") && !wrong("cli", "store") && wrong("cli", "run"));
    assert!(wrong("cli", "plumbing"));
}
