//! graph-flow: one task after another over a shared map of JSON values.
//!
//! With `mem` every step is one call of its runner, which loads the session and saves it. It has no
//! store on disk but that of a PostgreSQL server.

use std::sync::Arc;

use async_trait::async_trait;
use graph_flow::{
    Context, ExecutionStatus, FanOutTask, FlowRunner, Graph, GraphBuilder, InMemorySessionStorage,
    NextAction, Session, SessionStorage, Task, TaskResult,
};
use rivals::{Clock, Job, LIST_LEN, Messages, Outcome, Spent};

#[tokio::main]
async fn main() -> Outcome<()> {
    rivals::program("graph-flow", "0.8.1", once).await
}

async fn once(job: Job) -> Outcome<Option<Spent>> {
    let n = job.size as i64;
    let kept = match job.store.as_str() {
        "none" => false,
        "mem" => true,
        _ => return Ok(None),
    };
    let step = if kept { NextAction::Continue } else { NextAction::ContinueAndExecute };
    let (graph, first) = match job.workload.as_str() {
        "seq" => (seq(job.size, &step)?, "n0"),
        "fan" => (fan(job.size)?, "fan"),
        "cycle" => (cycle(n, &step)?, "there"),
        "react" => (react(n, &step, Messages::new(job.bytes))?, "agent"),
        "wide" => (wide(job.size, &step)?, "touch"),
        _ => return Ok(None),
    };
    let session = Session::new_from_task("measured".to_owned(), first);
    session.context.set("n", 0)?;
    session.context.set("v", (0..LIST_LEN).collect::<Vec<i64>>())?;
    if job.workload == "wide" {
        for i in 0..job.size {
            session.context.set(format!("f{i}"), 0)?;
        }
    }
    let (end, spent) = drive(Arc::new(graph), session, kept).await?;
    if job.workload == "react" {
        assert_eq!(end.context.chat_history_len(), 2 * job.size);
    } else {
        assert_eq!(int(&end.context, "n"), n);
    }
    Ok(Some(spent))
}

async fn drive(graph: Arc<Graph>, mut session: Session, kept: bool) -> Outcome<(Session, Spent)> {
    if !kept {
        let clock = Clock::start();
        graph.execute_session(&mut session).await?;
        return Ok((session, clock.stop()));
    }
    let storage = Arc::new(InMemorySessionStorage::new());
    let id = session.id.clone();
    storage.save(session).await?;
    let runner = FlowRunner::new(graph, storage.clone());
    let clock = Clock::start();
    while !matches!(runner.run(&id).await?.status, ExecutionStatus::Completed) {}
    let spent = clock.stop();
    let session = storage.get(&id).await?.ok_or("the session is gone")?;
    Ok((session, spent))
}

/// A task that does something to the map and then goes on in a way that is known before.
struct Does<F> {
    id: String,
    next: NextAction,
    body: F,
}

fn does<F>(id: impl Into<String>, next: &NextAction, body: F) -> Arc<dyn Task>
where
    F: Fn(&Context) -> graph_flow::Result<()> + Send + Sync + 'static,
{
    Arc::new(Does {
        id: id.into(),
        next: next.clone(),
        body,
    })
}

#[async_trait]
impl<F> Task for Does<F>
where
    F: Fn(&Context) -> graph_flow::Result<()> + Send + Sync + 'static,
{
    fn id(&self) -> &str {
        &self.id
    }

    async fn run(&self, context: Context) -> graph_flow::Result<TaskResult> {
        (self.body)(&context)?;
        Ok(TaskResult::new(None, self.next.clone()))
    }
}

fn int(context: &Context, key: &str) -> i64 {
    context.get(key).unwrap_or(0)
}

fn increase(context: &Context) -> graph_flow::Result<()> {
    context.set("n", int(context, "n") + 1)
}

fn seq(n: usize, step: &NextAction) -> Outcome<Graph> {
    let mut graph = GraphBuilder::new("seq");
    for i in 0..n {
        let next = if i + 1 < n { step } else { &NextAction::End };
        graph = graph.add_task(does(format!("n{i}"), next, increase));
    }
    for i in 1..n {
        graph = graph.add_edge(format!("n{}", i - 1), format!("n{i}"));
    }
    Ok(graph.build()?)
}

/// The children are fixed when the graph is built, and write one map without a reducer.
fn fan(n: usize) -> Outcome<Graph> {
    let child = |i: usize| {
        does(format!("w{i}"), &NextAction::End, move |context: &Context| {
            context.set(format!("r{i}"), i as i64)
        })
    };
    let children = FanOutTask::new("fan", (0..n).map(child).collect());
    let reduce = does("reduce", &NextAction::End, move |context: &Context| {
        let found = (0..n).filter(|i| context.get::<i64>(&format!("r{i}")).is_some());
        context.set("n", found.count() as i64)
    });
    let graph = GraphBuilder::new("fan")
        .add_task(children.with_next_action(NextAction::ContinueAndExecute))
        .add_task(reduce)
        .add_edge("fan", "reduce");
    Ok(graph.build()?)
}

fn cycle(n: i64, step: &NextAction) -> Outcome<Graph> {
    let graph = GraphBuilder::new("cycle")
        .add_task(does("there", step, increase))
        .add_task(does("back", step, increase))
        .add_task(does("end", &NextAction::End, |_: &Context| Ok(())))
        .add_edge("there", "back")
        .add_conditional_edge("back", move |context| int(context, "n") < n, "there", "end");
    Ok(graph.build()?)
}

fn react(n: i64, step: &NextAction, messages: Messages) -> Outcome<Graph> {
    let theirs = messages.clone();
    let agent = does("agent", step, move |context: &Context| {
        let n = int(context, "n");
        context.add_assistant_message(messages.get(2 * n as usize));
        context.set("n", n + 1)
    });
    let tool = does("tool", step, move |context: &Context| {
        context.add_system_message(theirs.get(2 * int(context, "n") as usize + 1));
        Ok(())
    });
    let graph = GraphBuilder::new("react")
        .add_task(agent)
        .add_task(tool)
        .add_task(does("end", &NextAction::End, |_: &Context| Ok(())))
        .add_edge("agent", "tool")
        .add_conditional_edge("tool", move |context| int(context, "n") < n, "agent", "end");
    Ok(graph.build()?)
}

/// One value of many is changed in each step; `n` says which.
fn wide(n: usize, step: &NextAction) -> Outcome<Graph> {
    let touch = does("touch", step, |context: &Context| {
        let at = int(context, "n");
        let field = format!("f{at}");
        context.set(field.as_str(), int(context, &field) + 1)?;
        context.set("n", at + 1)
    });
    let graph = GraphBuilder::new("wide")
        .add_task(touch)
        .add_task(does("end", &NextAction::End, |_: &Context| Ok(())))
        .add_conditional_edge(
            "touch",
            move |context| int(context, "n") < n as i64,
            "touch",
            "end",
        );
    Ok(graph.build()?)
}
