//! `diff`: the fields that differ between two checkpoints of a thread.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::args::DiffArgs;
use super::exit::{Exit, Failure};
use super::list::head;
use super::look::checkpoint;
use super::out::one_line;
use super::shell::Shell;
use super::show::brief;
use crate::{RunError, Seq};

/// How many new items of a list are shown.
const ITEMS: usize = 20;

/// Shows what differs.
pub(super) async fn diff(shell: &mut Shell, args: &DiffArgs) -> Result<Exit, Failure> {
    let DiffArgs { thread, from, to } = args;
    let store = shell.look()?;
    let head = head(shell, &*store, thread).await?;
    let known = shell.graph(&head.graph)?;
    let mut states = Vec::new();
    for at in [*from, *to].map(Seq::new) {
        checkpoint(shell, &*store, thread, at).await?;
        let state = known.state_at(Arc::clone(&store), thread, at).await;
        states.push(state.map_err(|error| unreadable(shell, args, at, error))?);
    }
    let changes = changes(&states[0], &states[1]);
    let fields: Map<_, _> = changes
        .iter()
        .map(|(field, change)| (field.clone(), change.json()))
        .collect();
    shell.out.value(&json!({
        "thread": thread.as_str(),
        "from": from,
        "to": to,
        "fields": fields,
    }));
    let name = one_line(thread.as_str());
    shell
        .out
        .say(format!("thread {name}, checkpoint {from} → {to}"));
    if changes.is_empty() {
        shell.out.say("  no field differs");
    }
    for (field, change) in &changes {
        shell.out.say(format!("  {field}: {}", change.text()));
    }
    Ok(Exit::Done)
}

/// A checkpoint that is listed but cannot be read: of another version of the graph, or one of which
/// a prune has kept the record alone.
fn unreadable(shell: &Shell, args: &DiffArgs, at: Seq, error: RunError) -> Failure {
    let failure = Failure::from(error);
    let what = format!(
        "the state at checkpoint {at} cannot be read: {}",
        failure.what
    );
    match failure.exit {
        Exit::Corrupt | Exit::Busy => Failure { what, ..failure },
        exit => Failure::new(exit, what).next(shell.on("history", &args.thread)),
    }
}

/// How a field differs.
#[derive(Debug, PartialEq)]
enum Change<'v> {
    /// Items were added at the end of a list, and nothing else.
    Added(&'v [Value]),
    /// It has another value.
    Other(&'v Value, &'v Value),
}

impl Change<'_> {
    fn text(&self) -> String {
        match self {
            Change::Added(items) => {
                let shown = items.iter().take(ITEMS);
                let shown: String = shown
                    .map(|item| format!("\n    + {}", brief(item)))
                    .collect();
                let rest = match items.len().saturating_sub(ITEMS) {
                    0 => String::new(),
                    rest => format!("\n    … and {rest} more, which --json lists"),
                };
                format!("{} more{shown}{rest}", items.len())
            }
            Change::Other(before, after) => format!("{} → {}", brief(before), brief(after)),
        }
    }

    fn json(&self) -> Value {
        match self {
            Change::Added(items) => json!({"added": items}),
            Change::Other(before, after) => json!({"before": before, "after": after}),
        }
    }
}

/// The fields that differ, in the order of the states.
fn changes<'v>(before: &'v Value, after: &'v Value) -> Vec<(String, Change<'v>)> {
    let fields = after.as_object().into_iter().flatten();
    let changes = fields.filter_map(|(field, after)| {
        let before = before.get(field).unwrap_or(&Value::Null);
        (before != after).then(|| {
            let change = match (before, after) {
                (Value::Array(old), Value::Array(new)) if new.starts_with(old) => {
                    Change::Added(&new[old.len()..])
                }
                _ => Change::Other(before, after),
            };
            (field.clone(), change)
        })
    });
    changes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_grew_is_told_by_its_new_items_and_the_rest_by_both_values() {
        let before = json!({"a": [1], "b": [1, 2], "c": 1, "d": "same"});
        let after = json!({"a": [1, 2, 3], "b": [2], "c": null, "d": "same"});
        let found = changes(&before, &after);
        let told: Vec<_> = found
            .iter()
            .map(|(field, change)| format!("{field}: {}", change.text()))
            .collect();
        assert_eq!(
            told,
            [
                "a: 2 more\n    + 2\n    + 3",
                "b: [1,2] → [2]",
                "c: 1 → null"
            ]
        );
        assert_eq!(found[0].1.json(), json!({"added": [2, 3]}));
        assert!(changes(&after, &after).is_empty());
        let many: Vec<_> = (0..100_000).map(Value::from).collect();
        let text = Change::Added(&many).text();
        assert_eq!(text.lines().count(), 22);
        assert!(
            text.ends_with("… and 99980 more, which --json lists"),
            "{text}"
        );
    }
}
