//! `graphs show`: the nodes of a graph, where they lead, and the fields of its state.

use std::time::Duration;

use serde_json::{Value, json};

use super::exit::{Exit, Failure};
use super::flags::paragraph;
use super::shell::Shell;
use crate::dot::short_type;
use crate::{EdgeView, GraphView, NodeView, Point, Policy, Retry};

/// Shows a graph.
pub(super) fn show(shell: &mut Shell, name: &str) -> Result<Exit, Failure> {
    let known = shell.graph(name)?;
    let view = known.view();
    shell.out.value(&whole_json(view));
    for line in lines(view) {
        shell.out.say(line);
    }
    for line in inside(view, "") {
        shell.out.say(line);
    }
    Ok(Exit::Done)
}

/// Everything of a graph as JSON, with the graphs that its nodes run.
fn whole_json(view: &GraphView) -> Value {
    let mut value = graph_json(view);
    for (place, node) in view.nodes.iter().enumerate() {
        let inner = node.inner.as_deref();
        value["nodes"][place]["policy"] = policy_json(&node.policy);
        value["nodes"][place]["inner"] = inner.map_or(Value::Null, whole_json);
    }
    let edges = view.edges.iter().map(|edge| {
        json!({
            "from": name_of(view, edge.from),
            "label": edge.label,
            "to": name_of(view, edge.to),
            "conditional": edge.conditional,
            "payload": edge.payload,
            "when_empty": edge.when_empty,
            "on_error": edge.on_error,
        })
    });
    value["edges"] = edges.collect();
    for (place, node) in view.nodes.iter().enumerate() {
        value["nodes"][place]["reads"] = json!(node.reads);
        value["nodes"][place]["writes"] = json!(node.writes);
    }
    let joins = view.joins.iter().map(|join| {
        let name = |node: &usize| view.nodes[*node].name.as_str();
        json!({
            "name": join.name.as_str(),
            "rule": join.rule,
            "members": join.members.iter().map(name).collect::<Vec<_>>(),
        })
    });
    value["joins"] = joins.collect();
    value
}

/// A section for each graph that a node runs, as deep as they go.
fn inside(view: &GraphView, around: &str) -> Vec<String> {
    let mut sections = Vec::new();
    for node in &view.nodes {
        let Some(inner) = node.inner.as_deref() else {
            continue;
        };
        let place = format!("{around}{}", node.name);
        let mut section = lines(inner);
        section[0] = format!("inside of {place}: graph {}", inner.name);
        sections.push(String::new());
        sections.append(&mut section);
        sections.append(&mut inside(inner, &format!("{place} › ")));
    }
    sections
}

/// A graph as JSON: its nodes and fields.
pub(super) fn graph_json(view: &GraphView) -> Value {
    json!({
        "graph": view.name,
        "state": view.state,
        "doc": view.doc,
        "nodes": view.nodes.iter().map(|node| json!({
            "name": node.name.as_str(),
            "kind": node.kind.name(),
            "exits": node.exits,
            "payload": node.payload,
            "asks": node.asks.as_ref().map(|asks| json!({
                "question": asks.question,
                "answer": asks.answer,
                "shape": asks.shape,
            })),
        })).collect::<Vec<_>>(),
        "fields": view.fields.iter().map(|field| json!({
            "name": field.name,
            "type": field.type_name,
            "reducer": field.reducer.id,
            "required": field.required,
            "doc": field.doc,
        })).collect::<Vec<_>>(),
    })
}

fn lines(view: &GraphView) -> Vec<String> {
    let mut lines = vec![format!("graph {}", view.name), "nodes".to_owned()];
    let start = (Point::Start, "start".to_owned(), String::new());
    let nodes = view.nodes.iter().enumerate().map(|(place, node)| {
        let name = node.name.to_string();
        (Point::Node(place), name, about(node))
    });
    let joins = view.joins.iter().enumerate().map(|(place, join)| {
        let name = |node: &usize| view.nodes[*node].name.as_str();
        let members: Vec<_> = join.members.iter().map(name).collect();
        let about = format!("join, {}: {}", join.rule, members.join(", "));
        (Point::Join(place), join.name.to_string(), about)
    });
    let points: Vec<_> = [start].into_iter().chain(nodes).chain(joins).collect();
    let widest = |widths: &mut dyn Iterator<Item = usize>| widths.max().unwrap_or(0);
    let names = widest(&mut points.iter().map(|(_, name, _)| name.chars().count()));
    let labels = widest(&mut view.edges.iter().map(|edge| edge.label.chars().count()));
    for (point, name, about) in &points {
        lines.push(format!("  {name:<names$}  {about}").trim_end().to_owned());
        for edge in view.edges.iter().filter(|edge| edge.from == *point) {
            lines.push(format!(
                "      {:<labels$} → {}",
                edge.label,
                to(view, edge)
            ));
        }
    }
    let about = match view.doc {
        "" => String::new(),
        doc => format!(": {}", sentence(doc)),
    };
    lines.push(format!("fields of {}{about}", view.state));
    let names = widest(&mut view.fields.iter().map(|field| field.name.chars().count()));
    let types: Vec<_> = view
        .fields
        .iter()
        .map(|field| short_type(field.type_name))
        .collect();
    let width = widest(&mut types.iter().map(|name| name.chars().count()));
    let merged: Vec<_> = view
        .fields
        .iter()
        .map(|field| {
            let required = if field.required { ", required" } else { "" };
            format!("{}{required}", field.reducer.id)
        })
        .collect();
    let merged_width = widest(&mut merged.iter().map(|text| text.chars().count()));
    for ((field, name), merged) in view.fields.iter().zip(&types).zip(&merged) {
        let line = format!(
            "  {:<names$}  {name:<width$}  {merged:<merged_width$}  {}",
            field.name,
            sentence(field.doc)
        );
        lines.push(line.trim_end().to_owned());
    }
    lines
}

/// The first sentence of a comment, on one line.
fn sentence(doc: &str) -> String {
    let line = paragraph(doc);
    match line.split_once(". ") {
        Some((first, _)) => format!("{first}."),
        None => line,
    }
}

/// What a node is: its kind, its payloads, its policy.
fn about(node: &NodeView) -> String {
    let mut about = vec![node.kind.name().to_owned()];
    if let Some(payload) = node.payload {
        about.push(format!("worker of {}", short_type(payload)));
    }
    if let Some(inner) = &node.inner {
        about.push(format!("runs graph {}", inner.name));
    }
    let Policy {
        retry,
        timeout,
        idle_timeout,
        concurrency,
        blocking,
        effect,
        step_limit,
    } = &node.policy;
    if let Some(asks) = &node.asks {
        let (question, answer) = (short_type(asks.question), short_type(asks.answer));
        about.push(format!("asks {question}, answered with {answer}"));
    }
    if let Some(Retry { max_attempts, .. }) = retry {
        about.push(format!("at most {max_attempts} tries"));
    }
    if let Some(timeout) = timeout {
        about.push(format!("timeout {timeout:?}"));
    }
    if let Some(idle) = idle_timeout {
        about.push(format!("idle timeout {idle:?}"));
    }
    if let Some(tasks) = concurrency {
        about.push(format!("at most {tasks} at once"));
    }
    if let Some(supersteps) = step_limit {
        about.push(format!("at most {supersteps} supersteps"));
    }
    if *blocking {
        about.push("blocking".to_owned());
    }
    if let Some(effect) = effect {
        about.push(effect.name().to_owned());
    }
    for (verb, fields) in [("reads", &node.reads), ("writes", &node.writes)] {
        match fields.as_deref() {
            None => {}
            Some([]) => about.push(format!("{verb} nothing")),
            Some(fields) => about.push(format!("{verb} {}", fields.join(" "))),
        }
    }
    about.join(", ")
}

fn to(view: &GraphView, edge: &EdgeView) -> String {
    let to = name_of(view, edge.to).unwrap_or("end");
    match edge.payload {
        Some(payload) => format!("{to}, each {}", short_type(payload)),
        None => to.to_owned(),
    }
}

fn name_of(view: &GraphView, point: Point) -> Option<&str> {
    view.name_of(point).map(|name| name.as_str())
}

fn policy_json(policy: &Policy) -> Value {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let retry = policy.retry.as_ref().map(|retry| {
        let classes: Vec<_> = retry.classes.iter().map(|class| class.name()).collect();
        json!({
            "max_attempts": retry.max_attempts,
            "first_wait_ms": millis(retry.first_wait),
            "factor": retry.factor,
            "max_wait_ms": millis(retry.max_wait),
            "jitter": retry.jitter,
            "classes": classes,
        })
    });
    json!({
        "retry": retry,
        "timeout_ms": policy.timeout.map(millis),
        "idle_timeout_ms": policy.idle_timeout.map(millis),
        "concurrency": policy.concurrency,
        "blocking": policy.blocking,
        "step_limit": policy.step_limit,
        "effect": policy.effect.map(|effect| effect.name()),
    })
}
