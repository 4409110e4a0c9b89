//! The graphs that are killed.

use std::future::{Ready, ready};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use milepost::{Context, End, Exits, Graph, IntoOutput, NodeError, RunOptions, Snapshot};
use serde::{Deserialize, Serialize};

use super::diary::{Diary, Effect};
use super::state::{Work, WorkUpdate};
use super::trouble::{fan, poison, stumble};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Shape {
    /// A loop of two nodes, three rounds, and a way out.
    Chain,
    /// Two nodes at once, then one.
    Diamond,
    /// Workers of which one fails and is retried, one fails and is tolerated; then a gather.
    Fan,
    /// A decision on the merged state, by a counter outside of it.
    Branch,
    /// Fan-outs over nothing, one behind the other.
    Empty,
    /// A list of many KiB over several bases.
    Long,
    /// Reducers of one's own, two writers at once, a field for one superstep.
    Mixed,
    /// A node and a decision that fail the first time they are tried.
    Stumble,
    /// A node that ends its process.
    Poison,
    /// The same node, mended.
    Mended,
}

#[derive(Clone, Copy, Exits)]
enum Round {
    Again,
    Enough,
}

#[derive(Clone, Copy, Exits)]
pub(crate) enum Side {
    Left,
    Right,
}

impl Shape {
    pub(crate) fn graph(self, diary: &Diary) -> Graph<Work> {
        match self {
            Self::Chain => chain(diary),
            Self::Diamond => diamond(diary),
            Self::Fan => fan(diary),
            Self::Branch => branch(diary),
            Self::Empty => empty(diary),
            Self::Long => long(diary),
            Self::Mixed => mixed(diary),
            Self::Stumble => stumble(diary),
            Self::Poison => poison(diary, true),
            Self::Mended => poison(diary, false),
        }
    }

    /// Whether its runs fail, and have to be gone on with.
    pub(crate) fn fails(self) -> bool {
        self == Self::Stumble
    }

    pub(crate) fn options(self) -> RunOptions {
        match self {
            Self::Long => RunOptions::new().base_every(3),
            Self::Mixed => RunOptions::new().base_every(2),
            _ => RunOptions::new(),
        }
    }
}

/// A node that is done at once.
pub(crate) fn node<R: IntoOutput<Work>>(
    diary: &Diary,
    body: impl Fn(&Work) -> R + Send + Sync + 'static,
) -> impl Fn(Snapshot<Work>, Context) -> Ready<Result<R, NodeError>> + Send + Sync + 'static {
    let diary = diary.clone();
    move |state, cx| {
        diary.enter(&cx);
        ready(Ok(body(&state)))
    }
}

pub(crate) fn log(text: impl Into<String>) -> WorkUpdate {
    Work::update().log(vec![text.into()])
}

/// Up to two milliseconds, never the same.
pub(crate) async fn moment() {
    let random = RandomState::new().hash_one(0u8);
    if !random.is_multiple_of(4) {
        tokio::time::sleep(Duration::from_micros(random % 2_000)).await;
    }
}

fn chain(diary: &Diary) -> Graph<Work> {
    let mut g = Graph::builder("chain");
    let a = g.node(
        "a",
        node(diary, |work: &Work| {
            let n = work.n + 1;
            let round = if n.is_multiple_of(3) {
                Round::Enough
            } else {
                Round::Again
            };
            (log(format!("a{n}")).n(n).sum(1), round)
        }),
    );
    let b = g.node(
        "b",
        node(diary, |work: &Work| {
            log(format!("b{}", work.n)).map([(format!("b{}", work.n), work.sum)].into())
        }),
    );
    let c = g.node("c", node(diary, |work: &Work| log("c").sum(work.sum)));
    g.start(a);
    g.wire(a, |round| match round {
        Round::Again => b.into(),
        Round::Enough => c.into(),
    });
    g.edge(b, a);
    g.edge(c, End);
    g.build().unwrap()
}

fn diamond(diary: &Diary) -> Graph<Work> {
    let mut g = Graph::builder("diamond");
    let split = g.node("split", node(diary, |_: &Work| log("split").sum(1)));
    let slow = diary.clone();
    let left = g.node("left", move |_: Snapshot<Work>, cx: Context| {
        slow.enter(&cx);
        async {
            moment().await;
            Ok(log("left").sum(10))
        }
    });
    let right = g.node("right", node(diary, |_: &Work| log("right").sum(100)));
    let meet = g.node("meet", node(diary, |work: &Work| log("meet").n(work.sum)));
    g.start(split);
    g.edge(split, left.and(right));
    g.edge(left, meet);
    g.edge(right, meet);
    g.edge(meet, End);
    g.build().unwrap()
}

fn branch(diary: &Diary) -> Graph<Work> {
    let mut g = Graph::builder("branch");
    let a = g.node("a", node(diary, |work: &Work| log("a").n(work.n + 1)));
    let left = g.node("left", node(diary, |_: &Work| log("Left")));
    let right = g.node("right", node(diary, |_: &Work| log("Right")));
    let theirs = diary.clone();
    let choose = move |work: &Work| {
        if work.n != 1 {
            return Err(NodeError::invalid("the state is not the merged one"));
        }
        let asked = theirs.read();
        let first = !asked.iter().any(|line| matches!(line, Effect::Asked(..)));
        let (side, name) = if first {
            (Side::Left, "left")
        } else {
            (Side::Right, "right")
        };
        theirs.note(&Effect::Asked("main".to_owned(), 1, name.to_owned()));
        Ok(side)
    };
    g.start(a);
    g.branch(a, choose, |side| match side {
        Side::Left => left.into(),
        Side::Right => right.into(),
    });
    g.edge(left, End);
    g.edge(right, End);
    g.build().unwrap()
}

fn empty(diary: &Diary) -> Graph<Work> {
    let mut g = Graph::builder("empty");
    let worker = |name: &'static str| {
        let diary = diary.clone();
        move |item: u64, _: Snapshot<Work>, cx: Context| {
            diary.enter(&cx);
            ready(Ok(log(format!("{name} {item}"))))
        }
    };
    let plan = g.node("plan", node(diary, |_: &Work| log("plan")));
    let outer = g.worker("outer", worker("outer"));
    let some = g.worker("some", worker("some"));
    let inner = g.worker("inner", worker("inner"));
    let last = g.node("last", node(diary, |_: &Work| log("last")));
    g.start(plan);
    g.edge(plan, outer.each(|_: &Work| Vec::new()));
    g.edge(outer, some.each(|_: &Work| vec![7, 8]));
    g.edge(some, inner.each(|_: &Work| Vec::new()));
    g.edge(inner, last);
    g.edge(last, End);
    g.build().unwrap()
}

fn long(diary: &Diary) -> Graph<Work> {
    let mut g = Graph::builder("long");
    let grow = g.node(
        "grow",
        node(diary, |work: &Work| {
            let n = work.n + 1;
            let size = |item: u64| 1_000 + (n * 977 + item * 331) as usize % 3_000;
            let texts = (0..7).map(|item| format!("{n}.{item}.").repeat(size(item) / 4));
            let round = if n.is_multiple_of(6) {
                Round::Enough
            } else {
                Round::Again
            };
            (Work::update().n(n).texts(texts.collect()).fold(n), round)
        }),
    );
    g.start(grow);
    g.wire(grow, |round| match round {
        Round::Again => grow.into(),
        Round::Enough => End.into(),
    });
    g.build().unwrap()
}

fn mixed(diary: &Diary) -> Graph<Work> {
    let mut g = Graph::builder("mixed");
    let open = g.node(
        "open",
        node(diary, |work: &Work| {
            Work::update()
                .n(work.n + 1)
                .fold(5)
                .word(format!("word {}", work.n))
        }),
    );
    let x = g.node(
        "x",
        node(diary, |work: &Work| {
            log(&*work.word).fold(2).braid("x".to_owned())
        }),
    );
    let y = g.node(
        "y",
        node(diary, |work: &Work| {
            log(&*work.word).fold(3).braid("y".to_owned())
        }),
    );
    let read = g.node(
        "read",
        node(diary, |work: &Work| {
            let round = if work.n.is_multiple_of(2) {
                Round::Enough
            } else {
                Round::Again
            };
            let seen = format!("{:?} {} {}", work.word, work.fold, work.braid);
            (log(seen).word("left over".to_owned()), round)
        }),
    );
    g.start(open);
    g.edge(open, x.and(y));
    g.edge(x, read);
    g.edge(y, read);
    g.wire(read, |round| match round {
        Round::Again => open.into(),
        Round::Enough => End.into(),
    });
    g.build().unwrap()
}
