//! A state of many fields, of which each step changes one: a step should cost what it changed.
//!
//! `cargo bench --bench wide -- wide STORE SIZE`, with 300, 600 or 1,200 fields. All else is as in the
//! benchmark `engine`; it stands apart because the compiler takes minutes over 1,200 fields.

#[path = "../engine/bare.rs"]
mod bare;
#[path = "../engine/clock.rs"]
mod clock;
#[path = "../engine/counted.rs"]
mod counted;
#[macro_use]
mod fields;
#[path = "../engine/job.rs"]
mod job;
#[path = "../engine/stores.rs"]
mod stores;

use std::path::Path;

use milepost::{Context, End, Exits, Field, Graph, Replace, Snapshot, State};

use self::job::{Job, Outcome, Run};

/// One state, its graph and its run.
macro_rules! wide {
    ($module:ident: $($field:ident)*) => {
        #[expect(non_snake_case, reason = "a field and its constant share a name of the list")]
        mod $module {
            use super::*;

            #[derive(Clone, Default, State)]
            struct Wide {
                /// Which field is next.
                at: usize,
                $($field: i64,)*
            }

            static ALL: &[Field<Wide, i64, Replace>] = &[$(Wide::$field,)*];

            fn graph() -> Outcome<Graph<Wide>> {
                let mut g = Graph::builder("wide");
                let touch = g.node("touch", async |wide: Snapshot<Wide>, _: Context| {
                    let at = wide.at;
                    let mut update = Wide::update().at(at + 1);
                    ALL[at].merge(&mut update, ALL[at].get(&wide) + 1);
                    let is_last = at + 1 == ALL.len();
                    Ok((update, if is_last { Fields::NoneLeft } else { Fields::Left }))
                });
                g.start(touch);
                g.wire(touch, |exit| match exit {
                    Fields::Left => touch.into(),
                    Fields::NoneLeft => End.into(),
                });
                Ok(g.build()?)
            }

            pub(super) async fn once(job: &Job, folder: &Path) -> Outcome<Run> {
                let check = |end: &Wide| ALL.iter().all(|field| *field.get(end) == 1);
                job.drive(graph()?, ALL.len(), Wide::update(), check, folder).await
            }
        }
    };
}

#[derive(Clone, Copy, Exits)]
enum Fields {
    Left,
    NoneLeft,
}

fields!(300, wide, fields_300);
fields!(600, wide, fields_600);
fields!(1200, wide, fields_1200);

fn main() -> Outcome<()> {
    let job = Job::from_args()?.ok_or("usage: wide STORE SIZE")?;
    job.measure(once)
}

async fn once(job: &Job, folder: &Path) -> Outcome<Run> {
    match job.size {
        300 => fields_300::once(job, folder).await,
        600 => fields_600::once(job, folder).await,
        1200 => fields_1200::once(job, folder).await,
        other => Err(format!("no state of {other} fields: 300, 600, 1200").into()),
    }
}
