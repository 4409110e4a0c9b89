//! `show`: what a thread did, where it stands, what it waits for, and its state.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::sync::Arc;

use serde_json::{Value, json};

use super::args::ShowArgs;
use super::exit::{Exit, Failure};
use super::in_use::meaning;
use super::inside::Inside;
use super::laid::{self, Layout, many};
use super::line::Line;
use super::list::{head, head_json};
use super::look::checkpoint;
use super::out::{cut, one_line};
use super::shell::Shell;
use super::when::{ago, date};
use super::{answer, cancel, json, path, unknown};
use crate::store::{
    CheckpointStore, Head, OutcomeRecord, OutcomeRef, Record, Status, Stored, StoredTask,
};
use crate::{RunError, Seq, ThreadId};

/// How many columns of a value a line shows where nothing else is known.
const WIDTH: usize = 120;
/// How many open tasks are listed.
const TASKS: usize = 12;

/// Shows a thread.
pub(super) async fn show(shell: &mut Shell, args: &ShowArgs) -> Result<Exit, Failure> {
    let thread = &args.thread;
    let sight = shell.sight()?;
    let in_use = sight.is_in_use();
    let store: Arc<dyn CheckpointStore> = Arc::new(sight);
    let mut head = head(shell, &*store, thread).await?;
    let newest = head.seq;
    let at = args.at.map(Seq::new);
    if let Some(at) = at {
        checkpoint(shell, &*store, thread, at).await?;
    }
    let (state, doubt) = state(shell, &store, thread, &head, at).await?;
    if let Some(field) = &args.field {
        return part(shell, args, &state, field);
    }
    let all = crate::history(&*store, thread).await?;
    if let Some(at) = at {
        // A checkpoint says all of this about itself.
        if let Some(known) = all.iter().find(|known| known.seq == at) {
            (head.seq, head.branch) = (known.seq, known.branch);
            (head.step, head.status) = (known.step.get(), known.status);
            head.updated_ms = known.at_ms;
        }
    }
    let line = Line::to(&all, head.seq, head.branch);
    let told = Told::read(&*store, thread, &head, at.is_some(), &line).await?;
    if at.is_some() {
        head.run = told.run.as_str().into();
    }
    let unfinished = head.status != Status::Finished;
    let resume = (unfinished && at.is_none()).then(|| shell.resume(thread));
    let open = match at {
        None => crate::questions(&*store, thread).await?,
        Some(_) => Vec::new(),
    };
    let known = shell.find(&head.graph);
    let answers: Vec<_> = open
        .iter()
        .map(|question| answer::how(shell, thread, &open, question, known.as_deref()))
        .collect();
    let mut value = head_json(thread, &head);
    if at.is_some() {
        // That sentence is about now.
        value["stands"] = Value::Null;
    } else {
        value["stands"] = json!(meaning(head.status, in_use));
    }
    let asked = match at {
        None => cancel::pending(&*store, thread, &head).await?,
        Some(_) => None,
    };
    value["asked"] = cancel::json_of(asked.as_ref());
    value["did"] = told.did_json();
    value["frontier"] = told.frontier_json();
    value["inside"] = told.inside.json(&open);
    value["error"] = told.error_json();
    value["state"] = state.clone();
    value["from_records"] = json!(doubt);
    value["resume"] = json!(resume);
    let questions = open.iter().zip(&answers);
    value["questions"] = questions
        .map(|(question, answer)| answer::question_json(question, answer))
        .collect();
    shell.out.value(&value);

    let name = one_line(thread.as_str());
    let graph = one_line(&head.graph);
    let (was, stands) = match at {
        Some(at) => (format!(", as it was at checkpoint {at}"), String::new()),
        None => (String::new(), format!(": {}", meaning(head.status, in_use))),
    };
    let next = match (&resume, at) {
        // Whoever has the store open keeps it until the end.
        (Some(_), _) if in_use && head.status == Status::Running => {
            format!("{} --follow", shell.on("events", thread))
        }
        _ if !answers.is_empty() => answers.join("\n        "),
        (Some(resume), _) => resume.clone(),
        (None, Some(at)) if at != newest => {
            format!("{} {at} {newest}", shell.on("diff", thread))
        }
        _ => shell.on("history", thread),
    };
    let width = shell.out.size().0;
    let out = &mut shell.out;
    out.say(format!("thread {name} of graph {graph}{was}"));
    out.say(format!("  run     {}", one_line(&head.run)));
    out.say(format!("  status  {}{stands}", head.status));
    let branch = match head.branch.get() {
        0 => String::new(),
        branch => format!(", branch {branch}"),
    };
    out.say(format!(
        "  at      superstep {}, checkpoint {}{branch}, {} ({})",
        head.step,
        head.seq,
        date(head.updated_ms),
        ago(head.updated_ms)
    ));
    out.say(format!(
        "  did     {}",
        cut(&told.did(head.step), width.max(40) - 10)
    ));
    if let Some(asked) = &asked {
        out.say(format!("  asked   {}", cancel::text_of(asked)));
    }
    match &told.error {
        Some((class, reason)) if class == "cancelled" => out.say(format!("  reason  {reason}")),
        Some((class, message)) => out.say(format!("  error   ({class}) {message}")),
        None => {}
    }
    for line in told.open(args.full, width) {
        out.say(line);
    }
    let inside = told.inside.lines(&open);
    let shown = if args.full {
        inside.len()
    } else {
        TASKS.min(inside.len())
    };
    for line in &inside[..shown] {
        out.say(cut(line, width.max(40)));
    }
    if inside.len() > shown {
        out.say(format!("          and {} more", inside.len() - shown));
    }
    for question in &open {
        out.say(format!("  waits   {}", answer::asked(question)));
    }
    out.say(format!("  next: {next}"));
    out.say("  state");
    if let Some(doubt) = &doubt {
        out.say(format!("    as far as its records tell: {doubt}"));
    }
    let layout = Layout {
        width,
        full: args.full,
    };
    for (field, value) in state.as_object().into_iter().flatten() {
        for line in layout.of(field, value, 4) {
            out.say(line);
        }
    }
    Ok(Exit::Done)
}

/// The state of a thread, and why it is told by its records alone, where it is.
async fn state(
    shell: &Shell,
    store: &Arc<dyn CheckpointStore>,
    thread: &ThreadId,
    head: &Head,
    at: Option<Seq>,
) -> Result<(Value, Option<String>), Failure> {
    if let Some(at) = at {
        let known = shell.graph(&head.graph)?;
        let state = known.state_at(Arc::clone(store), thread, at).await;
        let state = state.map_err(|error| {
            let failure = Failure::from(error);
            match failure.exit {
                Exit::Corrupt | Exit::Busy => failure,
                _ => failure.next(shell.on("history", thread)),
            }
        });
        return Ok((state?, None));
    }
    let doubt = match shell.find(&head.graph) {
        Some(known) => match known.state(Arc::clone(store), thread).await {
            Ok(state) => return Ok((state, None)),
            Err(RunError::Store(error)) => return Err(error.into()),
            // A thread of another version of the graph can still be looked at.
            Err(error) => error.to_string(),
        },
        None => format!("this program has no graph \"{}\"", head.graph),
    };
    let state = unknown::fields(&**store, thread, head).await?;
    Ok((state, Some(doubt)))
}

/// Shows a part of the state and nothing else: a text as it is, anything else as JSON.
fn part(shell: &mut Shell, args: &ShowArgs, state: &Value, field: &str) -> Result<Exit, Failure> {
    let part = path::part(state, field).map_err(|what| {
        Failure::usage(format!("thread {}: {what}", args.thread))
            .next(shell.on("show", &args.thread))
    })?;
    let text = match part {
        Value::String(text) => text.clone(),
        part if args.full => format!("{part:#}"),
        part => part.to_string(),
    };
    if shell.out.is_json() {
        shell.out.value(part);
    } else if io::stdout().is_terminal() {
        shell.out.say(text);
    } else {
        // A program gets every character as it is.
        shell.out.raw(&text);
    }
    Ok(Exit::Done)
}

/// A value on one line, with how much there is where it is cut.
pub(super) fn brief(value: &Value) -> String {
    laid::brief(value, WIDTH)
}

/// What the records of a thread tell: what it did, and its open superstep.
#[derive(Debug, Default)]
struct Told {
    run: String,
    /// How many tasks of each node have finished, in the order in which they first did.
    did: Vec<(String, u64)>,
    supersteps: u64,
    inputs: u64,
    resumes: u64,
    failures: u64,
    /// What is to run, and whether it is done.
    tasks: Vec<(StoredTask, bool)>,
    /// What is open inside of them.
    inside: Inside,
    error: Option<(String, String)>,
}

impl Told {
    /// Reads the records of a thread; of one that is looked back at, those up to its checkpoint.
    async fn read(
        store: &dyn CheckpointStore,
        thread: &ThreadId,
        head: &Head,
        back: bool,
        line: &Line,
    ) -> Result<Self, Failure> {
        let mut told = Self::default();
        let mut from = Seq::new(1);
        loop {
            let page = store.records(thread, from, 256).await?;
            let Some(last) = page.last() else {
                return Ok(told);
            };
            from = last.seq.next();
            for stored in &page {
                if back && stored.seq > head.seq {
                    return Ok(told);
                }
                if line.has(stored.branch, stored.seq) {
                    told.add(stored, head);
                }
            }
        }
    }

    fn add(&mut self, stored: &Stored, head: &Head) {
        match &*stored.record {
            Record::Input(input) => {
                self.inputs += 1;
                self.run.clone_from(&input.run);
                self.error = None;
                if stored.seq == head.seq {
                    self.frontier(&input.frontier);
                }
            }
            Record::Commit(commit) => {
                self.supersteps += 1;
                for outcome in &commit.outcomes {
                    if let OutcomeRef::Inline(outcome) = outcome {
                        self.finished(outcome);
                    }
                }
                if stored.seq == head.seq {
                    self.frontier(&commit.frontier);
                }
            }
            Record::Outcome(outcome) => {
                self.finished(outcome);
                if stored.seq > head.seq && outcome.step == head.step + 1 {
                    let found = self
                        .tasks
                        .iter_mut()
                        .find(|(task, _)| task.node == outcome.node && task.index == outcome.index);
                    if let Some((_, done)) = found {
                        *done = true;
                    }
                    self.inside.ended(outcome);
                }
            }
            Record::Stopped(stopped) => {
                self.failures += stopped.failed.len() as u64;
                let error = stopped.error.as_ref();
                self.error = error.map(|error| (error.class.clone(), error.message.clone()));
            }
            Record::Inner(inner) if stored.seq > head.seq => self.inside.add(inner),
            // Taken up again: what stopped it before is history.
            Record::Started(_) => {
                self.resumes += 1;
                self.error = None;
            }
            _ => {}
        }
    }

    fn finished(&mut self, outcome: &OutcomeRecord) {
        match self.did.iter_mut().find(|(node, _)| *node == outcome.node) {
            Some((_, count)) => *count += 1,
            None => self.did.push((outcome.node.to_string(), 1)),
        }
    }

    fn frontier(&mut self, tasks: &[StoredTask]) {
        self.tasks = tasks.iter().map(|task| (task.clone(), false)).collect();
    }

    /// What it did, on one line.
    fn did(&self, step: u64) -> String {
        let nodes = self.did.iter().map(|(node, count)| match count {
            1 => one_line(node),
            n => format!("{} ×{n}", one_line(node)),
        });
        let nodes: Vec<_> = nodes.collect();
        let mut did = match nodes.as_slice() {
            [] => "nothing yet".to_owned(),
            nodes => nodes.join(", "),
        };
        let counts = [
            (self.inputs.saturating_sub(1), "earlier run", "earlier runs"),
            (self.resumes, "resume", "resumes"),
            (self.failures, "failed task", "failed tasks"),
        ];
        for (count, one, more) in counts {
            if count > 0 {
                let count = usize::try_from(count).unwrap_or(usize::MAX);
                did.push_str(&format!("; {}", many(count, one, more)));
            }
        }
        if self.supersteps < step {
            did.push_str("; older supersteps are pruned and not counted");
        }
        did
    }

    /// What is to run and what of it is done, a line each.
    fn open(&self, full: bool, width: usize) -> Vec<String> {
        let shown = match full {
            true => self.tasks.len(),
            false => TASKS.min(self.tasks.len()),
        };
        let (listed, rest) = self.tasks.split_at(shown);
        let mut of_node = BTreeMap::<&str, u32>::new();
        for (task, _) in &self.tasks {
            *of_node.entry(&task.node).or_default() += 1;
        }
        let line = |(task, done): &(StoredTask, bool)| {
            let payload = task.payload.as_ref().map(|bytes| json::value(1, bytes));
            let payload = payload.map(|payload| format!("  {}", laid::brief(&payload, width / 2)));
            let index = match of_node.get(&*task.node) {
                Some(1) => String::new(),
                _ => format!("[{}]", task.index),
            };
            format!(
                "  {}  {}{index}{}",
                if *done { "done  " } else { "to run" },
                one_line(&task.node),
                payload.unwrap_or_default()
            )
        };
        let mut lines: Vec<_> = listed.iter().map(line).collect();
        if !rest.is_empty() {
            let open = rest.iter().filter(|(_, done)| !done).count();
            let more = rest.len();
            lines.push(format!("          and {more} more, {open} of them to run"));
        }
        lines
    }

    fn did_json(&self) -> Value {
        let nodes = self.did.iter();
        let nodes: Vec<_> = nodes
            .map(|(node, tasks)| json!({"node": node, "tasks": tasks}))
            .collect();
        json!({"tasks": nodes, "resumes": self.resumes, "failures": self.failures})
    }

    fn frontier_json(&self) -> Value {
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
