//! adk-graph: a map of JSON values with a reducer a channel, superstep by superstep.

use adk_graph::checkpoint::{MemoryCheckpointer, SqliteCheckpointer};
use adk_graph::edge::{END, START};
use adk_graph::graph::StateGraph;
use adk_graph::node::{ExecutionConfig, NodeOutput};
use adk_graph::state::{State, StateSchema};
use rivals::{Clock, Job, LIST_LEN, Messages, Outcome, Spent};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> Outcome<()> {
    rivals::program("adk-graph", "2.3.0", once).await
}

async fn once(job: Job) -> Outcome<Option<Spent>> {
    let n = job.size;
    let graph = match job.workload.as_str() {
        "seq" => seq(n),
        "fan" => fan(n),
        "cycle" => cycle(n as i64),
        "react" => react(n as i64, Messages::new(job.bytes)),
        _ => return Ok(None),
    };
    let graph = graph.compile()?;
    let graph = match job.store.as_str() {
        "none" => graph,
        "mem" => graph.with_checkpointer(MemoryCheckpointer::new()),
        "sqlite" => {
            let url = format!("sqlite://{}/store.db?mode=rwc", job.folder()?.display());
            graph.with_checkpointer(SqliteCheckpointer::new(&url).await?)
        }
        _ => return Ok(None),
    };
    let mut start = State::new();
    if matches!(job.workload.as_str(), "seq" | "cycle") {
        start.insert("n".to_owned(), json!(0));
        start.insert("v".to_owned(), json!((0..LIST_LEN).collect::<Vec<i64>>()));
    }
    let config = ExecutionConfig::new("measured").with_recursion_limit(job.steps() + 10);
    let clock = Clock::start();
    let end = graph.invoke(start, config).await?;
    let spent = clock.stop();
    if job.workload == "react" {
        let messages = end.get("messages").and_then(Value::as_array);
        assert_eq!(messages.map(Vec::len), Some(2 * n));
    } else {
        assert_eq!(int(&end, "n"), n as i64);
    }
    Ok(Some(spent))
}

fn int(state: &State, key: &str) -> i64 {
    state.get(key).and_then(Value::as_i64).unwrap_or(0)
}

fn schema(list: &str) -> StateSchema {
    StateSchema::builder().channel("n").list_channel(list).build()
}

/// Adds a node that adds 1.
fn increase(graph: StateGraph, name: &str) -> StateGraph {
    graph.add_node_fn(name, |context| async move {
        Ok(NodeOutput::new().with_update("n", json!(int(&context.state, "n") + 1)))
    })
}

fn seq(n: usize) -> StateGraph {
    let mut graph = StateGraph::with_channels(&["n", "v"]);
    for i in 0..n {
        graph = increase(graph, &format!("n{i}"));
    }
    graph = graph.add_edge(START, "n0");
    for i in 1..n {
        graph = graph.add_edge(&format!("n{}", i - 1), &format!("n{i}"));
    }
    graph.add_edge(&format!("n{}", n - 1), END)
}

fn cycle(n: i64) -> StateGraph {
    let graph = increase(StateGraph::with_channels(&["n", "v"]), "there");
    let again = move |state: &State| {
        let exit = if int(state, "n") < n { "again" } else { "enough" };
        exit.to_owned()
    };
    increase(graph, "back")
        .add_edge(START, "there")
        .add_edge("there", "back")
        .add_conditional_edges("back", again, [("again", "there"), ("enough", END)])
}

/// No payload for each task: every worker is a node of its own.
fn fan(n: usize) -> StateGraph {
    let mut graph = StateGraph::new(schema("v"))
        .add_node_fn("source", |_| async { Ok(NodeOutput::new()) })
        .add_edge(START, "source");
    for i in 0..n {
        let name = format!("w{i}");
        graph = graph
            .add_node_fn(&name, move |_| async move {
                Ok(NodeOutput::new().with_update("v", json!(i)))
            })
            .add_edge("source", &name)
            .add_edge(&name, "reduce");
    }
    graph
        .add_node_fn("reduce", |context| async move {
            let found = context.state.get("v").and_then(Value::as_array);
            Ok(NodeOutput::new().with_update("n", json!(found.map_or(0, Vec::len))))
        })
        .add_edge("reduce", END)
}

fn react(n: i64, messages: Messages) -> StateGraph {
    let theirs = messages.clone();
    let again = move |state: &State| {
        let exit = if int(state, "n") < n { "again" } else { "enough" };
        exit.to_owned()
    };
    StateGraph::new(schema("messages"))
        .add_node_fn("agent", move |context| {
            let n = int(&context.state, "n");
            let said = messages.get(2 * n as usize);
            async move {
                Ok(NodeOutput::new()
                    .with_update("messages", json!(said))
                    .with_update("n", json!(n + 1)))
            }
        })
        .add_node_fn("tool", move |context| {
            let said = theirs.get(2 * int(&context.state, "n") as usize + 1);
            async move { Ok(NodeOutput::new().with_update("messages", json!(said))) }
        })
        .add_edge(START, "agent")
        .add_edge("agent", "tool")
        .add_conditional_edges("tool", again, [("again", "agent"), ("enough", END)])
}
