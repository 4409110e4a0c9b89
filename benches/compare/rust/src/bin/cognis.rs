//! cognis-graph: a typed state with a derived update; a node names its successor.
//!
//! Its stores keep the state of every step, and not what runs next.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cognis_core::{Runnable, RunnableConfig};
use cognis_graph::{
    Checkpointer, CompiledGraph, Goto, Graph, GraphState, InMemoryCheckpointer, NodeOut,
    SqliteCheckpointer, node_fn,
};
use rivals::{Clock, Job, LIST_LEN, Messages, Outcome, Spent};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A counter and a short list.
#[derive(Clone, Debug, Default, Serialize, Deserialize, GraphState)]
struct Small {
    n: i64,
    #[reducer(append)]
    v: Vec<i64>,
}

/// A conversation.
#[derive(Clone, Debug, Default, Serialize, Deserialize, GraphState)]
struct Chat {
    n: i64,
    #[reducer(append)]
    messages: Vec<String>,
}

#[tokio::main]
async fn main() -> Outcome<()> {
    rivals::program("cognis-graph", "0.3.2", once).await
}

async fn once(job: Job) -> Outcome<Option<Spent>> {
    let n = job.size;
    let small = || Small {
        n: 0,
        v: (0..LIST_LEN).collect(),
    };
    Ok(Some(match job.workload.as_str() {
        "seq" => drive(&job, seq(n)?, small(), |end| end.n == n as i64).await?,
        "cycle" => drive(&job, cycle(n as i64)?, small(), |end| end.n == n as i64).await?,
        "fan" => drive(&job, fan(n)?, Small::default(), |end| end.n == n as i64).await?,
        "react" => {
            let graph = react(n as i64, Messages::new(job.bytes))?;
            drive(&job, graph, Chat::default(), |end| end.messages.len() == 2 * n).await?
        }
        _ => return Ok(None),
    }))
}

async fn drive<S>(
    job: &Job,
    graph: CompiledGraph<S>,
    start: S,
    check: impl Fn(&S) -> bool,
) -> Outcome<Spent>
where
    S: GraphState<Update: Clone> + Clone + Serialize + DeserializeOwned,
{
    let keeper: Option<Arc<dyn Checkpointer<S>>> = match job.store.as_str() {
        "mem" => Some(Arc::new(InMemoryCheckpointer::<S>::new())),
        "sqlite" => {
            let url = format!("sqlite://{}/store.db?mode=rwc", job.folder()?.display());
            Some(Arc::new(SqliteCheckpointer::<S>::connect(&url).await?))
        }
        _ => None,
    };
    let graph = match keeper {
        Some(keeper) => graph.with_checkpointer(keeper),
        None => graph,
    };
    let config = RunnableConfig::default().with_recursion_limit(job.steps() as u32 + 10);
    let clock = Clock::start();
    let end = graph.invoke(start, config).await?;
    let spent = clock.stop();
    assert!(check(&end), "the result is wrong");
    Ok(spent)
}

/// A node that adds 1 and goes where `next` says.
fn increase(
    graph: Graph<Small>,
    name: String,
    next: impl Fn(i64) -> Goto + Send + Sync + 'static,
) -> Graph<Small> {
    let node = node_fn::<Small, _, _>(name.clone(), move |small: &Small, _| {
        let n = small.n + 1;
        let goto = next(n);
        async move {
            Ok(NodeOut {
                update: SmallUpdate {
                    n: Some(n),
                    ..Default::default()
                },
                goto,
            })
        }
    });
    graph.node(name, node)
}

fn seq(n: usize) -> Outcome<CompiledGraph<Small>> {
    let mut graph = Graph::<Small>::new();
    for i in 0..n {
        let next = if i + 1 < n { Goto::node(format!("n{}", i + 1)) } else { Goto::end() };
        graph = increase(graph, format!("n{i}"), move |_| next.clone());
    }
    Ok(graph.start_at("n0").compile()?)
}

fn cycle(n: i64) -> Outcome<CompiledGraph<Small>> {
    let graph = increase(Graph::new(), "there".to_owned(), |_| Goto::node("back"));
    let graph = increase(graph, "back".to_owned(), move |reached| {
        if reached < n { Goto::node("there") } else { Goto::end() }
    });
    Ok(graph.start_at("there").compile()?)
}

/// Whoever leads to a node starts it, so the last worker alone leads to the node that counts.
fn fan(n: usize) -> Outcome<CompiledGraph<Small>> {
    let left = Arc::new(AtomicUsize::new(n));
    let source = node_fn::<Small, _, _>("source", move |_: &Small, _| async move {
        let each = (0..n).map(|i| ("worker".to_owned(), serde_json::json!(i)));
        Ok(NodeOut::goto_only(Goto::Send(each.collect())))
    });
    let worker = node_fn::<Small, _, _>("worker", move |_: &Small, context| {
        let i = context.payload().and_then(serde_json::Value::as_i64);
        let is_last = left.fetch_sub(1, Ordering::Relaxed) == 1;
        async move {
            Ok(NodeOut {
                update: SmallUpdate {
                    v: i.into_iter().collect(),
                    ..Default::default()
                },
                goto: if is_last { Goto::node("reduce") } else { Goto::Halt },
            })
        }
    });
    let reduce = node_fn::<Small, _, _>("reduce", |small: &Small, _| {
        let n = small.v.len() as i64;
        async move {
            Ok(NodeOut::end_with(SmallUpdate {
                n: Some(n),
                ..Default::default()
            }))
        }
    });
    let graph = Graph::<Small>::new()
        .node("source", source)
        .node("worker", worker)
        .node("reduce", reduce);
    Ok(graph.start_at("source").compile()?)
}

fn react(n: i64, messages: Messages) -> Outcome<CompiledGraph<Chat>> {
    let theirs = messages.clone();
    let agent = node_fn::<Chat, _, _>("agent", move |chat: &Chat, _| {
        let n = chat.n;
        let said = messages.get(2 * n as usize);
        async move {
            Ok(NodeOut {
                update: ChatUpdate {
                    n: Some(n + 1),
                    messages: vec![said],
                },
                goto: Goto::node("tool"),
            })
        }
    });
    let tool = node_fn::<Chat, _, _>("tool", move |chat: &Chat, _| {
        let said = theirs.get(2 * chat.n as usize + 1);
        let goto = if chat.n < n { Goto::node("agent") } else { Goto::end() };
        async move {
            Ok(NodeOut {
                update: ChatUpdate {
                    n: None,
                    messages: vec![said],
                },
                goto,
            })
        }
    });
    let graph = Graph::<Chat>::new().node("agent", agent).node("tool", tool);
    Ok(graph.start_at("agent").compile()?)
}
