//! The outer side of a subgraph: what its run remembers, serves and answers for the one inside.

use std::sync::Arc;

use super::held::{Held, Resting};
use super::{Host, InnerWrite};
use crate::ids::Seq;
use crate::policy::now_ms;
use crate::run::handle::{Run, Stage};
use crate::run::{Cancel, RunError};
use crate::state::State;
use crate::store::Record;

impl<S: State> Run<S> {
    /// Takes up a run that was left in this process, without a store: with a new budget, and with
    /// the answers that were given meanwhile.
    pub(super) fn taken_up(&mut self, host: &Host, stop: Cancel, limit: u64) {
        self.stop.cancel = Some(stop);
        self.limit = self.executed.saturating_add(limit);
        if host.pulse.is_some() || self.shared.port.pulse.is_some() {
            self.shared = Arc::new(self.shared.watched(host.pulse.clone()));
        }
        let inners = Arc::clone(&host.port.inners);
        for asking in &mut self.questions.0 {
            let id = match &asking.inside {
                Some(_) => asking.open.id.clone(),
                None => asking.open.id.within(&host.path),
            };
            if asking.answer.is_none() {
                asking.answer = inners.answered(&id);
            }
        }
        self.share_answers();
    }

    /// Takes what the log says of subgraphs in the open superstep; those that can only wait do.
    pub(in crate::run) fn remember_inner(
        &mut self,
        records: &[(Seq, Arc<Record>)],
    ) -> Result<(), RunError> {
        let port = Arc::clone(&self.shared.port);
        for (at, record) in records {
            let Record::Inner(inner) = &**record else {
                continue;
            };
            let place = || format!("thread {}, record {at}", port.thread);
            let hint = "Restore the store from a copy, or fork the thread from an older checkpoint";
            port.inners
                .read(*at, inner)
                .map_err(|why| RunError::Store(why.at(place(), hint)))?;
        }
        let Stage::At(position) = &self.stage else {
            return Ok(());
        };
        let ended = |place: usize| position.recorded.iter().any(|(ended, _)| *ended == place);
        let mut waits = Vec::new();
        for (place, task) in position.frontier.iter().enumerate() {
            if ended(place) || self.shared.graph.tables().node(task.node).inner.is_none() {
                continue;
            }
            let path = self.shared.path(position.step + 1, task.node, task.index);
            let path = match &port.within {
                Some(outer) => path.within(outer),
                None => path,
            };
            let resting = port.inners.resting(&path, now_ms());
            waits.extend(resting.map(|resting| (place, resting)));
        }
        for (place, resting) in waits {
            self.rest(place, resting);
        }
        Ok(())
    }

    /// Takes the reason why the graph that a task runs did not come to its end.
    pub(in crate::run) fn hold(&mut self, place: usize, held: Held) {
        match held {
            Held::Resting(resting) => self.rest(place, resting),
            Held::Limited(limit, whose) => {
                self.limited.get_or_insert((limit, whose));
            }
            Held::Stopped => {}
        }
    }

    fn rest(&mut self, place: usize, resting: Resting) {
        self.wake(place);
        self.questions.forget_inside(place);
        let rests = resting.rests;
        let due = resting.due_ms.filter(|_| rests);
        self.parked.extend(due.map(|due| (place, due)));
        let questions = resting.questions.into_iter();
        self.questions.0.extend(questions.map(|mut asking| {
            asking.place = place;
            if let Some(inside) = &mut asking.inside {
                inside.rests = rests;
            }
            asking
        }));
    }

    /// Has a task that runs a graph be run again: something inside can go on. What is asked inside can
    /// still be answered.
    pub(in crate::run) fn wake(&mut self, place: usize) {
        for asking in self.questions.0.iter_mut() {
            if let Some(inside) = &mut asking.inside
                && asking.place == place
            {
                inside.rests = false;
            }
        }
        self.parked.retain(|(parked, _)| *parked != place);
    }

    /// Tells the graphs inside what was written for them.
    pub(in crate::run) fn written_inside(&self, write: &InnerWrite, first: Seq) {
        for (stored, at) in write.stored.iter().zip(first.get()..) {
            let inners = &self.shared.port.inners;
            inners.written(&write.path, Seq::new(at), stored);
        }
    }
}
