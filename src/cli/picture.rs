//! `dot`: a graph as a picture, or a thread laid over its graph.

use serde_json::{Value, json};

use super::args::{DotArgs, Format};
use super::exit::{Exit, Failure};
use super::list::head;
use super::look::checkpoint;
use super::shell::{Shell, quoted};
use crate::dot::{Dot, Mermaid, Overlay};
use crate::{GraphView, Point, Seq, ThreadId, events};

/// Draws a graph, or a thread.
pub(super) async fn dot(shell: &mut Shell, args: &DotArgs) -> Result<Exit, Failure> {
    match (&args.run, &args.graph) {
        (Some(thread), _) => run(shell, args, thread).await,
        (None, Some(graph)) => {
            let known = shell.graph(graph)?;
            let (format, text) = match args.format {
                Format::Dot => ("dot", Dot::new(known.view()).to_string()),
                Format::Mermaid => ("mermaid", Mermaid::new(known.view()).to_string()),
            };
            put(
                shell,
                json!({"graph": graph, "format": format, "text": text}),
            );
            Ok(Exit::Done)
        }
        (None, None) => {
            let what = "what is to be drawn? a graph, as in `dot GRAPH`, or a thread, as in `dot --run THREAD`";
            Err(Failure::usage(what).next(shell.again("graphs")))
        }
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
    let events = events(&*store, thread).await?;
    let shown = events
        .iter()
        .filter(|event| until.is_none() || event.seq <= until);
    let overlay = Overlay::new(view, shown);
    if !overlay.unknown().is_empty() {
        shell.out.hint(&format!(
            "milepost: thread {thread} was run with another version of graph {}; not in this picture: {}",
            head.graph,
            overlay.unknown().join("; ")
        ));
    }
    let (format, text) = match (args.format, args.times) {
        (Format::Dot, false) => ("dot", Dot::new(view).run(&overlay).to_string()),
        (Format::Dot, true) => ("dot", Dot::new(view).run(&overlay).times().to_string()),
        (Format::Mermaid, false) => ("mermaid", Mermaid::new(view).run(&overlay).to_string()),
        (Format::Mermaid, true) => (
            "mermaid",
            Mermaid::new(view).run(&overlay).times().to_string(),
        ),
    };
    let mut value = json!({"graph": head.graph, "format": format, "text": text});
    value["thread"] = json!(thread.as_str());
    value["at"] = json!(args.at);
    value["stands"] = json!(overlay.to_string());
    value["nodes"] = nodes(view, &overlay, args.times);
    value["edges"] = edges(view, &overlay);
    value["unknown"] = json!(overlay.unknown());
    put(shell, value);
    Ok(Exit::Done)
}

/// Writes a picture: alone, or as a value with what it was made of.
fn put(shell: &mut Shell, value: Value) {
    if shell.out.is_json() {
        shell.out.value(&value);
    } else {
        shell.out.raw(value["text"].as_str().unwrap_or_default());
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
            "failures": run.failures,
            "open": run.open,
            "failed": run.failed,
            "last_micros": times.then_some(run.last_micros),
        })
    };
    view.nodes.iter().enumerate().map(node).collect()
}

fn edges(view: &GraphView, overlay: &Overlay) -> Value {
    let name = |point| match point {
        Point::Node(place) => view.nodes.get(place).map(|node| node.name.as_str()),
        Point::Start | Point::End => None,
    };
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
