//! The instances of graphs inside of a run: each counted for itself, then summed.
//!
//! In come events of graphs that nodes run, out goes what they add to the overlay of such a graph.
//! An instance is kept while the task that runs it is open: what is left to run is known of each,
//! not of all together.

use std::collections::BTreeMap;

use super::overlay::Overlay;
use crate::event::{Event, EventKind};
use crate::graph::GraphView;
use crate::ids::TaskPath;

/// The instances that are open, by the tasks that run them.
#[derive(Debug, Default)]
pub(super) struct Inside(BTreeMap<TaskPath, Overlay>);

impl Inside {
    /// Takes in what happened in the graph that a task runs.
    pub(super) fn add(
        &mut self,
        view: &GraphView,
        outer: &TaskPath,
        event: &EventKind,
        overlay: &mut Overlay,
    ) {
        let Some((inner, _)) = graph_of(view, outer) else {
            overlay.miss(format!("the graph inside of {}", outer.task().node));
            return;
        };
        let one = self.0.entry(outer.clone());
        one.or_insert_with(|| Overlay::bare(inner))
            .add(inner, event);
    }

    /// A task that ended, and a position that was left, leaves nothing to run below.
    pub(super) fn close(&mut self, view: &GraphView, event: &Event, overlay: &mut Overlay) {
        let closed: Vec<TaskPath> = match (&event.kind, &event.within) {
            _ if self.0.is_empty() => return,
            (
                EventKind::TaskFinished { task, .. }
                | EventKind::TaskFailed {
                    task,
                    exit: Some(_),
                    ..
                },
                _,
            ) => self.below(task).cloned().collect(),
            (EventKind::Started { .. } | EventKind::Committed { .. }, Some(outer)) => {
                let below = self.below(outer).filter(|path| *path != outer);
                below.cloned().collect()
            }
            (EventKind::Started { .. } | EventKind::Committed { .. }, None) => {
                self.0.keys().cloned().collect()
            }
            _ => return,
        };
        for path in closed {
            if let Some(mut one) = self.0.remove(&path) {
                one.end();
                sum(view, &path, &one, overlay);
            }
        }
    }

    /// Adds those that are still open.
    pub(super) fn left(self, view: &GraphView, overlay: &mut Overlay) {
        for (path, one) in &self.0 {
            sum(view, path, one, overlay);
        }
    }

    /// The instance that a task runs, and those inside of it.
    fn below<'i>(&'i self, task: &'i TaskPath) -> impl Iterator<Item = &'i TaskPath> {
        // Paths that begin with another stand right behind it.
        let from = self.0.range(task..).map(|(path, _)| path);
        from.take_while(|path| path.levels().starts_with(task.levels()))
    }
}

fn sum(view: &GraphView, path: &TaskPath, one: &Overlay, overlay: &mut Overlay) {
    overlay.misses(one, &path.task().node);
    let Some((_, places)) = graph_of(view, path) else {
        return;
    };
    let mut all = Some(overlay);
    for place in places {
        all = all.and_then(|all| all.inner_mut(place));
    }
    if let Some(all) = all {
        all.sum(one);
    }
}

/// The graph that a task runs, and the places of the nodes that lead to it, from the outermost in.
fn graph_of<'g>(mut view: &'g GraphView, path: &TaskPath) -> Option<(&'g GraphView, Vec<usize>)> {
    let mut places = Vec::with_capacity(path.levels().len());
    for level in path.levels() {
        let place = view.nodes.iter().position(|node| node.name == level.node)?;
        places.push(place);
        view = view.nodes[place].inner.as_deref()?;
    }
    Some((view, places))
}
