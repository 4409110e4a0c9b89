//! What a terminal shows of a run while it runs: where it stands, and who works on what.
//!
//! In come events, out go the lines of the live region. What has ended is no part of it: that
//! scrolls by as the lines of any other run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use unicode_width::UnicodeWidthStr;

use super::json;
use super::lines::inwards;
use super::out::{cut, one_line, shown};
use crate::{Event, EventKind, GraphView, Point, TaskPath};

/// The region is drawn at most so often.
pub(super) const FRAME: Duration = Duration::from_millis(100);
/// What a run does that was asked to stop once.
pub(super) const STOPPING: &str =
    "stopping when the running nodes are done; once more to stop at once";
/// How many bytes of a stream of text are kept: more than a row is wide.
const TAIL: usize = 1024;

const PLAIN: &str = "";
const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
/// Trouble that has a word for it, too.
const YELLOW: &str = "\x1b[33m";
const RESET: &str = "\x1b[0m";

/// A run as it stands.
#[derive(Debug)]
pub(super) struct LiveView {
    began: Instant,
    /// Where each node can lead.
    leads: BTreeMap<String, Vec<String>>,
    step: u64,
    /// What may follow this superstep.
    then: Vec<String>,
    tasks: usize,
    done: usize,
    retries: u64,
    failures: u64,
    running: BTreeMap<TaskPath, Running>,
    stopping: bool,
}

/// A task that runs.
#[derive(Debug)]
struct Running {
    since: Instant,
    attempt: u32,
    /// The last event of its own.
    note: Option<String>,
    /// How many pieces of text came, and the end of that text.
    pieces: u64,
    text: String,
}

impl LiveView {
    pub(super) fn new(graph: &GraphView, now: Instant) -> Self {
        let mut leads = BTreeMap::<_, Vec<_>>::new();
        for edge in &graph.edges {
            let name = |place: usize| graph.nodes[place].name.to_string();
            let to = match edge.to {
                Point::Node(place) => name(place),
                Point::Join(place) => graph.joins[place].name.to_string(),
                _ => "end".to_owned(),
            };
            if let Point::Node(from) = edge.from {
                let known = leads.entry(name(from)).or_default();
                if !known.contains(&to) {
                    known.push(to);
                }
            }
        }
        Self {
            began: now,
            leads,
            step: 0,
            then: Vec::new(),
            tasks: 0,
            done: 0,
            retries: 0,
            failures: 0,
            running: BTreeMap::new(),
            stopping: false,
        }
    }

    /// Takes in what happened.
    pub(super) fn hear(&mut self, event: &Event, now: Instant) {
        let is_inside = event.within.is_some();
        match &event.kind {
            // For this graph, what a subgraph does is one task.
            EventKind::SuperstepStarted { .. } if is_inside => {}
            EventKind::SuperstepStarted { step, tasks } => {
                self.step = step.get();
                (self.tasks, self.done) = (tasks.len(), 0);
                self.running.clear();
                let nodes: BTreeSet<_> = tasks.iter().map(|task| &task.task().node).collect();
                let mut then = Vec::new();
                for to in nodes
                    .iter()
                    .filter_map(|node| self.leads.get(node.as_str()))
                {
                    for to in to {
                        if !then.contains(to) {
                            then.push(to.clone());
                        }
                    }
                }
                self.then = then;
            }
            EventKind::TaskStarted { task, attempt } => {
                self.retries += u64::from(*attempt > 1);
                self.end(task);
                let running = self.running(task, now);
                running.attempt = *attempt;
                // What another try has said is not what this one says.
                (running.note, running.pieces) = (None, 0);
                running.text.clear();
            }
            EventKind::Token { task, text } => {
                let running = self.running(task, now);
                running.pieces += 1;
                running.text.push_str(text);
                let mut from = running.text.len().saturating_sub(TAIL);
                while !running.text.is_char_boundary(from) {
                    from += 1;
                }
                running.text.drain(..from);
            }
            EventKind::Custom { task, name, value } => {
                let note = format!("{name}: {}", json::value(1, value));
                self.running(task, now).note = Some(note);
            }
            EventKind::Asked { id, .. } => {
                let running = self.running(id.task(), now);
                running.note = Some(format!("asks {}", id.key()));
            }
            EventKind::TaskFinished {
                task, tolerated, ..
            } => {
                self.end(task);
                self.done += usize::from(!is_inside);
                self.failures += u64::from(tolerated.is_some());
            }
            EventKind::TaskFailed { task, exit, .. } => {
                self.end(task);
                self.done += usize::from(!is_inside && exit.is_some());
                // Inside, one that is not handled is a failure of the task around it, too.
                self.failures += u64::from(!is_inside || exit.is_some());
            }
            // These begin or close what the others tell of.
            _ => {}
        }
    }

    /// The run was asked to stop.
    pub(super) fn stop(&mut self) {
        self.stopping = true;
    }

    /// A task has ended, and with it what ran inside of it.
    fn end(&mut self, task: &TaskPath) {
        let ended = |path: &TaskPath| path.levels().starts_with(task.levels());
        // Paths that begin with another stand right behind it.
        let paths = self.running.range(task..).map(|(path, _)| path.clone());
        let paths: Vec<_> = paths.take_while(ended).collect();
        for path in paths {
            self.running.remove(&path);
        }
    }

    /// The tasks that have a line: one whose graph runs gives its place to the tasks inside.
    fn innermost(&self) -> impl Iterator<Item = (&TaskPath, &Running)> {
        let next = self.running.keys().skip(1).map(Some).chain([None]);
        let all = self.running.iter().zip(next);
        let is_around = |task: &TaskPath, next: Option<&TaskPath>| {
            next.is_some_and(|next| next.levels().starts_with(task.levels()))
        };
        all.filter_map(move |(one, next)| (!is_around(one.0, next)).then_some(one))
    }

    fn running(&mut self, task: &TaskPath, now: Instant) -> &mut Running {
        self.running.entry(task.clone()).or_insert(Running {
            since: now,
            attempt: 1,
            note: None,
            pieces: 0,
            text: String::new(),
        })
    }

    /// The lines of the region, for a terminal of so many columns and rows. None of them fills its
    /// row, and together they leave half of the rows to what scrolls by.
    pub(super) fn lines(&self, (columns, rows): (usize, usize), now: Instant) -> Vec<String> {
        let width = columns.saturating_sub(1);
        let mut lines = vec![line(&self.position(now), width)];
        if self.stopping {
            lines.push(line(&[(YELLOW, STOPPING.to_owned())], width));
        }
        let fit = (rows / 2).max(3).saturating_sub(lines.len()).max(1);
        let all = self.innermost().count();
        let named = if all <= fit { all } else { fit - 1 };
        let shown: Vec<_> = self
            .innermost()
            .take(named)
            .map(|(task, running)| {
                let name = shown(&one_line(&inwards(task)));
                (cut(&name, width / 2), time(now - running.since), running)
            })
            .collect();
        let wide = |texts: &mut dyn Iterator<Item = &String>| texts.map(|text| text.width()).max();
        let names = wide(&mut shown.iter().map(|(name, ..)| name)).unwrap_or(0);
        let times = wide(&mut shown.iter().map(|(_, time, _)| time)).unwrap_or(0);
        for (name, time, running) in &shown {
            let pad = " ".repeat(names - name.width());
            let mut parts = vec![(PLAIN, format!("  {name}{pad}  {time:>times$}"))];
            if running.attempt > 1 {
                parts.push((YELLOW, format!("  try {}", running.attempt)));
            }
            let said: usize = parts.iter().map(|(_, text)| text.width()).sum();
            parts.push((DIM, running.says(width.saturating_sub(said))));
            lines.push(line(&parts, width));
        }
        match (all - named, named) {
            (0, _) => {}
            (more, 0) => lines.push(line(&[(DIM, format!("  {more} run"))], width)),
            (more, _) => lines.push(line(&[(DIM, format!("  and {more} more"))], width)),
        }
        lines
    }

    /// Where the run stands, what matters most first.
    fn position(&self, now: Instant) -> Vec<(&'static str, String)> {
        let time = time(now - self.began);
        if self.step == 0 {
            return vec![(BOLD, "starting".to_owned()), (PLAIN, format!(", {time}"))];
        }
        let mut parts = vec![
            (BOLD, format!("superstep {}", self.step)),
            (PLAIN, format!(": {} of {} done", self.done, self.tasks)),
        ];
        let running = self.running.keys().filter(|task| task.outer().is_none());
        let open = (self.tasks - self.done.min(self.tasks)).saturating_sub(running.count());
        if open > 0 {
            parts.push((PLAIN, format!(", {open} wait")));
        }
        parts.push((PLAIN, format!(", {time}")));
        for (count, one, many) in [
            (self.retries, "retry", "retries"),
            (self.failures, "failure", "failures"),
        ] {
            match count {
                0 => {}
                1 => parts.push((YELLOW, format!(", 1 {one}"))),
                n => parts.push((YELLOW, format!(", {n} {many}"))),
            }
        }
        if !self.then.is_empty() {
            let then = shown(&one_line(&self.then.join(" or ")));
            parts.push((DIM, format!(", then {then}")));
        }
        parts
    }
}

impl Running {
    /// What the task says, in so many columns: its last event, or the end of its text.
    fn says(&self, width: usize) -> String {
        if self.pieces == 0 {
            let note = self.note.as_ref();
            return note.map_or_else(String::new, |note| format!("  {}", shown(&one_line(note))));
        }
        let pieces = match self.pieces {
            1 => "  1 token".to_owned(),
            n => format!("  {n} tokens"),
        };
        let words: Vec<_> = self.text.split_whitespace().collect();
        let text = shown(&words.join(" "));
        let left = width.saturating_sub(pieces.width() + 2);
        format!("{pieces}  {}", tail(&text, left))
    }
}

/// The end of a text, in so many columns.
fn tail(text: &str, width: usize) -> &str {
    let mut from = text.len();
    for (at, _) in text.char_indices().rev() {
        if text[at..].width() > width {
            break;
        }
        from = at;
    }
    &text[from..]
}

/// Parts of a line, each in its style, cut to a width.
fn line(parts: &[(&str, String)], width: usize) -> String {
    let mut line = String::new();
    let mut left = width;
    for (style, text) in parts.iter().filter(|(_, text)| !text.is_empty()) {
        let fits = text.width() <= left;
        let text = cut(text, left);
        match *style {
            PLAIN => line.push_str(&text),
            style => line.extend([style, &text, RESET]),
        }
        if !fits {
            break;
        }
        left -= text.width();
    }
    line
}

/// A time in whole seconds.
fn time(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        EdgeView, Epoch, ErrorText, FieldView, NodeKind, NodeName, NodeView, Policy, Step,
    };

    fn graph() -> GraphView {
        let node = |name: &str| NodeView {
            name: NodeName::new(name).expect("a name"),
            kind: NodeKind::default(),
            exits: Vec::new(),
            payload: None,
            payload_shape: None,
            cache: None,
            asks: None,
            reads: None,
            writes: None,
            inner: None,
            policy: Policy::default(),
        };
        let edge = |from, to| EdgeView {
            from: Point::Node(from),
            to,
            label: "",
            conditional: false,
            payload: None,
            when_empty: false,
            on_error: false,
        };
        GraphView {
            doc: "",
            versions: vec![1],
            name: "graph".to_owned(),
            state: "State",
            joins: Vec::new(),
            nodes: vec![node("read"), node("sum \u{1b}[2J")],
            edges: vec![edge(0, Point::Node(1)), edge(0, Point::End)],
            fields: Vec::<FieldView>::new(),
        }
    }

    fn task(index: u32) -> TaskPath {
        TaskPath::new(Step::new(3), NodeName::new("read").expect("a name"), index)
    }

    /// A superstep of so many tasks, all of which run.
    fn view(tasks: u32, now: Instant) -> LiveView {
        let mut view = LiveView::new(&graph(), now);
        let all: Vec<_> = (0..tasks).map(task).collect();
        let step = Step::new(3);
        hear(
            &mut view,
            now,
            EventKind::SuperstepStarted { step, tasks: all },
        );
        for index in 0..tasks {
            let (task, attempt) = (task(index), 1);
            hear(&mut view, now, EventKind::TaskStarted { task, attempt });
        }
        view
    }

    fn hear(view: &mut LiveView, now: Instant, kind: EventKind) {
        let event = Event {
            within: None,
            epoch: Epoch::new(1),
            seq: None,
            kind,
        };
        view.hear(&event, now);
    }

    /// The lines without their styles.
    fn plain(lines: &[String]) -> Vec<String> {
        let styles = [BOLD, DIM, YELLOW, RESET];
        let plain = |line: &String| styles.iter().fold(line.clone(), |l, s| l.replace(s, ""));
        lines.iter().map(plain).collect()
    }

    #[test]
    fn a_view_tells_where_the_run_stands_and_who_works_on_what() {
        let begin = Instant::now();
        let mut view = view(3, begin);
        hear(
            &mut view,
            begin,
            EventKind::TaskStarted {
                task: task(1),
                attempt: 2,
            },
        );
        let value = vec![0xa3, b'1', b'/', b'2'];
        let name = "page".to_owned();
        hear(
            &mut view,
            begin,
            EventKind::Custom {
                task: task(1),
                name,
                value,
            },
        );
        for text in ["The ", "bakery\n", "is open"] {
            let text = text.to_owned();
            hear(
                &mut view,
                begin,
                EventKind::Token {
                    task: task(2),
                    text,
                },
            );
        }
        let finished = EventKind::TaskFinished {
            task: task(0),
            attempts: 1,
            micros: 1,
            tries: Vec::new(),
            exit: None,
            tolerated: Some(ErrorText {
                class: "permanent".to_owned(),
                message: "no".to_owned(),
            }),
            update: Vec::new(),
        };
        hear(&mut view, begin, finished);
        let lines = view.lines((100, 24), begin + Duration::from_secs(65));
        assert_eq!(
            plain(&lines),
            [
                "superstep 3: 1 of 3 done, 1 min 05 s, 1 retry, 1 failure, \
                 then sum \\u{1b}[2J or end",
                "  read[1]  1 min 05 s  try 2  page: \"1/2\"",
                "  read[2]  1 min 05 s  3 tokens  The bakery is open",
            ]
        );
        view.stop();
        assert_eq!(plain(&view.lines((100, 24), begin))[1], STOPPING);
    }

    #[test]
    fn a_task_whose_graph_runs_gives_its_line_to_what_runs_inside() {
        let begin = Instant::now();
        let mut view = view(2, begin);
        let inner = |node: &str| {
            let node = NodeName::new(node).expect("a name");
            TaskPath::new(Step::new(1), node, 0).within(&task(1))
        };
        let inside = |view: &mut LiveView, kind| {
            let event = Event {
                within: Some(task(1)),
                epoch: Epoch::new(1),
                seq: None,
                kind,
            };
            view.hear(&event, begin);
        };
        let started = |node: &str| EventKind::TaskStarted {
            task: inner(node),
            attempt: 1,
        };
        let step = Step::new(1);
        let tasks = vec![inner("spell")];
        inside(&mut view, EventKind::SuperstepStarted { step, tasks });
        inside(&mut view, started("spell"));
        inside(&mut view, started("count"));
        let text = "so far".to_owned();
        let task_of = inner("spell");
        inside(
            &mut view,
            EventKind::Token {
                task: task_of,
                text,
            },
        );
        let lines = |view: &LiveView| plain(&view.lines((100, 24), begin));
        assert_eq!(
            lines(&view),
            [
                "superstep 3: 0 of 2 done, 0 s, then sum \\u{1b}[2J or end",
                "  read             0 s",
                "  read[1] › count  0 s",
                "  read[1] › spell  0 s  1 token  so far",
            ]
        );
        let finished = |task| EventKind::TaskFinished {
            task,
            attempts: 1,
            micros: 1,
            tries: Vec::new(),
            exit: None,
            tolerated: None,
            update: Vec::new(),
        };
        inside(&mut view, finished(inner("count")));
        let id = crate::QuestionId::new(inner("ask"), "sure");
        let (type_name, question) = (String::new(), Vec::new());
        inside(
            &mut view,
            EventKind::Asked {
                id,
                type_name,
                question,
                expires_ms: None,
            },
        );
        assert_eq!(
            lines(&view)[2..],
            [
                "  read[1] › ask    0 s  asks sure",
                "  read[1] › spell  0 s  1 token  so far",
            ]
        );
        // The task around it ends: nothing runs inside any more.
        hear(&mut view, begin, finished(task(1)));
        assert_eq!(lines(&view)[1..], ["  read  0 s"]);
        assert!(lines(&view)[0].starts_with("superstep 3: 1 of 2 done"));
    }

    #[test]
    fn no_line_fills_its_row_and_no_more_lines_are_drawn_than_half_of_the_rows() {
        let begin = Instant::now();
        let mut view = view(40, begin);
        let text = "日本語 ".repeat(200);
        hear(
            &mut view,
            begin,
            EventKind::Token {
                task: task(0),
                text,
            },
        );
        for columns in 1..120 {
            for rows in 1..60 {
                let lines = plain(&view.lines((columns, rows), begin));
                assert!(
                    lines.len() <= (rows / 2).max(3),
                    "{columns} × {rows}: {lines:#?}"
                );
                for line in &lines {
                    assert!(line.width() < columns.max(2), "{columns} × {rows}: {line}");
                }
            }
        }
        let lines = plain(&view.lines((80, 10), begin));
        assert_eq!(lines.last().map(String::as_str), Some("  and 37 more"));
        assert!(
            lines[1].ends_with("日本語 日本語"),
            "the end of the text: {}",
            lines[1]
        );
        view.stop();
        assert_eq!(plain(&view.lines((80, 5), begin))[2], "  40 run");
    }

    #[test]
    fn what_another_try_has_said_is_gone_and_memory_stays_small() {
        let begin = Instant::now();
        let mut view = view(1, begin);
        for _ in 0..100_000 {
            let text = "ä".to_owned();
            hear(
                &mut view,
                begin,
                EventKind::Token {
                    task: task(0),
                    text,
                },
            );
        }
        assert!(view.running[&task(0)].text.len() <= TAIL);
        hear(
            &mut view,
            begin,
            EventKind::TaskStarted {
                task: task(0),
                attempt: 2,
            },
        );
        let lines = plain(&view.lines((80, 24), begin));
        assert_eq!(lines[1], "  read  0 s  try 2");
    }
}
