//! `dot`: a graph as a picture, or a thread laid over its graph.

use std::io::IsTerminal;

use serde_json::{Value, json};

use super::args::{DotArgs, Format};
use super::exit::{Exit, Failure};
use super::list::head;
use super::look::checkpoint;
use super::shell::{Shell, quoted};
use crate::dot::{Dot, Folded, Mermaid, Overlay, Svg, Timeline};
use crate::{Event, GraphView, Seq, ThreadId, events, events_until};

/// Draws a graph, or a thread.
pub(super) async fn dot(shell: &mut Shell, args: &DotArgs) -> Result<Exit, Failure> {
    match (&args.run, &args.graph) {
        (Some(thread), _) => run(shell, args, thread).await,
        (None, Some(graph)) => {
            let known = shell.graph(graph)?;
            let text = match args.format {
                Format::Dot => Dot::new(known.view()).to_string(),
                Format::Mermaid => Mermaid::new(known.view()).to_string(),
                Format::Svg => Svg::new(known.view()).to_string(),
                Format::Timeline | Format::Flame => {
                    let what = format!(
                        "a {} is of a thread: which one? as in `dot --run THREAD --format {}`",
                        name(args.format),
                        name(args.format)
                    );
                    return Err(Failure::usage(what).next(shell.again("threads")));
                }
            };
            let format = name(args.format);
            put(
                shell,
                args,
                &json!({"graph": graph, "format": format, "text": text}),
            );
            Ok(Exit::Done)
        }
        (None, None) => {
            let what = "what is to be drawn? a graph, as in `dot GRAPH`, or a thread, as in `dot --run THREAD`";
            Err(Failure::usage(what).next(shell.again("graphs")))
        }
    }
}

/// The name of a format, as it is typed.
fn name(format: Format) -> &'static str {
    match format {
        Format::Dot => "dot",
        Format::Mermaid => "mermaid",
        Format::Svg => "svg",
        Format::Timeline => "timeline",
        Format::Flame => "flame",
    }
}

async fn run(shell: &mut Shell, args: &DotArgs, thread: &ThreadId) -> Result<Exit, Failure> {
    let store = shell.look()?;
    let head = head(shell, &*store, thread).await?;
    if let Some(graph) = args.graph.as_ref().filter(|graph| **graph != head.graph) {
        let what = format!("thread {thread} is of graph {}, not of {graph}", head.graph);
        let next = format!("dot --run {}", quoted(thread.as_str()));
        return Err(Failure::usage(what).next(shell.again(&next)));
    }
    let known = shell.graph(&head.graph)?;
    let view = known.view();
    let until = args.at.map(Seq::new);
    if let Some(at) = until {
        checkpoint(shell, &*store, thread, at).await?;
    }
    let events = match until {
        Some(at) => events_until(&*store, thread, at).await?,
        None => events(&*store, thread).await?,
    };
    let overlay = Overlay::new(view, &events);
    if !overlay.unknown().is_empty() {
        shell.out.hint(&format!(
            "milepost: thread {thread} was run with another version of graph {}; not in this picture: {}",
            head.graph,
            overlay.unknown().join("; ")
        ));
    }
    let text = match (args.format, args.times) {
        (Format::Dot, false) => Dot::new(view).run(&overlay).to_string(),
        (Format::Dot, true) => Dot::new(view).run(&overlay).times().to_string(),
        (Format::Mermaid, false) => Mermaid::new(view).run(&overlay).to_string(),
        (Format::Mermaid, true) => Mermaid::new(view).run(&overlay).times().to_string(),
        (Format::Svg, false) => Svg::new(view).run(&overlay).to_string(),
        (Format::Svg, true) => Svg::new(view).run(&overlay).times().to_string(),
        (Format::Timeline, _) => Timeline::new(view, &events).to_string(),
        (Format::Flame, _) => flame(shell, thread, view, &events)?,
    };
    let mut value = json!({"graph": head.graph, "format": name(args.format), "text": text});
    value["thread"] = json!(thread.as_str());
    value["at"] = json!(args.at);
    value["stands"] = json!(overlay.to_string());
    value["nodes"] = nodes(view, &overlay, args.times);
    value["edges"] = edges(view, &overlay);
    value["unknown"] = json!(overlay.unknown());
    put(shell, args, &value);
    Ok(Exit::Done)
}

/// A flame graph of a thread, by the library that draws those of programs.
fn flame(
    shell: &Shell,
    thread: &ThreadId,
    view: &GraphView,
    events: &[Event],
) -> Result<String, Failure> {
    let folded = Folded::new(view, events);
    if folded.is_empty() {
        let what = format!("no task of thread {thread} has ended there: no time is known yet");
        return Err(Failure::usage(what).next(shell.on("events", thread)));
    }
    let mut options = inferno::flamegraph::Options::default();
    options.title = format!("{thread}: time in the tries of {}", view.name);
    options.count_name = "µs".to_owned();
    options.name_type = "Node:".to_owned();
    options.deterministic = true;
    options.colors = "aqua".parse().unwrap_or_default();
    let text = folded.to_string();
    let mut svg = Vec::new();
    inferno::flamegraph::from_lines(&mut options, text.lines(), &mut svg).map_err(|why| {
        let what = format!("the flame graph could not be drawn: {why}");
        Failure::new(Exit::Failed, what).next(shell.on("events", thread))
    })?;
    Ok(String::from_utf8_lossy(&svg).into_owned())
}

/// Writes a picture: alone, or as a value with what it was made of.
fn put(shell: &mut Shell, args: &DotArgs, value: &Value) {
    if shell.out.is_json() {
        shell.out.value(value);
        return;
    }
    shell.out.raw(value["text"].as_str().unwrap_or_default());
    let is_picture = matches!(args.format, Format::Svg | Format::Timeline | Format::Flame);
    if is_picture && std::io::stdout().is_terminal() {
        shell.out.hint(
            "milepost: this is a picture for a browser: write it to a file with `> picture.svg`",
        );
    }
}

fn nodes(view: &GraphView, overlay: &Overlay, times: bool) -> Value {
    let node = |(place, node): (usize, &crate::NodeView)| {
        let run = overlay.node(place);
        json!({
            "node": node.name.as_str(),
            "visits": run.visits,
            "retries": run.retries,
            "tolerated": run.tolerated,
            "handled": run.handled,
            "failures": run.failures,
            "open": run.open,
            "failed": run.failed,
            "last_micros": times.then_some(run.last_micros),
        })
    };
    view.nodes.iter().enumerate().map(node).collect()
}

fn edges(view: &GraphView, overlay: &Overlay) -> Value {
    let name = |point| view.name_of(point).map(|name| name.as_str());
    let edge = |(place, edge): (usize, &crate::EdgeView)| {
        let run = overlay.edge(place);
        json!({
            "from": name(edge.from),
            "label": edge.label,
            "to": name(edge.to),
            "taken": run.taken,
            "tasks": run.tasks,
        })
    };
    view.edges.iter().enumerate().map(edge).collect()
}
