//! `show`: where a thread stands, what is left to run, and its state.

use std::sync::Arc;

use serde_json::{Value, json};

use super::exit::{Exit, Failure, stands};
use super::list::{head, head_json};
use super::out::{cut, one_line};
use super::shell::Shell;
use super::{json, unknown};
use crate::store::{CheckpointStore, Head, OutcomeRecord, Record, Status, StoredTask};
use crate::{RunError, Seq, ThreadId};

/// How many characters of a value a line shows.
const WIDTH: usize = 120;

/// Shows a thread.
pub(super) async fn show(shell: &mut Shell, thread: &ThreadId) -> Result<Exit, Failure> {
    let store = shell.look()?;
    let head = head(shell, &*store, thread).await?;
    let open = Open::read(&*store, thread, &head).await?;
    let (state, doubt) = match shell.find(&head.graph) {
        Some(known) => match known.state(Arc::clone(&store), thread).await {
            Ok(state) => (state, None),
            Err(RunError::Store(error)) => return Err(error.into()),
            // A thread of another version of the graph can still be looked at.
            Err(error) => (
                unknown::fields(&*store, thread, &head).await?,
                Some(error.to_string()),
            ),
        },
        None => (
            unknown::fields(&*store, thread, &head).await?,
            Some(format!("this program has no graph \"{}\"", head.graph)),
        ),
    };
    let resume = (head.status != Status::Finished).then(|| shell.resume(thread));
    let mut value = head_json(thread, &head);
    value["frontier"] = open.json();
    value["error"] = open.error_json();
    value["state"] = state.clone();
    value["from_records"] = json!(doubt);
    value["resume"] = json!(resume);
    shell.out.value(&value);
    let out = &mut shell.out;
    out.say(format!(
        "thread {} of graph {}",
        one_line(thread.as_str()),
        one_line(&head.graph)
    ));
    out.say(format!("  run     {}", one_line(&head.run)));
    out.say(format!(
        "  status  {}: {}",
        head.status,
        stands(head.status)
    ));
    out.say(format!(
        "  at      superstep {}, checkpoint {}",
        head.step, head.seq
    ));
    if let Some((class, message)) = &open.error {
        out.say(format!("  error   ({class}) {message}"));
    }
    for (task, done) in &open.tasks {
        let payload = task.payload.as_ref().map(|bytes| json::value(1, bytes));
        let payload = payload.map(|payload| format!("  {}", cut(&payload.to_string(), WIDTH / 2)));
        out.say(format!(
            "  {}  {}[{}]{}",
            if *done { "done  " } else { "to run" },
            task.node,
            task.index,
            payload.unwrap_or_default()
        ));
    }
    out.say("  state");
    if let Some(doubt) = &doubt {
        out.say(format!("    as far as its records tell: {doubt}"));
    }
    for (field, value) in state.as_object().into_iter().flatten() {
        out.say(format!("    {field}: {}", brief(value)));
    }
    if let Some(resume) = resume {
        out.say(format!("  next: {resume}"));
    }
    Ok(Exit::Done)
}

/// A value on one line, with how much there is where it is cut.
pub(super) fn brief(value: &Value) -> String {
    let text = value.to_string();
    let short = cut(&text, WIDTH);
    match value {
        _ if short == text => text,
        Value::Array(items) => format!("{short} ({} items)", items.len()),
        Value::Object(entries) => format!("{short} ({} entries)", entries.len()),
        _ => format!("{short} ({} bytes)", text.len()),
    }
}

/// The open superstep: what is to run, and what of it is done.
#[derive(Debug, Default)]
struct Open {
    tasks: Vec<(StoredTask, bool)>,
    error: Option<(String, String)>,
}

impl Open {
    async fn read(
        store: &dyn CheckpointStore,
        thread: &ThreadId,
        head: &Head,
    ) -> Result<Self, Failure> {
        let mut open = Self::default();
        let mut from = head.seq;
        loop {
            let page = store.records(thread, from, 256).await?;
            let Some(last) = page.last() else {
                return Ok(open);
            };
            from = last.seq.next();
            for stored in &page {
                open.add(stored.seq, &stored.record, head);
            }
        }
    }

    fn add(&mut self, seq: Seq, record: &Record, head: &Head) {
        match record {
            Record::Input(input) if seq == head.seq => self.frontier(&input.frontier),
            Record::Commit(commit) if seq == head.seq => self.frontier(&commit.frontier),
            Record::Outcome(OutcomeRecord {
                step, node, index, ..
            }) if *step == head.step + 1 => {
                let found = self
                    .tasks
                    .iter_mut()
                    .find(|(task, _)| task.node == *node && task.index == *index);
                if let Some((_, done)) = found {
                    *done = true;
                }
            }
            Record::Stopped(stopped) => {
                let error = stopped.error.as_ref();
                self.error = error.map(|error| (error.class.clone(), error.message.clone()));
            }
            // Taken up again: what stopped it before is history.
            Record::Started(_) => self.error = None,
            _ => {}
        }
    }

    fn frontier(&mut self, tasks: &[StoredTask]) {
        self.tasks = tasks.iter().map(|task| (task.clone(), false)).collect();
    }

    fn json(&self) -> Value {
        let tasks = self.tasks.iter().map(|(task, done)| {
            json!({
                "node": task.node,
                "index": task.index,
                "payload": task.payload.as_ref().map(|bytes| json::value(1, bytes)),
                "done": done,
            })
        });
        Value::Array(tasks.collect())
    }

    fn error_json(&self) -> Value {
        let error = self.error.as_ref();
        json!(error.map(|(class, message)| json!({"class": class, "message": message})))
    }
}
