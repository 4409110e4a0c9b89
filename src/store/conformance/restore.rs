//! Taking whole threads out of a store and putting them into one.

use std::sync::Arc;

use super::super::archive::ThreadArchive;
use super::super::check::check;
use super::super::contract::{CheckpointStore, StoreError};
use super::super::guard::segment_id;
use super::super::record::Record;
use super::pen::{Pen, all, base, commit, run_id, thread, told};
use super::upkeep::{PRUNED, WHOLE, lived_in, unchanged};
use super::{Subject, Verdict, ensure};
use crate::ids::{Epoch, Seq, ThreadId};

/// Reads a thread that is there.
async fn read(store: &dyn CheckpointStore, id: &ThreadId) -> Result<ThreadArchive, String> {
    let archive = ThreadArchive::read(store, id).await.map_err(told)?;
    archive.ok_or_else(|| format!("thread {id} is not there"))
}

/// The same thread under another id.
fn under(id: &ThreadId, archive: &ThreadArchive) -> ThreadArchive {
    ThreadArchive {
        thread: id.clone(),
        ..archive.clone()
    }
}

/// A lived-in thread that a second writer went on with.
async fn two_writers<S: CheckpointStore + ?Sized>(store: &S, id: &ThreadId) -> Verdict {
    lived_in(store, id).await?;
    let mut pen = Pen::take(store, id).await?;
    pen.add(vec![commit(3, vec![7; 10_000])]).await?;
    pen.done();
    Ok(())
}

pub(super) async fn an_extent_says_what_a_thread_has(store: Subject) -> Verdict {
    let id = thread("extent");
    let none = store.extent(&id).await.map_err(told)?;
    ensure!(none.is_none(), "an unknown thread has {none:?}");
    two_writers(&*store, &id).await?;
    // A claim that writes nothing changes nothing.
    Pen::take(&*store, &id).await?.done();
    let extent = store.extent(&id).await.map_err(told)?;
    let extent = extent.ok_or("it has no extent")?;
    let records = all(&*store, &id).await?;
    let head = store.head(&id).await.map_err(told)?;
    ensure!(Some(&extent.head) == head.as_ref(), "another head");
    ensure!(extent.next == Seq::new(13), "next is {}", extent.next);
    ensure!(
        records.last().map(|last| last.epoch) == Some(extent.epoch),
        "the epoch of the last write is {}",
        extent.epoch
    );
    let seqs: Vec<_> = extent.seqs().map(Seq::get).collect();
    ensure!(seqs == (1..13).collect::<Vec<_>>(), "its seqs are {seqs:?}");
    let mut runs = Vec::new();
    for name in ["run-1", "run-2"] {
        let row = store.run(&id, &run_id(name)).await.map_err(told)?;
        runs.push((run_id(name), row.ok_or("a run is not there")?));
    }
    ensure!(extent.runs == runs, "its runs are {:?}", extent.runs);
    let mut expected: Vec<_> = [&b"old"[..], b"new", b"newer"]
        .map(|bytes| (segment_id(bytes), bytes.len() as u64))
        .to_vec();
    expected.sort_unstable();
    let found = extent.segments.iter().map(|one| (one.id, one.bytes));
    ensure!(found.eq(expected), "its segments are {:?}", extent.segments);
    Ok(())
}

pub(super) async fn an_extent_says_what_a_prune_has_left(store: Subject) -> Verdict {
    let id = thread("pruned");
    lived_in(&*store, &id).await?;
    store.prune(&id).await.map_err(told)?;
    let extent = store.extent(&id).await.map_err(told)?;
    let extent = extent.ok_or("it has no extent")?;
    let seqs: Vec<_> = extent.seqs().map(Seq::get).collect();
    ensure!(seqs == PRUNED, "its seqs are {seqs:?}");
    ensure!(
        extent.runs.len() == 2 && extent.segments.len() == 2,
        "it has {} runs and {} segments",
        extent.runs.len(),
        extent.segments.len()
    );
    Ok(())
}

pub(super) async fn threads_are_listed_by_name(store: Subject) -> Verdict {
    let mut expected = Vec::new();
    for number in 0..300 {
        let id = thread(&format!("t{number}"));
        Pen::begin(&*store, &id).await?.done();
        expected.push(id);
    }
    let mut names = Vec::new();
    for name in store.thread_names().await.map_err(told)? {
        names.push(name.map_err(told)?);
    }
    names.sort();
    expected.sort();
    ensure!(names == expected, "{} of 300 are listed", names.len());
    Ok(())
}

pub(super) async fn a_thread_is_restored_as_it_was(store: Subject) -> Verdict {
    let id = thread("was");
    two_writers(&*store, &id).await?;
    for prune in [false, true] {
        if prune {
            store.prune(&id).await.map_err(told)?;
        }
        let archive = read(&*store, &id).await?;
        let copy = thread(&format!("copy|{prune}"));
        store.restore(under(&copy, &archive)).await.map_err(told)?;
        let found = read(&*store, &copy).await?;
        ensure!(
            found == under(&copy, &archive),
            "another thread was restored: {found:?}"
        );
        ensure!(
            all(&*store, &copy).await? == all(&*store, &id).await?,
            "the log is another one"
        );
        let checked = check(&*store, &copy).await;
        ensure!(checked.is_sound(), "it has {:?}", checked.findings);
        // In its own place, too.
        store.delete_thread(&id).await.map_err(told)?;
        store.restore(archive.clone()).await.map_err(told)?;
        ensure!(read(&*store, &id).await? == archive, "it is another one");
    }
    Ok(())
}

pub(super) async fn a_restored_thread_goes_on(store: Subject) -> Verdict {
    let id = thread("on");
    two_writers(&*store, &id).await?;
    let archive = read(&*store, &id).await?;
    store.delete_thread(&id).await.map_err(told)?;
    store.restore(archive.clone()).await.map_err(told)?;
    let mut pen = Pen::take(&*store, &id).await?;
    ensure!(pen.next == Seq::new(13), "next is {}", pen.next);
    ensure!(pen.epoch > archive.epoch, "the epoch is {}", pen.epoch);
    pen.add(vec![commit(4, vec![]), base(13, &[])]).await?;
    pen.done();
    store.prune(&id).await.map_err(told)?;
    unchanged(&*store, &id, &[1, 5, 13, 14]).await
}

pub(super) async fn a_restored_thread_stands_for_itself(store: Subject) -> Verdict {
    let (from, to) = (thread("from|to"), thread("from"));
    lived_in(&*store, &from).await?;
    let archive = read(&*store, &from).await?;
    store.restore(under(&to, &archive)).await.map_err(told)?;
    let mut pen = Pen::take(&*store, &to).await?;
    pen.add(vec![commit(3, vec![])]).await?;
    pen.done();
    unchanged(&*store, &from, &WHOLE).await?;
    store.delete_thread(&from).await.map_err(told)?;
    ensure!(
        all(&*store, &to).await?.len() == 12,
        "it lost records with its source"
    );
    let ids = [segment_id(b"old"), segment_id(b"newer")];
    store.segments(&to, &ids).await.map_err(told)?;
    Ok(())
}

pub(super) async fn a_restore_onto_a_thread_with_a_log_is_refused(store: Subject) -> Verdict {
    let (from, to) = (thread("from"), thread("to"));
    lived_in(&*store, &from).await?;
    Pen::begin(&*store, &to).await?.done();
    let archive = read(&*store, &from).await?;
    for target in [&from, &to] {
        let told = store.restore(under(target, &archive)).await;
        ensure!(
            matches!(&told, Err(StoreError::Exists { thread }) if thread == target),
            "it gave {told:?}"
        );
    }
    unchanged(&*store, &to, &[1, 2]).await?;
    unchanged(&*store, &from, &WHOLE).await
}

pub(super) async fn a_held_thread_is_not_restored(store: Subject) -> Verdict {
    let (from, held) = (thread("from"), thread("held"));
    lived_in(&*store, &from).await?;
    let archive = under(&held, &read(&*store, &from).await?);
    let mut pen = Pen::take(&*store, &held).await?;
    let told = store.restore(archive).await;
    ensure!(
        matches!(&told, Err(StoreError::Busy { thread }) if *thread == held),
        "it gave {told:?}"
    );
    // What was refused must not have fenced the holder off.
    pen.add(vec![commit(1, vec![])]).await
}

pub(super) async fn a_writer_from_before_a_restore_is_fenced_off(store: Subject) -> Verdict {
    let (from, id) = (thread("from"), thread("revenant"));
    lived_in(&*store, &from).await?;
    let archive = under(&id, &read(&*store, &from).await?);
    let pen = Pen::take(&*store, &id).await?;
    let write = pen.write(vec![commit(1, vec![])]);
    pen.done();
    store.restore(archive).await.map_err(told)?;
    let late = store.append(write).await;
    ensure!(
        matches!(late, Err(StoreError::Fenced { .. })),
        "it got {late:?}"
    );
    unchanged(&*store, &id, &WHOLE).await
}

/// One way in which an archive does not hold together.
type Break = (&'static str, fn(&mut ThreadArchive));

const BREAKS: &[Break] = &[
    ("no record", |archive| archive.records.clear()),
    ("records out of order", |archive| archive.records.swap(1, 2)),
    ("a record twice", |archive| {
        let twice = archive.records[2].clone();
        archive.records.insert(2, twice);
    }),
    ("a seq of 0", |archive| archive.records[0].seq = Seq::new(0)),
    ("no schema", |archive| drop(archive.records.remove(0))),
    ("a missing outcome", |archive| {
        archive.records.retain(|stored| stored.seq != Seq::new(6));
    }),
    ("a record missing behind the base", |archive| {
        archive.records.retain(|stored| stored.seq != Seq::new(10));
    }),
    ("the last record missing", |archive| {
        archive.records.pop();
    }),
    ("a record behind the end", |archive| {
        archive.next = Seq::new(11);
    }),
    ("the highest seq there is", |archive| {
        archive.next = Seq::new(u64::MAX);
        let last = archive.records.last_mut();
        last.expect("it has records").seq = Seq::new(u64::MAX);
    }),
    ("a falling epoch", |archive| {
        archive.records[3].epoch = Epoch::new(9);
    }),
    ("an epoch of 0", |archive| {
        archive.epoch = Epoch::new(0);
        for stored in &mut archive.records {
            stored.epoch = Epoch::new(0);
        }
    }),
    ("another epoch than the last record's", |archive| {
        archive.epoch = archive.epoch.next();
    }),
    ("a head that points nowhere", |archive| {
        archive.head.seq = Seq::new(99);
    }),
    ("a head that points to no position", |archive| {
        archive.head.seq = Seq::new(6);
    }),
    ("a head without a base", |archive| {
        archive.head.base = Seq::new(0);
    }),
    ("a base that is none", |archive| {
        archive.head.base = Seq::new(8);
    }),
    ("a schema that is none", |archive| {
        archive.head.schema = Seq::new(2);
    }),
    ("a segment with other bytes", |archive| {
        archive.segments[0].1 = Arc::from(&b"odd"[..]);
    }),
    ("a missing segment", |archive| {
        archive.segments.remove(1);
    }),
    ("a segment twice", |archive| {
        let twice = archive.segments[1].clone();
        archive.segments.push(twice);
    }),
    ("a segment of another length", |archive| {
        let longer = (segment_id(b"longer"), Arc::from(&b"longer"[..]));
        let id = longer.0;
        archive.segments.push(longer);
        for stored in &mut archive.records {
            let mut record = (*stored.record).clone();
            if let Record::Base(base) = &mut record
                && let super::super::record::BaseValue::Items { sealed, .. } =
                    &mut base.fields[0].value
            {
                sealed[0].id = id;
            }
            stored.record = Arc::new(record);
        }
    }),
    ("a run without a row", |archive| drop(archive.runs.pop())),
    ("a run twice", |archive| {
        let twice = archive.runs[0].clone();
        archive.runs.push(twice);
    }),
    ("runs in another order", |archive| archive.runs.swap(0, 1)),
    ("segments in another order", |archive| {
        archive.segments.swap(0, 1);
    }),
    ("a segment that nothing refers to", |archive| {
        let odd = (segment_id(b"odd"), Arc::from(&b"odd"[..]));
        archive.segments.push(odd);
    }),
    ("a run that began nowhere", |archive| {
        archive.runs[0].1.input = Seq::new(99);
    }),
    ("a run that began with no input", |archive| {
        archive.runs[0].1.input = Seq::new(4);
    }),
    ("a run that ended nowhere", |archive| {
        archive.runs[0].1.end = Some(Seq::new(99));
    }),
    ("a run that ended at no position", |archive| {
        archive.runs[0].1.end = Some(Seq::new(4));
    }),
];

pub(super) async fn an_archive_that_does_not_hold_together_is_refused(store: Subject) -> Verdict {
    let (from, to) = (thread("from"), thread("to"));
    lived_in(&*store, &from).await?;
    let archive = under(&to, &read(&*store, &from).await?);
    for (what, change) in BREAKS {
        let mut broken = archive.clone();
        change(&mut broken);
        let told = store.restore(broken).await;
        ensure!(
            matches!(&told, Err(StoreError::Unsound { thread, .. }) if *thread == to),
            "{what} gave {told:?}"
        );
        ensure!(
            store.extent(&to).await.map_err(super::pen::told)?.is_none(),
            "{what} left something"
        );
    }
    store.restore(archive).await.map_err(told)?;
    unchanged(&*store, &to, &WHOLE).await
}

pub(super) async fn a_restored_thread_outlives_a_reopen<S: CheckpointStore>(
    store: S,
    reopen: &impl AsyncFn(S) -> S,
) -> Verdict {
    let id = thread("lasting");
    two_writers(&store, &id).await?;
    store.prune(&id).await.map_err(told)?;
    let archive = read(&store, &id).await?;
    let copy = under(&thread("copy"), &archive);
    store.restore(copy.clone()).await.map_err(told)?;
    let store = reopen(store).await;
    ensure!(
        read(&store, &copy.thread).await? == copy,
        "the copy is another one"
    );
    ensure!(read(&store, &id).await? == archive, "the source changed");
    Ok(())
}
