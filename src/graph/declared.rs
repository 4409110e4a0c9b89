//! What nodes say that they read and write.

use super::builder::Builder;
use super::compiled::Entry;
use super::error::Problem;
use super::reach::Places;
use super::target::Place;
use crate::state::{Field, State};

/// Several fields: an array of one type, or a tuple of at most twelve.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not name fields of `{S}`",
    label = "not fields of this state",
    note = "name them by their constants: `[Doc::LOG]`, or `(Doc::LOG, Doc::N)` where they have different types"
)]
pub trait Fields<S> {
    #[doc(hidden)]
    fn names(self) -> Vec<&'static str>;
}

/// A field of a state, whatever its type.
#[doc(hidden)]
pub trait OneField<S>: sealed::Sealed {
    fn field_name(&self) -> &'static str;
}

mod sealed {
    pub trait Sealed {}
}

impl<S, T, R> sealed::Sealed for Field<S, T, R> {}

impl<S: State, T: 'static, R: crate::state::Reducer<T>> OneField<S> for Field<S, T, R> {
    fn field_name(&self) -> &'static str {
        self.name()
    }
}

impl<S, F: OneField<S>, const N: usize> Fields<S> for [F; N] {
    fn names(self) -> Vec<&'static str> {
        self.iter().map(OneField::field_name).collect()
    }
}

macro_rules! fields {
    ($($field:ident)*) => {
        impl<S, $($field: OneField<S>),*> Fields<S> for ($($field,)*) {
            fn names(self) -> Vec<&'static str> {
                #[expect(non_snake_case, reason = "a value is named like its type")]
                let ($($field,)*) = self;
                vec![$($field.field_name()),*]
            }
        }
    };
}

impl<S> Fields<S> for () {
    fn names(self) -> Vec<&'static str> {
        Vec::new()
    }
}

fields!(A);
fields!(A B);
fields!(A B C);
fields!(A B C D);
fields!(A B C D E);
fields!(A B C D E F);
fields!(A B C D E F G);
fields!(A B C D E F G H);
fields!(A B C D E F G H I);
fields!(A B C D E F G H I J);
fields!(A B C D E F G H I J K);
fields!(A B C D E F G H I J K L);

impl<S: State> Builder<S> {
    /// Says which fields a node reads, for pictures and tables. A node sees the whole state all the
    /// same.
    pub fn reads(&mut self, node: impl Place<S>, fields: impl Fields<S>) {
        if let Some(entry) = self.entry(node.at()) {
            let reads = entry.reads.get_or_insert_default();
            add(reads, fields.names());
        }
    }

    /// Says which fields a node writes. An update of its that writes another one is refused with
    /// [`RunError::UndeclaredWrite`](crate::RunError::UndeclaredWrite); and [`build`](Self::build)
    /// refuses two such writers of a field that takes one, where nothing orders them.
    ///
    /// ```
    /// use milepost::{Context, End, Graph, Problem, Snapshot, State};
    ///
    /// #[derive(Clone, Default, State)]
    /// struct Doc {
    ///     title: String,
    /// }
    ///
    /// let mut g = Graph::builder("writers");
    /// let one = g.node("one", async |_: Snapshot<Doc>, _: Context| Ok(Doc::update()));
    /// let two = g.node("two", async |_: Snapshot<Doc>, _: Context| Ok(Doc::update()));
    /// g.writes(one, [Doc::TITLE]);
    /// g.writes(two, [Doc::TITLE]);
    /// g.start(one.and(two));
    /// g.edge(one, End);
    /// g.edge(two, End);
    /// let error = g.build().unwrap_err();
    /// assert!(matches!(error.problems[..], [Problem::TwoWriters { field: "title", .. }]));
    /// ```
    pub fn writes(&mut self, node: impl Place<S>, fields: impl Fields<S>) {
        if let Some(entry) = self.entry(node.at()) {
            let writes = entry.writes.get_or_insert_default();
            add(writes, fields.names());
        }
    }
}

fn add(fields: &mut Vec<&'static str>, more: Vec<&'static str>) {
    for field in more {
        if !fields.contains(&field) {
            fields.push(field);
        }
    }
}

/// In a graph of more places, two writers are found only when they meet.
const COMPARED: usize = 4000;

/// No two nodes that may run in one superstep say that they write a field that takes one writer.
pub(super) fn check_writers<S: State>(
    nodes: &[Entry<S>],
    places: impl FnOnce() -> Places,
    problems: &mut Vec<Problem>,
) {
    let mut rivals = Vec::new();
    for field in S::fields()
        .iter()
        .filter(|field| !field.reducer().concurrent)
    {
        let field = field.name();
        let writes = |node: &Entry<S>| {
            let writes = node.writes.as_ref();
            writes.is_some_and(|writes| writes.contains(&field))
        };
        let writers: Vec<u32> = (0..nodes.len() as u32)
            .filter(|node| writes(&nodes[*node as usize]))
            .collect();
        for (place, first) in writers.iter().enumerate() {
            rivals.extend(
                writers[place + 1..]
                    .iter()
                    .map(|second| (field, *first, *second)),
            );
        }
    }
    if rivals.is_empty() {
        return;
    }
    let places = places();
    if places.next.len() > COMPARED {
        return;
    }
    let beside = places.beside(nodes.len() as u32);
    for (field, first, second) in rivals {
        if places.has_pair(&beside, first, second) {
            let name = |node: u32| nodes[node as usize].name.clone();
            problems.push(Problem::TwoWriters {
                field,
                first: name(first),
                second: name(second),
            });
        }
    }
}
