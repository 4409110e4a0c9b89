//! A place in a state, as it is typed: `notes[3].title`, or as a JSON pointer: `/notes/3/title`.
//!
//! In come a path and a value, out goes the part of the value that it names, or a sentence that
//! says how far the path leads and what is there.

use std::cmp::Reverse;

use serde_json::Value;

use super::laid::many;

/// How many names a refusal lists.
const NAMED: usize = 30;

/// The part of a state that a path names.
pub(super) fn part<'v>(state: &'v Value, path: &str) -> Result<&'v Value, String> {
    let mut at = state;
    let mut so_far = String::new();
    for step in steps(path)? {
        let next = match at {
            Value::Object(entries) => entries.get(&step),
            Value::Array(items) => step.parse().ok().and_then(|n: usize| items.get(n)),
            _ => None,
        };
        at = next.ok_or_else(|| missing(at, &so_far, &step))?;
        so_far = if so_far.is_empty() {
            step
        } else if at_number(&step) {
            format!("{so_far}[{step}]")
        } else {
            format!("{so_far}.{step}")
        };
    }
    Ok(at)
}

fn at_number(step: &str) -> bool {
    step.bytes().all(|byte| byte.is_ascii_digit())
}

fn steps(path: &str) -> Result<Vec<String>, String> {
    if let Some(pointer) = path.strip_prefix('/') {
        let step = |step: &str| step.replace("~1", "/").replace("~0", "~");
        return Ok(pointer.split('/').map(step).collect());
    }
    let mut steps = Vec::new();
    for name in path.split('.') {
        let (name, mut rest) = name.split_at(name.find('[').unwrap_or(name.len()));
        if !name.is_empty() {
            steps.push(name.to_owned());
        }
        let whole = !name.is_empty() || !rest.is_empty();
        while let Some((index, more)) = rest.strip_prefix('[').and_then(|in_| in_.split_once(']')) {
            steps.push(index.to_owned());
            rest = more;
        }
        if !whole || !rest.is_empty() {
            return Err(format!(
                "\"{path}\" is no path: write name, list[3], list[3].name, or /list/3/name"
            ));
        }
    }
    Ok(steps)
}

/// Why a step leads nowhere.
fn missing(at: &Value, so_far: &str, step: &str) -> String {
    let whole = so_far.is_empty();
    match at {
        Value::Object(entries) => {
            let names: Vec<_> = entries.keys().map(String::as_str).collect();
            let meant = nearest(step, &names);
            let meant = meant.map_or(String::new(), |name| format!("did you mean \"{name}\"? "));
            let more = match names.len().saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let listed = names[..names.len().min(NAMED)].join(", ");
            let listed = match names.as_slice() {
                [] => "it is empty".to_owned(),
                _ => format!("it has {listed}{more}"),
            };
            let whose = if whole { "the state" } else { so_far };
            format!("{whose} has no field \"{step}\": {meant}{listed}")
        }
        Value::Array(items) if items.is_empty() => format!("{so_far} is an empty list"),
        Value::Array(items) => format!(
            "{so_far} has {}, the last is {}; there is no \"{step}\"",
            many(items.len(), "item", "items"),
            items.len() - 1
        ),
        _ => format!("there is nothing in {so_far}, so no \"{step}\""),
    }
}

/// The name that was most likely meant, if one is near enough.
fn nearest<'n>(typed: &str, names: &[&'n str]) -> Option<&'n str> {
    let same = |name: &str| {
        let pairs = typed.chars().zip(name.chars());
        pairs.take_while(|(typed, named)| typed == named).count()
    };
    let near = names.iter().map(|name| (distance(typed, name), *name));
    // Of names that are as near, the one that begins alike.
    let (away, name) = near.min_by_key(|(away, name)| (*away, Reverse(same(name))))?;
    (away <= 1 + typed.chars().count() / 4).then_some(name)
}

/// How many letters must be added, dropped or changed to come from one word to another.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (line, letter) in from.chars().enumerate() {
        let mut corner = row[0];
        row[0] = line + 1;
        for (column, other) in to.iter().enumerate() {
            let changed = corner + usize::from(letter != *other);
            corner = row[column + 1];
            row[column + 1] = changed.min(corner + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_leads_through_names_and_numbers() {
        let state = json!({"notes": [[], {"title": "x", "a.b": 1, "c/d": 2}], "n": 1});
        for (path, found) in [
            ("n", json!(1)),
            ("notes[1].title", json!("x")),
            ("notes.1.title", json!("x")),
            ("/notes/1/title", json!("x")),
            ("/notes/1/a.b", json!(1)),
            ("/notes/1/c~1d", json!(2)),
            ("notes[0]", json!([])),
        ] {
            assert_eq!(part(&state, path), Ok(&found), "{path}");
        }
    }

    #[test]
    fn a_path_that_leads_nowhere_is_told_how_far_it_leads() {
        let state = json!({"notes": [{"title": "x"}], "n": 1, "none": []});
        for (path, why) in [
            (
                "notse",
                "has no field \"notse\": did you mean \"notes\"? it has n, none, notes",
            ),
            ("zzzzzz", "the state has no field \"zzzzzz\": it has n"),
            (
                "notes[0].titel",
                "notes[0] has no field \"titel\": did you mean \"title\"?",
            ),
            (
                "notes[1]",
                "notes has 1 item, the last is 0; there is no \"1\"",
            ),
            ("notes.title", "notes has 1 item"),
            ("none[0]", "none is an empty list"),
            ("n.x", "there is nothing in n"),
            ("", "is no path"),
            ("a..b", "is no path"),
            ("a[0", "is no path"),
            ("a[0]b", "is no path"),
        ] {
            let told = part(&state, path).expect_err(path);
            assert!(told.contains(why), "{path}: {told}");
        }
    }
}
