//! A fan-out to a graph of its own: each writes a joke about a long text, and then ten times more.

use milepost::{Append, Context, End, Exits, Graph, NodeError, Snapshot, State};

use crate::job::Outcome;

/// Steps of one inner graph.
pub(crate) const STEPS: usize = 2 + BUMPS;
const BUMPS: usize = 10;
/// Bytes of a subject.
const SUBJECT: usize = 5_000;

#[derive(Clone, Debug, Default, State)]
pub(crate) struct Jokes {
    subjects: Vec<String>,
    #[reduce(Append)]
    pub(crate) jokes: Vec<String>,
}

#[derive(Clone, Debug, Default, State)]
struct Joke {
    subject: String,
    joke: String,
    bumps: usize,
}

#[derive(Clone, Copy, Exits)]
enum Funny {
    NotYet,
    Enough,
}

/// So many subjects.
pub(crate) fn start(n: usize) -> JokesUpdate {
    let subject = |i: usize| {
        let letters = ('a'..='z').cycle().skip(i % 26);
        letters.take(SUBJECT).collect()
    };
    Jokes::update().subjects((0..n).map(subject).collect())
}

pub(crate) fn jokes() -> Outcome<Graph<Jokes>> {
    let mut g = Graph::builder("jokes");
    let plan = g.node("plan", async |_: Snapshot<Jokes>, _: Context| {
        Ok::<_, NodeError>(Jokes::update())
    });
    let one = g.subgraph_worker(
        "one",
        joke()?,
        |subject: &String, _: &Jokes| Joke::update().subject(subject.clone()),
        |_, joke| Jokes::update().jokes(vec![joke.joke.clone()]),
    );
    g.start(plan);
    g.edge(plan, one.each(|jokes: &Jokes| jokes.subjects.clone()));
    g.edge(one, End);
    Ok(g.build()?)
}

fn joke() -> Outcome<Graph<Joke>> {
    let mut g = Graph::builder("joke");
    let edit = g.node("edit", async |joke: Snapshot<Joke>, _: Context| {
        Ok(Joke::update().subject(format!("{} - hohoho", joke.subject)))
    });
    let generate = g.node("generate", async |joke: Snapshot<Joke>, _: Context| {
        Ok(Joke::update().joke(format!("Joke about {}", joke.subject)))
    });
    let bump = g.node("bump", async |joke: Snapshot<Joke>, _: Context| {
        let bumps = joke.bumps + 1;
        let exit = if bumps < BUMPS {
            Funny::NotYet
        } else {
            Funny::Enough
        };
        let longer = format!("{} a", joke.joke);
        Ok((Joke::update().joke(longer).bumps(bumps), exit))
    });
    g.start(edit);
    g.edge(edit, generate);
    g.edge(generate, bump);
    g.wire(bump, |exit| match exit {
        Funny::NotYet => bump.into(),
        Funny::Enough => End.into(),
    });
    Ok(g.build()?)
}
