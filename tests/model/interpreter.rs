//! The reference: what a plan does, superstep by superstep, read off the plan alone.
//!
//! It knows the written rules (merge order, exits, branches, fan-outs, joins, gathers) and nothing of
//! the engine: no store, no time, no task, no failure, no pause. Of those, the rules say that they do
//! not show.

use std::collections::BTreeSet;

use crate::book::{self, Book, Effect};
use crate::plan::{Join, Out, Plan, Time, To, Wait};

/// A thread of a plan between two supersteps.
#[derive(Clone, Debug)]
pub(crate) struct Model<'p> {
    plan: &'p Plan,
    /// Who answers.
    pub(crate) salt: u64,
    /// The path of the task that runs it, with a slash; empty for the outermost.
    inside: String,
    pub(crate) book: Book,
    pub(crate) step: u64,
    pub(crate) frontier: Vec<Task>,
    waiting: Vec<Round>,
    /// Rounds that went on without all of their members, in order.
    over: Vec<Over>,
    /// How many rounds there were, to tell them apart.
    rounds: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) node: usize,
    pub(crate) index: u64,
    pub(crate) payload: Option<u64>,
}

/// For which rounds somebody comes too late.
type Late = BTreeSet<usize>;

/// A round of a join that waits.
#[derive(Clone, Debug)]
struct Round {
    join: usize,
    arrived: BTreeSet<usize>,
    late: Late,
}

/// A round of a join that went on without all of its members.
#[derive(Clone, Debug)]
struct Over {
    round: usize,
    join: usize,
    arrived: BTreeSet<usize>,
    /// The nodes of the frontier that come too late for it.
    late: BTreeSet<usize>,
}

/// An edge that was taken: from where, by which label, to where, to how many tasks.
pub(crate) type Edge = (Option<String>, String, Option<String>, u32);

/// A closed boundary.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Closed {
    pub(crate) step: u64,
    /// The nodes that ran, in merge order, with how often each did.
    pub(crate) ran: Vec<(String, u32)>,
    pub(crate) edges: Vec<Edge>,
    pub(crate) next: Vec<(String, u32)>,
    pub(crate) book: Book,
}

/// Joins that wait in vain.
pub(crate) type InVain = Vec<usize>;

pub(crate) fn node_name(node: usize) -> String {
    format!("n{node}")
}

pub(crate) fn join_name(join: usize) -> String {
    format!("j{join}")
}

impl<'p> Model<'p> {
    pub(crate) fn new(plan: &'p Plan, salt: u64) -> Self {
        Self {
            plan,
            salt,
            inside: String::new(),
            book: Book::default(),
            step: 0,
            frontier: Vec::new(),
            waiting: Vec::new(),
            over: Vec::new(),
            rounds: 0,
        }
    }

    /// Takes an input. One that leads only to joins that wait in vain is refused.
    pub(crate) fn input(&mut self, value: u64) -> Result<Closed, InVain> {
        let mut book = self.book.clone();
        merge(&mut book, &[book::input(value)]);
        (self.waiting, self.over) = (Vec::new(), Vec::new());
        let mut route = Route::new(self, &book);
        route.follow(None, None, "", &self.plan.start, &Late::new());
        route.go_on();
        let found = route.end()?;
        Ok(self.close(book, Vec::new(), found))
    }

    /// Gives up what is open: what has finished is kept, which is all of it where joins wait in
    /// vain.
    pub(crate) fn abandon(&mut self) {
        let tasks = std::mem::take(&mut self.frontier);
        let effects: Vec<_> = tasks.iter().map(|task| self.run(task).0).collect();
        merge(&mut self.book, &effects);
        self.step += 1;
    }

    /// Runs the tasks of a superstep, merges what they return in their order, and finds what is
    /// next.
    pub(crate) fn superstep(&mut self) -> Result<Closed, InVain> {
        let ends: Vec<_> = self.frontier.iter().map(|task| self.run(task)).collect();
        let mut book = self.book.clone();
        let effects: Vec<_> = ends.iter().map(|(effect, _)| effect.clone()).collect();
        merge(&mut book, &effects);
        let mut route = Route::new(self, &book);
        let mut place = 0;
        while place < self.frontier.len() {
            let node = self.frontier[place].node;
            let group = self.frontier[place..]
                .iter()
                .take_while(|task| task.node == node)
                .count();
            let late = self.over.iter().filter(|over| over.late.contains(&node));
            let late: Late = late.map(|over| over.round).collect();
            let exits = ends[place..place + group]
                .iter()
                .filter_map(|(_, exit)| *exit);
            route.leave(node, &exits.collect::<Vec<_>>(), &late);
            place += group;
        }
        route.go_on();
        let found = route.end()?;
        let ran = counted(&self.frontier);
        Ok(self.close(book, ran, found))
    }

    /// Everything until nothing is left to run.
    pub(crate) fn finish(&mut self) -> (Vec<(Closed, Self)>, Result<(), InVain>) {
        let mut all = Vec::new();
        while !self.frontier.is_empty() {
            match self.superstep() {
                Ok(closed) => all.push((closed, self.clone())),
                Err(in_vain) => return (all, Err(in_vain)),
            }
            assert!(self.step < 2_000, "a plan comes to its end");
        }
        (all, Ok(()))
    }

    /// What a task returns: its effect, and which exit it takes; none where it failed and the graph
    /// tolerates that.
    fn run(&self, task: &Task) -> (Effect, Option<bool>) {
        let (plan, seen) = (self.plan, &self.book);
        let payload = task.payload.unwrap_or(0);
        if book::is_tolerated(plan, task.node, payload) {
            return (book::tolerated(task.node, payload), None);
        }
        let path = format!(
            "{}{}:{}[{}]",
            self.inside,
            self.step + 1,
            node_name(task.node),
            task.index
        );
        if let Some(inner) = &plan.nodes[task.node].inner {
            let mut model = Model::new(inner, self.salt);
            model.inside = format!("{path}/");
            let entered = model.input(book::enter(seen, payload));
            let (_, ended) = model.finish();
            assert!(entered.is_ok() && ended.is_ok(), "it has no joins");
            let effect = book::leave(plan, task.node, payload, &model.book);
            return (effect, Some(false));
        }
        let steps = 0..plan.nodes[task.node].does.steps;
        let mut gets: Vec<u64> = steps
            .map(|number| book::step(task.node, payload, number, seen))
            .collect();
        for (round, waits) in book::rounds(plan, task.node, seen).iter().enumerate() {
            for (place, wait) in waits.iter().enumerate() {
                gets.push(match wait {
                    Wait::None => book::DEFAULT,
                    Wait::Ever | Wait::Long => {
                        let id = format!("{path}.{}", book::key(round, place));
                        book::answer(self.salt, &id)
                    }
                });
            }
        }
        let effect = book::task(plan, task.node, payload, seen, &gets);
        let exit = match &plan.nodes[task.node].out {
            Out::Exits { by, .. } => book::is_second(by, seen, payload),
            _ => false,
        };
        (effect, Some(exit))
    }

    fn close(&mut self, book: Book, ran: Vec<(String, u32)>, found: Found) -> Closed {
        self.step += u64::from(!ran.is_empty());
        self.book = book;
        self.rounds = found.rounds;
        self.frontier = found.frontier;
        self.waiting = found.waiting;
        self.over = found.over;
        Closed {
            step: self.step,
            ran,
            edges: found.edges,
            next: counted(&self.frontier),
            book: self.book.clone(),
        }
    }
}

/// Merges effects in their order, field by field.
fn merge(book: &mut Book, effects: &[Effect]) {
    let mut word = String::new();
    for effect in effects {
        book.log.push(effect.line.clone());
        book.sum += effect.sum;
        book.laps += effect.laps;
        book.runs += effect.runs;
        book.top = book.top.max(effect.value);
        book.seen.insert(effect.value % 16);
        book.fold = book.fold.wrapping_mul(31).wrapping_add(effect.value);
        book.braid.push_str(&effect.strand());
        if effect.sole {
            book.last = effect.value;
            word = effect.word();
        }
    }
    // There for one superstep.
    book.word = word;
}

fn counted(tasks: &[Task]) -> Vec<(String, u32)> {
    let mut counted: Vec<(String, u32)> = Vec::new();
    for task in tasks {
        let name = node_name(task.node);
        match counted.last_mut() {
            Some((last, count)) if *last == name => *count += 1,
            _ => counted.push((name, 1)),
        }
    }
    counted
}

struct Found {
    frontier: Vec<Task>,
    waiting: Vec<Round>,
    over: Vec<Over>,
    edges: Vec<Edge>,
    rounds: usize,
}

/// The way from one superstep to the next.
struct Route<'p, 'm> {
    plan: &'p Plan,
    book: &'m Book,
    next: Vec<Task>,
    /// Each edge that led to a node, with for which rounds it came too late.
    led: Vec<(usize, Late)>,
    /// Workers that got no payload from somebody, with whether they were left already.
    empty: Vec<(usize, bool)>,
    waiting: Vec<Round>,
    over: Vec<Over>,
    edges: Vec<Edge>,
    rounds: usize,
}

impl<'p, 'm> Route<'p, 'm> {
    fn new(model: &Model<'p>, book: &'m Book) -> Self {
        Self {
            plan: model.plan,
            book,
            next: Vec::new(),
            led: Vec::new(),
            empty: Vec::new(),
            waiting: model.waiting.clone(),
            over: model.over.clone(),
            edges: Vec::new(),
            rounds: model.rounds,
        }
    }

    /// Leaves a node after its tasks, by the exits that they took.
    fn leave(&mut self, node: usize, exits: &[bool], late: &Late) {
        let from = Some(node_name(node));
        match &self.plan.nodes[node].out {
            Out::Edge(way) => self.follow(Some(node), from, "", way, late),
            Out::Branch { a, b, by } => match book::is_second(by, self.book, 0) {
                false => self.follow(Some(node), from, "A", a, late),
                true => self.follow(Some(node), from, "B", b, late),
            },
            Out::Exits { a, b, empty, .. } => {
                // Each exit once, in the order of the first task that took it.
                let mut taken: Vec<bool> = Vec::new();
                for exit in exits {
                    if !taken.contains(exit) {
                        taken.push(*exit);
                    }
                }
                for second in &taken {
                    let (label, way) = if *second { ("B", b) } else { ("A", a) };
                    self.follow(Some(node), from.clone(), label, way, late);
                }
                if taken.is_empty() {
                    self.follow(Some(node), from, "when empty", empty, late);
                }
            }
        }
    }

    fn follow(
        &mut self,
        node: Option<usize>,
        from: Option<String>,
        label: &str,
        way: &[To],
        late: &Late,
    ) {
        let take = |edges: &mut Vec<Edge>, to: Option<String>, tasks: usize| {
            edges.push((from.clone(), label.to_owned(), to, tasks as u32));
        };
        if way.is_empty() {
            take(&mut self.edges, None, 1);
        }
        for to in way {
            match to {
                To::Node(to) => {
                    take(&mut self.edges, Some(node_name(*to)), 1);
                    self.led.push((*to, late.clone()));
                    self.next.push(Task {
                        node: *to,
                        index: 0,
                        payload: None,
                    });
                }
                To::Each(worker, count) => {
                    let payloads = book::payloads(count, self.book);
                    take(&mut self.edges, Some(node_name(*worker)), payloads.len());
                    self.led.push((*worker, late.clone()));
                    let known = self.empty.iter().any(|(known, _)| known == worker);
                    if payloads.is_empty() && !known {
                        self.empty.push((*worker, false));
                    }
                    self.next.extend(payloads.into_iter().map(|payload| Task {
                        node: *worker,
                        index: 0,
                        payload: Some(payload),
                    }));
                }
                To::Join(join) => {
                    take(&mut self.edges, Some(join_name(*join)), 0);
                    if let Some(node) = node {
                        self.arrive(*join, node, late);
                    }
                }
            }
        }
    }

    /// Leaves workers without any task and joins that need not wait, until there is none.
    fn go_on(&mut self) {
        loop {
            if let Some(worker) = self.empty_worker() {
                if !self.next.iter().any(|task| task.node == worker) {
                    let late = self.late_of(worker);
                    self.leave(worker, &[], &late);
                }
            } else if let Some(place) = self.ripe() {
                let round = self.waiting.remove(place);
                let join = &self.plan.joins[round.join];
                // A gather that was not cut short has waited for all that can come.
                if !join.gathers || join.timeout == Some(Time::None) {
                    self.late_from_now(&round);
                }
                self.follow(None, Some(join_name(round.join)), "", &join.to, &round.late);
            } else {
                return;
            }
        }
    }

    /// The next worker without a task to be left: one that no other of them may still give tasks.
    fn empty_worker(&mut self) -> Option<usize> {
        let open: Vec<usize> = (0..self.empty.len())
            .filter(|place| !self.empty[*place].1)
            .collect();
        let fed = |place: &usize| {
            open.iter().any(|other| {
                other != place && self.feeds(self.empty[*other].0, self.empty[*place].0)
            })
        };
        let place = *open.iter().find(|place| !fed(place)).or(open.first())?;
        self.empty[place].1 = true;
        Some(self.empty[place].0)
    }

    /// Whether a worker without a task may lead to tasks of another one, at once.
    fn feeds(&self, from: usize, to: usize) -> bool {
        let (mut open, mut seen) = (vec![from], BTreeSet::from([from]));
        while let Some(worker) = open.pop() {
            let ways: Vec<&[To]> = match &self.plan.nodes[worker].out {
                Out::Exits { empty, .. } => vec![empty],
                out => out.ways(),
            };
            for way in ways.concat() {
                match way {
                    To::Each(next, _) if next == to => return true,
                    To::Each(next, _) if seen.insert(next) => open.push(next),
                    _ => {}
                }
            }
        }
        false
    }

    /// For which rounds a node comes too late: those for which all that led to it did.
    fn late_of(&self, node: usize) -> Late {
        let led: Vec<&Late> = self
            .led
            .iter()
            .filter(|(to, _)| *to == node)
            .map(|(_, late)| late)
            .collect();
        let all = |round: &&usize| led.iter().all(|late| late.contains(round));
        match led.first() {
            Some(first) => first.iter().filter(all).copied().collect(),
            None => Late::new(),
        }
    }

    /// Which join goes on: one that has enough at once, one that waits for all that come when none
    /// can come any more.
    fn ripe(&self) -> Option<usize> {
        let mut order: Vec<usize> = (0..self.waiting.len()).collect();
        order.sort_by_key(|place| self.waiting[*place].join);
        let join = |place: usize| &self.plan.joins[self.waiting[place].join];
        let has_must = |place: usize| {
            let must = join(place).must;
            must.is_none_or(|must| self.waiting[place].arrived.contains(&must))
        };
        let has_enough = |place: usize| {
            has_must(place) && self.waiting[place].arrived.len() >= enough(join(place))
        };
        let at_once = order.iter().find(|place| {
            let is_over = join(**place).timeout == Some(Time::None);
            (!join(**place).gathers && has_enough(**place)) || (is_over && has_must(**place))
        });
        if at_once.is_some() {
            return at_once.copied();
        }
        let goes_on = |place: usize| {
            (join(place).gathers && has_enough(place))
                || (join(place).timeout.is_some() && has_must(place))
        };
        order.retain(|place| {
            let to = self.waiting[*place].join;
            let mut live = self.next.iter();
            goes_on(*place) && !live.any(|task| reaches(self.plan, task.node, to))
        });
        // One that another may still lead to waits for it; of those that lead to each other, the
        // one that was declared first goes on.
        let leads = |from: usize, to: usize| {
            let to = self.waiting[to].join;
            let from = self.waiting[from].join;
            from != to && join_reaches(self.plan, from, to)
        };
        let is_first = |place: &&usize| {
            let mut others = order.iter().filter(|other| leads(**other, **place));
            others.all(|other| leads(**place, *other))
        };
        order.iter().find(is_first).copied()
    }

    /// Whoever is on the way now and can come, comes too late for a round that goes on.
    fn late_from_now(&mut self, round: &Round) {
        let (plan, number) = (self.plan, self.rounds);
        self.rounds += 1;
        for (to, late) in &mut self.led {
            if reaches(plan, *to, round.join) {
                late.insert(number);
            }
        }
        for other in &mut self.waiting {
            if join_reaches(plan, other.join, round.join) {
                other.late.insert(number);
            }
        }
        self.over.push(Over {
            round: number,
            join: round.join,
            arrived: round.arrived.clone(),
            late: BTreeSet::new(),
        });
    }

    /// A node arrives at a join: late for a round that lacks it, or in the round that waits.
    fn arrive(&mut self, join: usize, node: usize, late: &Late) {
        let lacks = |over: &&mut Over| {
            over.join == join && late.contains(&over.round) && !over.arrived.contains(&node)
        };
        if let Some(over) = self.over.iter_mut().find(lacks) {
            over.arrived.insert(node);
            return;
        }
        match self.waiting.iter_mut().find(|round| round.join == join) {
            Some(round) => {
                round.arrived.insert(node);
                round.late.retain(|number| late.contains(number));
            }
            None => self.waiting.push(Round {
                join,
                arrived: BTreeSet::from([node]),
                late: late.clone(),
            }),
        }
    }

    /// The frontier in its order: by node as declared, then as the edges were taken; a node once, a
    /// worker once for each payload.
    fn end(mut self) -> Result<Found, InVain> {
        let mut frontier: Vec<Task> = Vec::new();
        let mut tasks = std::mem::take(&mut self.next);
        tasks.sort_by_key(|task| task.node);
        for mut task in tasks {
            if let Some(last) = frontier.last()
                && last.node == task.node
            {
                if task.payload.is_none() {
                    continue;
                }
                task.index = last.index + 1;
            }
            frontier.push(task);
        }
        if frontier.is_empty() && !self.waiting.is_empty() {
            let mut in_vain: Vec<usize> = self.waiting.iter().map(|round| round.join).collect();
            in_vain.sort_unstable();
            return Err(in_vain);
        }
        for task in &frontier {
            let late = self.late_of(task.node);
            for over in &mut self.over {
                over.late.remove(&task.node);
                if late.contains(&over.round) {
                    over.late.insert(task.node);
                }
            }
        }
        for over in &mut self.over {
            over.late
                .retain(|node| frontier.iter().any(|task| task.node == *node));
        }
        Ok(Found {
            frontier,
            waiting: self.waiting,
            over: self.over,
            edges: self.edges,
            rounds: self.rounds,
        })
    }
}

/// How many members are enough.
fn enough(join: &Join) -> usize {
    let all = if join.gathers { 1 } else { join.members.len() };
    join.at_least.unwrap_or(all)
}

/// Whether a node can lead to a join, in any number of supersteps.
fn reaches(plan: &Plan, node: usize, join: usize) -> bool {
    ways_reach(plan, plan.nodes[node].out.ways().concat(), join)
}

fn join_reaches(plan: &Plan, from: usize, to: usize) -> bool {
    ways_reach(plan, plan.joins[from].to.clone(), to)
}

fn ways_reach(plan: &Plan, mut open: Vec<To>, join: usize) -> bool {
    let mut seen = Vec::new();
    while let Some(at) = open.pop() {
        match &at {
            To::Join(found) if *found == join => return true,
            _ if seen.contains(&at) => {}
            To::Join(other) => open.extend(plan.joins[*other].to.clone()),
            To::Node(node) | To::Each(node, _) => {
                open.extend(plan.nodes[*node].out.ways().concat());
            }
        }
        seen.push(at);
    }
    false
}
