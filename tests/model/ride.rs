//! A case, driven and compared with the reference.

use std::sync::Arc;
use std::time::Duration;

use milepost::store::{CheckpointStore, MemoryStore, Severity, check};
use milepost::{Branch, Checkpoint, Event, EventKind, Seq, events, history};

use crate::compiled;
use crate::interpreter::{Closed, Edge, InVain, Model};
use crate::lives::{End, Lives};
use crate::place::Place;
use crate::plan::Case;
use crate::tape::Tape;
use crate::world::World;

/// What became of a case.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Went {
    Well,
    /// `build()` refused the graph.
    Refused,
    /// It differs from the reference, or something else is wrong.
    Wrong(String),
}

/// Longer than any case takes, of which nearly none waits for a real clock.
const LONG: Duration = Duration::from_secs(60);

/// A checkpoint of the line on which the thread stands, as it should be.
type Point<'p> = (Closed, Model<'p>);

pub(crate) fn ride(case: &Case) -> Went {
    let mut tape = Tape::new(&case.ride);
    let place = match tape.below(16) {
        13 | 14 => Place::Nowhere,
        15 => Place::Sled(tempfile::tempdir().unwrap()),
        _ => Place::Memory(MemoryStore::new()),
    };
    let mut builder = match tape.one_in(4) {
        true => {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder.worker_threads(2);
            builder
        }
        false => {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            // A paused clock runs ahead of the threads of a store that has some.
            builder.start_paused(!matches!(place, Place::Sled(_)));
            builder
        }
    };
    let runtime = builder.enable_all().build().unwrap();
    let seed = u64::from(tape.next());
    let drive = async {
        let whole = whole(case, tape, place, seed);
        match tokio::time::timeout(LONG, whole).await {
            Ok(went) => went,
            Err(_) => Err("it hangs".to_owned()),
        }
    };
    let drive = std::panic::AssertUnwindSafe(|| runtime.block_on(drive));
    let went = match std::panic::catch_unwind(drive) {
        Ok(Ok(true)) => Went::Well,
        Ok(Ok(false)) => Went::Refused,
        Ok(Err(wrong)) => Went::Wrong(wrong),
        Err(panic) => Went::Wrong(match panic.downcast_ref::<String>() {
            Some(text) => format!("a panic: {text}"),
            None => "a panic".to_owned(),
        }),
    };
    runtime.shutdown_background();
    went
}

/// Drives a case. False where its graph is refused.
async fn whole(case: &Case, tape: Tape<'_>, place: Place, seed: u64) -> Result<bool, String> {
    let plan = &case.plan;
    let world = World::new(plan, seed);
    if compiled::graph(&world).is_err() {
        return Ok(false);
    }
    let mut lives = Lives::new(Arc::clone(&world), tape, place);
    let mut model = Model::new(plan, 0);
    let mut line: Vec<Point<'_>> = Vec::new();
    let mut abandons = false;
    let inputs = match lives.store {
        Some(_) => plan.inputs.as_slice(),
        None => &plan.inputs[..1],
    };
    for (number, value) in inputs.iter().enumerate() {
        let mut next = model.clone();
        if abandons {
            next.abandon();
        }
        let run = format!("run-{number}");
        let found = lives.input(*value, &run, abandons).await?;
        let end = match next.input(*value) {
            Err(in_vain) => {
                compare_end(found, Err(in_vain), &model)?;
                break;
            }
            Ok(closed) => {
                line.push((closed, next.clone()));
                let (closed, end) = next.finish();
                line.extend(closed);
                end
            }
        };
        model = next;
        abandons = end.is_err();
        compare_end(found, end.clone(), &model)?;
        if abandons && lives.store.is_some() && lives.tape.one_in(2) {
            // Asked again, it says the same.
            let found = lives.go_on().await?;
            compare_end(found, end, &model)?;
        }
    }
    let Some(store) = lives.store.clone() else {
        return done(&world);
    };
    if line.is_empty() {
        return done(&world);
    }
    let mut seqs = compare_line(&lives, &*store, Branch::new(0), 0, &line).await?;
    compare_heard(&lives, &*store).await?;
    for _ in 0..lives.tape.below(3) {
        let at = lives.tape.below(line.len());
        line.truncate(at + 1);
        seqs.truncate(at + 1);
        let runner = lives.runner();
        let moved = match lives.tape.below(2) {
            0 => runner.fork(&lives.thread, seqs[at]).await,
            _ => runner.rewind(&lives.thread, seqs[at]).await,
        };
        let moved = moved.map_err(|error| format!("no way back: {error}"))?;
        lives.salt += 1;
        world.forget();
        model = line[at].1.clone();
        model.salt = lives.salt;
        let mut end = Ok(());
        if !model.frontier.is_empty() {
            let found = lives.go_on().await?;
            let closed;
            (closed, end) = model.finish();
            line.extend(closed);
            compare_end(found, end.clone(), &model)?;
        }
        if end.is_ok() && lives.tape.one_in(3) {
            let value = lives.tape.below(7) as u64;
            let run = format!("run-{}", 100 + lives.salt);
            let found = lives.input(value, &run, false).await?;
            let before = model.clone();
            let end = match model.input(value) {
                Err(in_vain) => {
                    model = before;
                    Err(in_vain)
                }
                Ok(closed) => {
                    line.push((closed, model.clone()));
                    let (closed, end) = model.finish();
                    line.extend(closed);
                    end
                }
            };
            compare_end(found, end, &model)?;
        }
        let new = compare_line(&lives, &*store, moved.branch, at + 1, &line).await?;
        seqs.extend(new);
    }
    let checked = check(&*store, &lives.thread).await;
    let worst = checked.findings.iter().map(|found| found.severity).max();
    if worst > Some(Severity::Note) {
        return Err(format!("the log is not sound: {:#?}", checked.findings));
    }
    let replay = lives.runner().replay(&lives.thread).await;
    let replay = replay.map_err(|error| format!("no replay: {error}"))?;
    if !replay.differences.is_empty() {
        return Err(format!("a replay differs: {:#?}", replay.differences));
    }
    done(&world)
}

fn done(world: &World) -> Result<bool, String> {
    match world.wrong().as_slice() {
        [] => Ok(true),
        wrong => Err(wrong.join("; ")),
    }
}

fn compare_end(found: End, end: Result<(), InVain>, model: &Model<'_>) -> Result<(), String> {
    match (found, end) {
        (End::Finished(state), Ok(())) if *state == model.book => Ok(()),
        (End::Finished(state), Ok(())) => Err(format!(
            "the state is\n{state:?}, and should be\n{:?}",
            model.book
        )),
        (End::InVain(found), Err(in_vain)) if found == in_vain => Ok(()),
        (found, end) => Err(format!("it ends {found:?}, and should {end:?}")),
    }
}

/// Compares the checkpoints of a line from one on, which are all on one branch. Returns where they
/// are.
async fn compare_line(
    lives: &Lives<'_>,
    store: &dyn CheckpointStore,
    branch: Branch,
    from: usize,
    line: &[Point<'_>],
) -> Result<Vec<Seq>, String> {
    let text = |error: milepost::store::StoreError| error.to_string();
    let all = history(store, &lives.thread).await.map_err(text)?;
    let found: Vec<&Checkpoint> = all.iter().filter(|at| at.branch == branch).collect();
    let told = edges(&events(store, &lives.thread).await.map_err(text)?);
    if found.len() != line.len() - from || told.len() != line.len() {
        return Err(format!(
            "{} checkpoints of {branch:?} and {} in the events, and should be {} and {}",
            found.len(),
            told.len(),
            line.len() - from,
            line.len()
        ));
    }
    let runner = lives.runner();
    let mut seqs = Vec::new();
    for (number, (at, (closed, _))) in found.iter().zip(&line[from..]).enumerate() {
        let state = runner.state_at(&lives.thread, at.seq).await;
        let state = state.map_err(|error| error.to_string())?;
        let was = Closed {
            step: at.step.get(),
            ran: match at.input {
                Some(_) => Vec::new(),
                None => at.ran.clone(),
            },
            edges: told[from + number].clone(),
            next: at.next.clone(),
            book: (*state).clone(),
        };
        if was != *closed {
            return Err(format!(
                "a checkpoint is\n{was:?}, and should be\n{closed:?}"
            ));
        }
        seqs.push(at.seq);
    }
    Ok(seqs)
}

/// The edges taken at each checkpoint.
fn edges(events: &[Event]) -> Vec<Vec<Edge>> {
    let outermost = events.iter().filter(|event| event.within.is_none());
    let edges = outermost.filter_map(|event| match &event.kind {
        EventKind::Started { edges, .. } | EventKind::Committed { edges, .. } => Some(edges),
        _ => None,
    });
    let edge = |edge: &milepost::TakenEdge| {
        let name = |name: &Option<milepost::NodeName>| name.as_ref().map(ToString::to_string);
        (
            name(&edge.from),
            edge.label.clone(),
            name(&edge.to),
            edge.tasks,
        )
    };
    edges
        .map(|edges| edges.iter().map(edge).collect())
        .collect()
}

/// What was heard is in the log; all of it, where all calls were listened to.
async fn compare_heard(lives: &Lives<'_>, store: &dyn CheckpointStore) -> Result<(), String> {
    let told = events(store, &lives.thread).await;
    let told = told.map_err(|error| error.to_string())?;
    let mut heard = lives.heard.clone();
    // Graphs inside that run at the same time are heard as they come, each in its own order.
    heard.sort_by_key(|event| event.seq);
    let of = |events: &[Event], graph: &Event| -> Vec<Event> {
        let same = events.iter().filter(|event| event.within == graph.within);
        same.cloned().collect()
    };
    let same = |event: &Event| of(&lives.heard, event) == of(&told, event);
    if lives.heard_all && !(heard == told && told.iter().all(same)) {
        return Err(format!("heard\n{:?}\ntold\n{told:?}", lives.heard));
    }
    match lives.heard.iter().find(|event| !told.contains(event)) {
        Some(event) => Err(format!("heard, and not told later: {event:?}")),
        None => Ok(()),
    }
}
