//! Joins: places where branches wait for each other.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use super::builder::Builder;
use super::compiled::{Entry, Out};
use super::error::Problem;
use super::reach::{Places, Reach};
use super::target::{At, Dest, IntoTarget, Place, Target};
use crate::ids::NodeName;
use crate::state::State;

/// The place where a join waits; made by [`Joining::place`]. Edges, exits and branches of its
/// members lead to it.
pub struct JoinRef<S> {
    at: At,
    types: PhantomData<fn() -> S>,
}

impl<S> Clone for JoinRef<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for JoinRef<S> {}

impl<S> fmt::Debug for JoinRef<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JoinRef({})", self.at.node)
    }
}

impl<S: State> JoinRef<S> {
    /// Leads to this join and to `other`, in the same superstep.
    pub fn and(self, other: impl IntoTarget<S>) -> Target<S> {
        self.into_target().and(other)
    }
}

impl<S> From<JoinRef<S>> for Target<S> {
    fn from(join: JoinRef<S>) -> Self {
        Target {
            dests: vec![(Some(join.at.builder), Dest::Join(join.at.node))],
        }
    }
}

impl<S> IntoTarget<S> for JoinRef<S> {
    fn into_target(self) -> Target<S> {
        self.into()
    }
}

/// Several nodes and workers: an array or `Vec` of one type, or a tuple of at most eight.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not name nodes of a `{S}` graph",
    label = "not nodes of this graph",
    note = "name nodes and workers: `[a, b]` where they have the same type, `(a, b)` where they have not"
)]
pub trait Members<S> {
    #[doc(hidden)]
    fn places(self) -> Vec<At>;
}

impl<S, P: Place<S>, const N: usize> Members<S> for [P; N] {
    fn places(self) -> Vec<At> {
        self.iter().map(Place::at).collect()
    }
}

impl<S, P: Place<S>> Members<S> for Vec<P> {
    fn places(self) -> Vec<At> {
        self.iter().map(Place::at).collect()
    }
}

macro_rules! members {
    ($($place:ident)+) => {
        impl<S, $($place: Place<S>),+> Members<S> for ($($place,)+) {
            fn places(self) -> Vec<At> {
                #[expect(non_snake_case, reason = "a value is named like its type")]
                let ($($place,)+) = self;
                vec![$($place.at()),+]
            }
        }
    };
}

members!(A);
members!(A B);
members!(A B C);
members!(A B C D);
members!(A B C D E);
members!(A B C D E F);
members!(A B C D E F G);
members!(A B C D E F G H);

/// A join under construction.
pub(super) struct Draft {
    name: Option<String>,
    members: Vec<At>,
    target: u32,
    gathers: bool,
    at_least: Option<usize>,
    must: Vec<At>,
    timeout: Option<Duration>,
}

/// A join that was just made, to say more about it.
#[derive(Debug)]
pub struct Joining<'b, S: State> {
    builder: &'b mut Builder<S>,
    join: u32,
}

impl<S: State> Joining<'_, S> {
    /// Enough is when this many members have arrived, whoever they are. Default: all of them for a
    /// join, one for a gather. Who of the same round arrives later changes nothing any more.
    pub fn at_least(mut self, members: usize) -> Self {
        self.draft().at_least = Some(members);
        self
    }

    /// Nothing goes on without these members.
    pub fn must(mut self, members: impl Members<S>) -> Self {
        self.draft().must = members.places();
        self
    }

    /// Waits no longer than this from the first arrival: then it goes on with whoever has arrived,
    /// as soon as those that it [`must`](Self::must) have are there. It also goes on at once where
    /// nothing that is left can arrive. The time is looked at when a superstep closes: one that
    /// runs is not cut.
    pub fn timeout(mut self, time: Duration) -> Self {
        self.draft().timeout = Some(time);
        self
    }

    /// Names it in records, errors and pictures. Default: `join NODE` or `gather NODE`, after the
    /// first node that it leads to.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.draft().name = Some(name.into());
        self
    }

    /// The place that its members' exits, branches and edges lead to.
    pub fn place(self) -> JoinRef<S> {
        JoinRef {
            at: At {
                node: self.join,
                builder: self.builder.id,
            },
            types: PhantomData,
        }
    }

    fn draft(&mut self) -> &mut Draft {
        &mut self.builder.joins[self.join as usize]
    }
}

impl<S: State> Builder<S> {
    /// Leads to a target once all these nodes have arrived, however many supersteps each takes.
    ///
    /// A node arrives when an edge, an exit or a branch of its leads to the join's
    /// [`place`](Joining::place). A node without exits that is not led anywhere else leads there by
    /// itself. What counts is who has arrived, not how often. After it has gone on, the join waits
    /// anew: each round of a loop is counted by itself, and so is each run.
    ///
    /// If a run comes to its end and somebody is missing, it fails with
    /// [`RunError::UnsatisfiedJoin`](crate::RunError::UnsatisfiedJoin). Where some members may never
    /// be started, use [`gather`](Self::gather).
    ///
    /// ```
    /// use milepost::{Append, Command, Context, End, Graph, NodeError, Runner, Snapshot, State, ThreadId};
    ///
    /// #[derive(Clone, Debug, Default, State)]
    /// struct Doc {
    ///     #[reduce(Append)]
    ///     log: Vec<String>,
    /// }
    ///
    /// async fn say(_: Snapshot<Doc>, cx: Context) -> Result<DocUpdate, NodeError> {
    ///     Ok(Doc::update().log(vec![cx.node().to_string()]))
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut g = Graph::builder("join");
    /// let short = g.node("short", say);
    /// let (long, longer) = (g.node("long", say), g.node("longer", say));
    /// let both = g.node("both", say);
    /// g.start(short.and(long));
    /// g.edge(long, longer);
    /// g.join([short, longer], both);
    /// g.edge(both, End);
    ///
    /// let runner = Runner::new(g.build()?);
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    /// let report = runtime.block_on(runner.run(&ThreadId::random(), Command::start(Doc::update())))?;
    /// assert_eq!(report.state.log, ["short", "long", "longer", "both"]);
    /// # Ok(()) }
    /// ```
    pub fn join(&mut self, members: impl Members<S>, to: impl IntoTarget<S>) -> Joining<'_, S> {
        self.wait(members.places(), to.into_target(), false)
    }

    /// Leads to a target, once, when nothing that is left can arrive any more: with all of these
    /// nodes that were started, be it one of them. Otherwise like [`join`](Self::join).
    pub fn gather(&mut self, members: impl Members<S>, to: impl IntoTarget<S>) -> Joining<'_, S> {
        self.wait(members.places(), to.into_target(), true)
    }

    fn wait(&mut self, members: Vec<At>, to: Target<S>, gathers: bool) -> Joining<'_, S> {
        let target = self.target(to);
        let join = self.joins.len() as u32;
        self.joins.push(Draft {
            name: None,
            members,
            target,
            gathers,
            at_least: None,
            must: Vec::new(),
            timeout: None,
        });
        Joining {
            builder: self,
            join,
        }
    }
}

/// A join of a compiled graph.
pub(crate) struct Join {
    pub(crate) name: NodeName,
    /// Who is waited for, by place among the nodes.
    pub(crate) members: Vec<u32>,
    pub(crate) target: u32,
    /// Whether it waits until nothing more can arrive.
    pub(crate) gathers: bool,
    /// How many are enough.
    pub(crate) enough: usize,
    /// Who has to be among them.
    pub(crate) must: Vec<u32>,
    pub(crate) timeout: Option<Duration>,
    /// From where it can be reached.
    pub(crate) from: Reach,
}

impl Join {
    /// What it waits for, in a few words.
    pub(super) fn rule(&self, nodes: &[NodeName]) -> String {
        let (all, enough) = (self.members.len(), self.enough);
        let mut rule = match (self.gathers, enough) {
            (true, 1) => "gather".to_owned(),
            (true, enough) => format!("gather at least {enough} of {all}"),
            (false, enough) if enough == all => format!("all of {all}"),
            (false, enough) => format!("{enough} of {all}"),
        };
        if !self.must.is_empty() {
            let must = self.must.iter().map(|node| nodes[*node as usize].as_str());
            rule.push_str(&format!(", with {}", must.collect::<Vec<_>>().join(", ")));
        }
        if let Some(time) = self.timeout {
            rule.push_str(&format!(", at most {time:?}"));
        }
        rule
    }
}

/// Checks the joins and compiles them. Members that are not led anywhere are led to their joins.
pub(super) fn compile<S: State>(
    drafts: Vec<Draft>,
    builder: u64,
    nodes: &mut [Entry<S>],
    targets: &mut Vec<Vec<Dest<S>>>,
    start: Option<u32>,
    problems: &mut Vec<Problem>,
) -> Vec<Join> {
    if drafts.is_empty() {
        return Vec::new();
    }
    let mut joins = Vec::with_capacity(drafts.len());
    for draft in drafts {
        joins.push(checked(draft, builder, nodes, targets, problems));
    }
    for node in 0..nodes.len() as u32 {
        let of =
            |(place, join): (usize, &Join)| join.members.contains(&node).then_some(place as u32);
        let entry = &mut nodes[node as usize];
        if entry.out.is_some() || !entry.exits.is_empty() {
            continue;
        }
        let to: Vec<_> = joins
            .iter()
            .enumerate()
            .filter_map(of)
            .map(Dest::Join)
            .collect();
        if !to.is_empty() {
            entry.out = Some(Out::Edge(targets.len() as u32));
            targets.push(to);
        }
    }
    check_ways(&joins, nodes, targets, start, problems);
    if problems.is_empty() {
        let places = Places::of(nodes, targets, &joins, start);
        for (place, join) in joins.iter_mut().enumerate() {
            join.from = places.to(nodes.len() + place, false);
        }
        check_met(&joins, &places, nodes, problems);
    }
    joins
}

fn checked<S: State>(
    draft: Draft,
    builder: u64,
    nodes: &[Entry<S>],
    targets: &[Vec<Dest<S>>],
    problems: &mut Vec<Problem>,
) -> Join {
    let kind = if draft.gathers { "gather" } else { "join" };
    let dests = &targets[draft.target as usize];
    let leads_to = dests.iter().find_map(|dest| match dest {
        Dest::Node(node) | Dest::Each(node, _) | Dest::Caught(node) => {
            Some(&nodes[*node as usize].name)
        }
        Dest::Join(_) | Dest::End => None,
    });
    let name = draft.name.unwrap_or_else(|| match leads_to {
        Some(node) => format!("{kind} {node}"),
        None => format!("{kind} end"),
    });
    let name = NodeName::new(&name).unwrap_or_else(|why| {
        problems.push(Problem::JoinName { name, why });
        NodeName::new(kind).expect("it is short and not empty")
    });
    let mut wrong = |reason: String| {
        let join = name.clone();
        problems.push(Problem::Join { join, reason });
    };
    if dests.iter().any(|dest| matches!(dest, Dest::Join(_))) {
        wrong("it leads straight to a join: name all members there, or put a node between".into());
    }
    let mut foreign = false;
    let mut places = |ats: &[At], wrong: &mut dyn FnMut(String)| {
        let mut places: Vec<u32> = Vec::with_capacity(ats.len());
        for at in ats {
            if at.builder != builder {
                foreign = true;
            } else if places.contains(&at.node) {
                wrong(format!(
                    "it names \"{}\" twice",
                    nodes[at.node as usize].name
                ));
            } else {
                places.push(at.node);
            }
        }
        places
    };
    let members = places(&draft.members, &mut wrong);
    let must = places(&draft.must, &mut wrong);
    if members.is_empty() && !foreign {
        wrong("it waits for nobody".into());
    }
    for node in must.iter().filter(|node| !members.contains(node)) {
        let node = &nodes[*node as usize].name;
        wrong(format!(
            "it must have \"{node}\", which is none of its members"
        ));
    }
    let all = members.len();
    let enough = draft
        .at_least
        .unwrap_or(if draft.gathers { 1 } else { all });
    if enough == 0 || enough > all {
        wrong(format!(
            "it has {all} members, and cannot wait for {enough} of them"
        ));
    }
    if foreign {
        problems.push(Problem::Foreign);
    }
    Join {
        name,
        members,
        target: draft.target,
        gathers: draft.gathers,
        enough,
        must,
        timeout: draft.timeout,
        from: Reach::default(),
    }
}

/// Members lead to their join, and nobody else does.
fn check_ways<S: State>(
    joins: &[Join],
    nodes: &[Entry<S>],
    targets: &[Vec<Dest<S>>],
    start: Option<u32>,
    problems: &mut Vec<Problem>,
) {
    let leads = |target: &u32| {
        let dests = targets[*target as usize].iter();
        dests.filter_map(|dest| match dest {
            Dest::Join(join) => Some(*join),
            _ => None,
        })
    };
    let mut arrives: Vec<Vec<u32>> = vec![Vec::new(); joins.len()];
    for (place, node) in nodes.iter().enumerate() {
        for join in node.ways().iter().flat_map(leads) {
            let arrives = &mut arrives[join as usize];
            if !arrives.contains(&(place as u32)) {
                arrives.push(place as u32);
            }
        }
    }
    for join in start.iter().flat_map(leads) {
        problems.push(Problem::Join {
            join: joins[join as usize].name.clone(),
            reason: "the start leads to it, and only its members can".into(),
        });
    }
    let name = |node: u32| nodes[node as usize].name.clone();
    for (join, arrives) in joins.iter().zip(arrives) {
        for node in arrives.iter().filter(|node| !join.members.contains(node)) {
            let (join, node) = (join.name.clone(), name(*node));
            problems.push(Problem::NoMember { join, node });
        }
        for node in join.members.iter().filter(|node| !arrives.contains(node)) {
            let (join, node) = (join.name.clone(), name(*node));
            problems.push(Problem::NeverArrives { join, node });
        }
    }
}

/// Members of more than so many are not compared with each other.
const COMPARED: usize = 64;

/// What has to arrive together can be on its way together.
fn check_met<S: State>(
    joins: &[Join],
    places: &Places,
    nodes: &[Entry<S>],
    problems: &mut Vec<Problem>,
) {
    for (place, join) in joins.iter().enumerate() {
        let needed = match join.enough == join.members.len() {
            true => &join.members,
            false => &join.must,
        };
        if join.timeout.is_some() || needed.len() > COMPARED {
            continue;
        }
        let join_place = nodes.len() + place;
        let to: Vec<_> = needed
            .iter()
            .map(|node| places.to(*node as usize, true))
            .collect();
        for (second, b) in needed.iter().enumerate() {
            for (first, a) in needed[..second].iter().enumerate() {
                let leads = |from: Option<u32>, dest: u32, member: u32, to: &Reach| {
                    to.has(dest) || (from == Some(member) && dest as usize == join_place)
                };
                let met = places.forks.iter().any(|(from, dests)| {
                    let to_a = |dest: u32| leads(*from, dest, *a, &to[first]);
                    let to_b = |dest: u32| leads(*from, dest, *b, &to[second]);
                    let mut one = dests.iter().filter(|dest| to_a(**dest));
                    one.any(|one| dests.iter().any(|other| other != one && to_b(*other)))
                });
                if !met {
                    let chooser = places.parts(&to[first], &to[second]);
                    problems.push(Problem::NeverMet {
                        join: join.name.clone(),
                        first: nodes[*a as usize].name.clone(),
                        second: nodes[*b as usize].name.clone(),
                        chooser: chooser.map(|node| nodes[node].name.clone()),
                    });
                    return;
                }
            }
        }
    }
}
