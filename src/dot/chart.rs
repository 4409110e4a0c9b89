//! How a timeline is drawn.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use super::line::{left, time};
use super::look::{INK, LINE, look, marked};
use super::measure;
use super::outline::N;
use super::overlay::{Mark, Overlay};
use super::page::{open, text};
use super::text::XmlText;
use super::timeline::{Call, End, Stage, Task, Timeline, end};
use crate::event::ErrorText;
use crate::graph::{GraphView, NodeKind};

/// The width of all calls together, and the space between two.
const SPAN: f64 = 760.0;
const CUT: f64 = 46.0;

/// The space above the tracks, for the numbers of supersteps and the times.
const HEAD: f64 = 40.0;

/// The height of a lane, and of a bar in it.
const LANE: f64 = 18.0;
const BAR: f64 = 12.0;

const MARGIN: f64 = 10.0;
const NAME: f64 = 12.0;
const SMALL: f64 = 10.0;

/// How far the names of nodes inside of a node stand to the right of it.
const INSIDE: f64 = 12.0;

/// The track of a node: its name behind those of the nodes that it is inside of, its kind, how many
/// lanes it has and where it begins.
struct Track<'t> {
    nodes: Vec<&'t str>,
    lines: Vec<String>,
    kind: NodeKind,
    concurrency: Option<usize>,
    left: String,
    lanes: usize,
    top: f64,
    height: f64,
}

/// Where times lie.
struct Scale {
    /// Pixels a millisecond.
    per_ms: f64,
    /// For each call its left end.
    lefts: Vec<f64>,
    right: f64,
}

impl fmt::Display for Timeline<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tracks = self.tracks();
        let widths = tracks.iter().flat_map(|track| {
            let width = |name: &String| track.aside() + measure::width(name, NAME);
            track.lines.iter().map(width)
        });
        let widest = widths.fold(0.0, f64::max);
        let scale = self.scale(MARGIN + widest + 12.0);
        let notes = tracks
            .iter()
            .map(|track| measure::width(&track.left, SMALL));
        let width = scale.right + notes.fold(0.0, f64::max) + 8.0 + MARGIN;
        let bottom = tracks.last().map_or(HEAD, |last| last.top + last.height);
        let caption = [self.overlay.to_string()];
        let (wide, high) = measure::size(&caption, 11.0);
        let width = width.max(wide + 2.0 * MARGIN);
        open(f, (width, bottom + high + 20.0), &self.view.name)?;
        writeln!(f, "<desc>timeline; {}</desc>", XmlText(&caption[0]))?;
        for (call, left) in self.calls.iter().zip(&scale.lefts) {
            write_stripes(f, call, *left, &scale, bottom)?;
        }
        for (before, pair) in self.calls.windows(2).enumerate() {
            let x = scale.lefts[before + 1] - CUT / 2.0;
            let later = time(((pair[1].from - pair[0].to).max(0.0) * 1000.0) as u64);
            let lines = ["later".to_owned(), later];
            text(
                f,
                &lines,
                (x, HEAD - 28.0),
                9.0,
                "text-anchor=\"middle\"",
                LINE,
            )?;
            let (x, top, bottom) = (N(x), N(HEAD), N(bottom));
            writeln!(
                f,
                "<path d=\"M{x} {top}V{bottom}\" stroke=\"{LINE}\" stroke-dasharray=\"1 4\" fill=\"none\"/>"
            )?;
        }
        for track in &tracks {
            self.write_track(f, track, &scale)?;
        }
        text(f, &caption, (MARGIN, bottom + 8.0), 11.0, "", LINE)?;
        f.write_str("</svg>\n")
    }
}

impl Timeline<'_> {
    /// The nodes that ran or are to run, in the order of the graph; those of another version of
    /// the graph come last.
    fn tracks(&self) -> Vec<Track<'_>> {
        let mut tracks: Vec<Track<'_>> = Vec::new();
        add_tracks(&mut tracks, &[], self.view, &self.overlay);
        for stage in self.calls.iter().flat_map(|call| &call.stages) {
            let mut lanes: HashMap<usize, BTreeSet<Vec<u32>>> = HashMap::new();
            for task in &stage.tasks {
                let found = tracks
                    .iter()
                    .position(|track| task.nodes().eq(track.nodes.iter().copied()));
                let track = found.unwrap_or_else(|| {
                    tracks.push(Track::new(task.nodes().collect(), NodeKind::Function));
                    tracks.len() - 1
                });
                lanes.entry(track).or_default().insert(task.lane());
            }
            for (track, lanes) in lanes {
                tracks[track].lanes = tracks[track].lanes.max(lanes.len());
            }
        }
        // A node whose graph ran is there, also where it has not ended itself.
        let ran = |track: &Track<'_>| track.lanes > 0;
        let around: Vec<bool> = tracks
            .iter()
            .map(|track| {
                let mut inside = tracks
                    .iter()
                    .filter(|one| one.nodes.starts_with(&track.nodes));
                inside.any(ran)
            })
            .collect();
        let mut around = around.into_iter();
        tracks.retain(|_| around.next() == Some(true));
        let mut top = HEAD + 4.0;
        for track in &mut tracks {
            let (_, high) = measure::size(&track.lines, NAME);
            track.height = (track.lanes as f64 * LANE).max(high) + 6.0;
            track.top = top;
            top += track.height;
        }
        tracks
    }

    fn scale(&self, left: f64) -> Scale {
        let all: f64 = self.calls.iter().map(|call| call.to - call.from).sum();
        let per_ms = SPAN / all.max(0.001);
        let mut x = left;
        let mut lefts = Vec::with_capacity(self.calls.len());
        for call in &self.calls {
            lefts.push(x);
            // What took no time is still to be seen.
            x += ((call.to - call.from) * per_ms).max(16.0) + CUT;
        }
        Scale {
            per_ms,
            lefts,
            right: (x - CUT).max(left),
        }
    }

    fn write_track(
        &self,
        f: &mut fmt::Formatter<'_>,
        track: &Track<'_>,
        scale: &Scale,
    ) -> fmt::Result {
        writeln!(f, "<g class=\"track {}\">", track.kind.name())?;
        writeln!(f, "<title>{}</title>", XmlText(track.name()))?;
        if let [around @ .., _] = track.nodes.as_slice()
            && !around.is_empty()
        {
            let around = around.join(" › ");
            writeln!(f, "<desc>inside of {}</desc>", XmlText(&around))?;
        }
        let line = N(track.top);
        let (left, right) = (N(MARGIN), N(scale.right));
        writeln!(
            f,
            "<path d=\"M{left} {line}H{right}\" stroke=\"{LINE}\" stroke-width=\"0.4\" fill=\"none\"/>"
        )?;
        let at = (MARGIN + track.aside(), track.top + 3.0);
        text(f, &track.lines, at, NAME, "", LINE)?;
        for (call, left) in self.calls.iter().zip(&scale.lefts) {
            for stage in &call.stages {
                let own = |task: &&Task| task.nodes().eq(track.nodes.iter().copied());
                let lanes: BTreeSet<_> = stage.tasks.iter().filter(own).map(Task::lane).collect();
                let lanes: HashMap<_, _> = lanes.into_iter().zip(0u32..).collect();
                for task in stage.tasks.iter().filter(own) {
                    let lane = lanes[&task.lane()];
                    let y = track.top + 3.0 + LANE * (f64::from(lane) + 0.5);
                    let x = |ms: f64| left + (ms - call.from).max(0.0) * scale.per_ms;
                    write_task(f, (track, stage, task), x, y)?;
                }
            }
        }
        if !track.left.is_empty() {
            let note = [track.left.clone()];
            let y = track.top + 3.0 + (LANE - SMALL * measure::LINE_HEIGHT) / 2.0;
            text(f, &note, (scale.right + 6.0, y), SMALL, "", LINE)?;
        }
        f.write_str("</g>\n")
    }
}

/// Adds the tracks of a graph, each with those of the graph inside of its node below it.
fn add_tracks<'t>(
    tracks: &mut Vec<Track<'t>>,
    around: &[&'t str],
    view: &'t GraphView,
    overlay: &Overlay,
) {
    for (place, node) in view.nodes.iter().enumerate() {
        let run = overlay.node(place);
        let mut nodes = around.to_vec();
        nodes.push(node.name.as_str());
        tracks.push(Track {
            concurrency: node.policy.concurrency,
            left: left(run, overlay.ended().is_some()),
            lanes: usize::from(run.open > 0),
            ..Track::new(nodes.clone(), node.kind)
        });
        if let (Some(inner), Some(overlay)) = (node.inner.as_deref(), overlay.inner(place)) {
            add_tracks(tracks, &nodes, inner, overlay);
        }
    }
}

impl<'t> Track<'t> {
    fn new(nodes: Vec<&'t str>, kind: NodeKind) -> Self {
        Self {
            lines: nodes
                .last()
                .map_or_else(Vec::new, |name| measure::wrap(name, NAME, 180.0)),
            nodes,
            kind,
            concurrency: None,
            left: String::new(),
            lanes: 0,
            top: 0.0,
            height: 0.0,
        }
    }

    fn name(&self) -> &'t str {
        self.nodes.last().copied().unwrap_or_default()
    }

    /// How far its name stands to the right.
    fn aside(&self) -> f64 {
        self.nodes.len().saturating_sub(1) as f64 * INSIDE
    }
}

/// The stripes of the supersteps of a call, their numbers, and the time since the call began.
fn write_stripes(
    f: &mut fmt::Formatter<'_>,
    call: &Call,
    left: f64,
    scale: &Scale,
    bottom: f64,
) -> fmt::Result {
    let x = |ms: f64| left + (ms - call.from) * scale.per_ms;
    let mut free = f64::NEG_INFINITY;
    for (place, stage) in call.stages.iter().enumerate() {
        let (from, to) = (x(stage.from), x(stage.to));
        if place % 2 == 0 {
            let (x, width, top, height) = (N(from), N(to - from), N(HEAD), N(bottom - HEAD));
            writeln!(
                f,
                "<rect x=\"{x}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" fill=\"{LINE}\" fill-opacity=\"0.13\"/>"
            )?;
        }
        let number = [stage.step.to_string()];
        let wide = measure::width(&number[0], SMALL);
        let middle = f64::midpoint(from, to);
        if middle - wide / 2.0 > free {
            free = middle + wide / 2.0 + 4.0;
            let at = (middle, HEAD - 14.0);
            text(f, &number, at, SMALL, "text-anchor=\"middle\"", LINE)?;
        }
    }
    let end = x(call.to).max(left + 16.0);
    for tick in ticks(call.to - call.from, 80.0 / scale.per_ms) {
        let at = x(call.from + tick);
        let label = [match tick {
            0.0 => "0".to_owned(),
            tick => time((tick * 1000.0).round() as u64),
        }];
        if at + measure::width(&label[0], 9.0) > end + 24.0 && tick > 0.0 {
            continue;
        }
        text(f, &label, (at + 2.0, HEAD - 28.0), 9.0, "", LINE)?;
        let (x, top, bottom) = (N(at), N(HEAD - 26.0), N(bottom));
        writeln!(
            f,
            "<path d=\"M{x} {top}V{bottom}\" stroke=\"{LINE}\" stroke-width=\"0.4\" fill=\"none\"/>"
        )?;
    }
    // How the call ended: an end that is no failure is a plain line.
    let color = match call.status.as_deref() {
        Some("failed") => marked(look(NodeKind::Function), Mark::Failed).border,
        _ => LINE,
    };
    let status = call.status.as_deref().unwrap_or("left open");
    let (x, top, bottom) = (N(end), N(HEAD - 6.0), N(bottom));
    writeln!(f, "<g class=\"end\"><title>{}</title>", XmlText(status))?;
    writeln!(
        f,
        "<path d=\"M{x} {top}V{bottom}\" stroke=\"{color}\" stroke-width=\"1.6\" fill=\"none\"/></g>"
    )
}

/// Round times up to a length, as far apart as this at least.
fn ticks(length: f64, apart: f64) -> Vec<f64> {
    let mut step = 0.001;
    for factor in [2.0, 2.5, 2.0].into_iter().cycle() {
        if step >= apart || step > 1e12 {
            break;
        }
        step *= factor;
    }
    let count = (length / step).floor().min(64.0) as u32;
    (0..=count).map(|tick| f64::from(tick) * step).collect()
}

fn write_task(
    f: &mut fmt::Formatter<'_>,
    (track, stage, task): (&Track<'_>, &Stage, &Task),
    x: impl Fn(f64) -> f64,
    y: f64,
) -> fmt::Result {
    let plain = look(track.kind);
    let failed = marked(plain, Mark::Failed);
    let levels = task.path.levels().iter();
    let levels = levels.map(|level| format!("{}:{}[{}]", level.step, level.node, level.index));
    let name = levels.collect::<Vec<_>>().join("/");
    writeln!(f, "<g class=\"task\">")?;
    writeln!(f, "<title>{}</title>", XmlText(&name))?;
    writeln!(f, "<desc>{}</desc>", XmlText(&told(task, stage, track)))?;
    let wait = |f: &mut fmt::Formatter<'_>, from: f64, to: f64, dashes: &str| {
        let (from, to) = (x(from), x(to));
        if to - from < 1.0 {
            return Ok(());
        }
        let (from, to, y) = (N(from), N(to), N(y));
        writeln!(
            f,
            "<path d=\"M{from} {y}H{to}\" stroke=\"{}\" stroke-width=\"1.4\" fill=\"none\"{dashes}/>",
            plain.border
        )
    };
    let mut since = task.from;
    for (number, one) in task.tries.iter().enumerate() {
        let (from, to) = (one.started_ms as f64, end(one));
        let dashes = if number == 0 {
            ""
        } else {
            " stroke-dasharray=\"4 3\""
        };
        wait(f, since, from, dashes)?;
        since = to;
    }
    let until = match (task.closed, task.tries.as_slice()) {
        (None, []) => Some(stage.to),
        (closed, _) => closed,
    };
    if let Some(until) = until {
        wait(f, since, until, " stroke-dasharray=\"1 3\"")?;
    }
    for (number, one) in task.tries.iter().enumerate() {
        let look = if one.error.is_some() { failed } else { plain };
        let (from, to) = (x(one.started_ms as f64), x(end(one)));
        let width = (to - from).max(2.0);
        let (left, top, wide) = (N(from), N(y - BAR / 2.0), N(width));
        writeln!(
            f,
            "<rect x=\"{left}\" y=\"{top}\" width=\"{wide}\" height=\"{BAR}\" rx=\"1.5\" fill=\"{}\" stroke=\"{}\"/>",
            look.fill, look.border
        )?;
        let label = match number {
            0 if track.lanes == 1 => String::new(),
            0 => format!("[{}]", place_of(task)),
            number => format!("try {}", number + 1),
        };
        if !label.is_empty() && measure::width(&label, 9.0) + 4.0 <= width {
            let at = (from + width / 2.0, y - 9.0 * measure::LINE_HEIGHT / 2.0);
            let ink = look.mark.map_or(INK, |mark| mark.ink);
            text(f, &[label], at, 9.0, "text-anchor=\"middle\"", ink)?;
        }
    }
    f.write_str("</g>\n")
}

/// The index of a task, behind those of the tasks that it is inside of: less those that say nothing.
fn place_of(task: &Task) -> String {
    let mut indices = task.lane();
    while indices.len() > 1 && indices.last() == Some(&0) {
        indices.pop();
    }
    let indices: Vec<_> = indices.iter().map(ToString::to_string).collect();
    indices.join("/")
}

/// What a task did and waited for, as sentences.
fn told(task: &Task, stage: &Stage, track: &Track<'_>) -> String {
    let for_people = |ms: f64| time((ms * 1000.0) as u64);
    let mut told = Vec::new();
    let mut since = task.from;
    for (number, one) in task.tries.iter().enumerate() {
        let waited = one.started_ms as f64 - since;
        if waited >= 1.0 {
            let why = match (number, track.concurrency) {
                (0, Some(limit)) => format!("to begin: at most {limit} at once"),
                (0, None) => "to begin".to_owned(),
                _ => "to be tried again".to_owned(),
            };
            told.push(format!("waited {} {why}", for_people(waited)));
        }
        let took = time(one.micros);
        told.push(match &one.error {
            Some(ErrorText { class, message }) => {
                format!(
                    "try {} failed after {took} ({class}): {message}",
                    number + 1
                )
            }
            None => format!("try {} took {took}", number + 1),
        });
        since = end(one);
    }
    told.push(match &task.end {
        End::Finished => "finished".to_owned(),
        End::Tolerated(error) => format!("tolerated ({}): {}", error.class, error.message),
        End::Handled(error) => format!("failed ({}), handled: {}", error.class, error.message),
        End::Failed(error) => format!("failed ({}): {}", error.class, error.message),
    });
    let waited = task.closed.map_or(0.0, |closed| closed - since);
    if !task.tries.is_empty() && waited >= 1.0 {
        let beside = |other: &&Task| other.is_beside(task);
        let what = match stage.tasks.iter().filter(beside).nth(1) {
            None => "to be recorded",
            Some(_) => "for the others of its superstep",
        };
        told.push(format!("waited {} {what}", for_people(waited)));
    }
    told.join("; ")
}
