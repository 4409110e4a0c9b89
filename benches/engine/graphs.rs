//! The shapes of graphs. The programs of the rivals have the same, with the same work in the nodes.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use milepost::{Append, Context, End, Exits, Graph, NodeError, Snapshot, State};

use crate::job::Outcome;

/// Elements of the small state's list.
pub(crate) const LIST_LEN: usize = 16;
/// Rounds of a lap.
const LAP: usize = 100;

/// A counter and a short list.
#[derive(Clone, Debug, Default, State)]
pub(crate) struct Small {
    pub(crate) n: i64,
    #[reduce(Append)]
    pub(crate) v: Vec<i64>,
}

impl Small {
    pub(crate) fn start() -> SmallUpdate {
        Self::update().n(0).v((0..LIST_LEN as i64).collect())
    }
}

/// A conversation.
#[derive(Clone, Debug, Default, State)]
pub(crate) struct Chat {
    pub(crate) n: usize,
    #[reduce(Append)]
    pub(crate) messages: Vec<String>,
}

/// Makes the messages of a conversation: each as long, and cheap, for it is the engine that is
/// measured.
#[derive(Clone, Debug)]
pub(crate) struct Messages {
    rest: Arc<str>,
}

impl Messages {
    pub(crate) fn new(bytes: usize) -> Self {
        let letters = ('a'..='z').cycle();
        Self {
            rest: letters.take(bytes).collect::<String>().into(),
        }
    }

    fn get(&self, number: usize) -> String {
        let mut text = String::with_capacity(self.rest.len());
        text.push_str(&number.to_string());
        text.push_str(&self.rest[text.len()..]);
        text
    }
}

/// When every hundredth round began.
#[derive(Clone, Debug, Default)]
pub(crate) struct Laps(Arc<Mutex<Vec<Instant>>>);

impl Laps {
    fn begin(&self) {
        let mut laps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        laps.push(Instant::now());
    }

    /// How long the first lap took and how long the last one, if there are more than two.
    pub(crate) fn ends(&self) -> Option<(Duration, Duration)> {
        let laps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match laps.as_slice() {
            [first, second, _, .., before, last] => Some((*second - *first, *last - *before)),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Exits)]
enum Loop {
    Again,
    Enough,
}

fn again(goes_on: bool) -> Loop {
    if goes_on { Loop::Again } else { Loop::Enough }
}

async fn increase(small: Snapshot<Small>, _: Context) -> Result<SmallUpdate, NodeError> {
    Ok(Small::update().n(small.n + 1))
}

/// `n` nodes in a row; each adds 1.
pub(crate) fn seq(n: usize) -> Outcome<Graph<Small>> {
    let mut g = Graph::builder("seq");
    let mut last = g.node("n0", increase);
    g.start(last);
    for i in 1..n {
        let next = g.node(format!("n{i}"), increase);
        g.edge(last, next);
        last = next;
    }
    g.edge(last, End);
    Ok(g.build()?)
}

/// Two nodes that lead to each other, for `steps` steps, an even number.
pub(crate) fn cycle(steps: i64) -> Outcome<Graph<Small>> {
    let mut g = Graph::builder("cycle");
    let there = g.node("there", increase);
    let back = g.node(
        "back",
        move |small: Snapshot<Small>, _: Context| async move {
            let n = small.n + 1;
            Ok((Small::update().n(n), again(n < steps)))
        },
    );
    g.start(there);
    g.edge(there, back);
    g.wire(back, |exit| match exit {
        Loop::Again => there.into(),
        Loop::Enough => End.into(),
    });
    Ok(g.build()?)
}

/// `n` tasks of one worker, each of which appends one value; then one node counts them.
pub(crate) fn fan(n: usize) -> Outcome<Graph<Small>> {
    let mut g = Graph::builder("fan");
    let source = g.node("source", async |_: Snapshot<Small>, _: Context| {
        Ok(Small::update())
    });
    let worker = g.worker("worker", async |i: i64, _: Snapshot<Small>, _: Context| {
        Ok(Small::update().v(vec![i]))
    });
    let reduce = g.node("reduce", async |small: Snapshot<Small>, _: Context| {
        Ok(Small::update().n(small.v.len() as i64))
    });
    g.start(source);
    g.edge(source, worker.each(move |_| (0..n as i64).collect()));
    g.edge(worker, reduce);
    g.edge(reduce, End);
    Ok(g.build()?)
}

/// `n` rounds of an agent and a tool; each says one message.
pub(crate) fn react(n: usize, messages: Messages, laps: Laps) -> Outcome<Graph<Chat>> {
    let mut g = Graph::builder("react");
    let theirs = messages.clone();
    let agent = g.node("agent", move |chat: Snapshot<Chat>, _: Context| {
        if chat.n.is_multiple_of(LAP) {
            laps.begin();
        }
        let said = vec![messages.get(2 * chat.n)];
        async move { Ok(Chat::update().n(chat.n + 1).messages(said)) }
    });
    let tool = g.node("tool", move |chat: Snapshot<Chat>, _: Context| {
        let said = vec![theirs.get(2 * chat.n + 1)];
        async move { Ok((Chat::update().messages(said), again(chat.n < n))) }
    });
    g.start(agent);
    g.edge(agent, tool);
    g.wire(tool, |exit| match exit {
        Loop::Again => agent.into(),
        Loop::Enough => End.into(),
    });
    Ok(g.build()?)
}
