//! Deleting, copying and pruning whole threads.

use super::super::contract::{CheckpointStore, StoreError};
use super::super::guard::segment_id;
use super::super::record::{OutcomeRef, Record};
use super::pen::{Pen, all, base, commit, commit_of, input, run_id, seqs, thread, told};
use super::samples::{one_of_each, outcome};
use super::{Subject, Verdict, ensure};
use crate::ids::{RunId, Seq, ThreadId};

/// Writes a thread with an old run, a fan-out, a base with a segment, and an open superstep:
/// 1 schema, 2 input, 3 commit, 4 base, 5 input, 6 and 7 outcomes, 8 commit of them, 9 base,
/// 10 outcome, 11 stopped.
pub(super) async fn lived_in<S: CheckpointStore + ?Sized>(store: &S, id: &ThreadId) -> Verdict {
    let mut pen = Pen::begin(store, id).await?;
    let seal = |bytes: &[u8]| (segment_id(bytes), bytes.to_vec());
    let mut write = pen.write(vec![commit(1, vec![1]), base(3, &[b"old"])]);
    write.segments = vec![seal(b"old")];
    pen.send(write).await.map_err(told)?;
    pen.add(vec![
        input("run-2"),
        Record::Outcome(outcome("study", 0)),
        Record::Outcome(outcome("study", 1)),
    ])
    .await?;
    let both = vec![OutcomeRef::At(6), OutcomeRef::At(7)];
    let mut write = pen.write(vec![commit_of(2, both), base(8, &[b"new", b"newer"])]);
    write.segments = vec![seal(b"new"), seal(b"newer")];
    pen.send(write).await.map_err(told)?;
    pen.add(vec![
        Record::Outcome(outcome("study", 2)),
        one_of_each().swap_remove(6),
    ])
    .await?;
    pen.done();
    Ok(())
}

pub(super) async fn unchanged(
    store: &dyn CheckpointStore,
    id: &ThreadId,
    expected: &[u64],
) -> Verdict {
    let found = seqs(&all(store, id).await?);
    ensure!(
        found == expected,
        "thread {id} has {found:?}, expected {expected:?}"
    );
    Ok(())
}

pub(super) const WHOLE: [u64; 11] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];
/// Schema, the current run's input, the outcomes of the commit, and everything from it on.
pub(super) const PRUNED: [u64; 8] = [1, 5, 6, 7, 8, 9, 10, 11];

pub(super) async fn a_deleted_thread_is_gone_and_others_stay(store: Subject) -> Verdict {
    let (gone, other) = (thread("gone"), thread("gone|other"));
    lived_in(&*store, &gone).await?;
    lived_in(&*store, &other).await?;
    store.delete_thread(&gone).await.map_err(told)?;
    ensure!(
        store.head(&gone).await.map_err(told)?.is_none(),
        "it has a head"
    );
    unchanged(&*store, &gone, &[]).await?;
    let run = store.run(&gone, &run_id("run-1")).await.map_err(told)?;
    ensure!(run.is_none(), "its run is there");
    let segment = store.segments(&gone, &[segment_id(b"new")]).await;
    ensure!(segment.is_err(), "its segments are there");
    let listed = store.threads(None, 10).await.map_err(told)?;
    ensure!(
        listed.len() == 1 && listed[0].0 == other,
        "listed are {listed:?}"
    );
    unchanged(&*store, &other, &WHOLE).await?;
    let segment = store.segments(&other, &[segment_id(b"new")]).await;
    ensure!(segment.is_ok(), "the other thread lost a segment");
    Ok(())
}

pub(super) async fn deleting_an_unknown_thread_does_nothing(store: Subject) -> Verdict {
    lived_in(&*store, &thread("known")).await?;
    store
        .delete_thread(&thread("unknown"))
        .await
        .map_err(told)?;
    unchanged(&*store, &thread("known"), &WHOLE).await
}

pub(super) async fn a_deleted_thread_can_be_begun_again(store: Subject) -> Verdict {
    let id = thread("again");
    lived_in(&*store, &id).await?;
    store.delete_thread(&id).await.map_err(told)?;
    Pen::begin(&*store, &id).await?.done();
    unchanged(&*store, &id, &[1, 2]).await
}

pub(super) async fn a_writer_from_before_a_delete_is_fenced_off(store: Subject) -> Verdict {
    let id = thread("revenant");
    let pen = Pen::take(&*store, &id).await?;
    let write = pen.write(vec![input("run-1")]);
    pen.done();
    store.delete_thread(&id).await.map_err(told)?;
    let late = store.append(write).await;
    ensure!(
        matches!(late, Err(StoreError::Fenced { .. })),
        "it got {late:?}"
    );
    unchanged(&*store, &id, &[]).await
}

pub(super) async fn a_held_thread_is_neither_deleted_nor_copied_nor_pruned(
    store: Subject,
) -> Verdict {
    let (held, free) = (thread("held"), thread("free"));
    lived_in(&*store, &held).await?;
    lived_in(&*store, &free).await?;
    let mut pen = Pen::take(&*store, &held).await?;
    for (what, told) in [
        ("delete", store.delete_thread(&held).await),
        ("prune", store.prune(&held).await),
        (
            "copy from it",
            store.copy_thread(&held, &thread("new")).await,
        ),
    ] {
        ensure!(
            matches!(&told, Err(StoreError::Busy { thread }) if *thread == held),
            "{what} gave {told:?}"
        );
    }
    let target = thread("target");
    let taken = Pen::take(&*store, &target).await?;
    let told = store.copy_thread(&free, &target).await;
    ensure!(
        matches!(&told, Err(StoreError::Busy { thread }) if *thread == target),
        "copy onto a held thread gave {told:?}"
    );
    taken.done();
    // What was refused must not have fenced the holder off.
    pen.add(vec![commit(3, vec![])]).await?;
    unchanged(&*store, &free, &WHOLE).await
}

pub(super) async fn a_copy_has_the_whole_log_and_the_source_stays(store: Subject) -> Verdict {
    let (from, to) = (thread("from"), thread("to"));
    lived_in(&*store, &from).await?;
    let before = all(&*store, &from).await?;
    store.copy_thread(&from, &to).await.map_err(told)?;
    ensure!(
        all(&*store, &to).await? == before,
        "the copy's log is another one"
    );
    ensure!(
        all(&*store, &from).await? == before,
        "the source's log changed"
    );
    let heads = (store.head(&from).await, store.head(&to).await);
    ensure!(
        heads.0.map_err(told)? == heads.1.map_err(told)?,
        "the copy has another head"
    );
    for run in ["run-1", "run-2"] {
        let rows = (
            store.run(&from, &run_id(run)).await.map_err(told)?,
            store.run(&to, &run_id(run)).await.map_err(told)?,
        );
        ensure!(rows.0.is_some() && rows.0 == rows.1, "{run} is {rows:?}");
    }
    let ids = [segment_id(b"old"), segment_id(b"newer")];
    let segments = store.segments(&to, &ids).await.map_err(told)?;
    ensure!(
        &*segments[0] == b"old" && &*segments[1] == b"newer",
        "the copy has other segments"
    );
    Ok(())
}

pub(super) async fn a_copy_and_its_source_go_separate_ways(store: Subject) -> Verdict {
    let (from, to) = (thread("from"), thread("to"));
    lived_in(&*store, &from).await?;
    store.copy_thread(&from, &to).await.map_err(told)?;
    let mut pen = Pen::take(&*store, &to).await?;
    pen.add(vec![commit(3, vec![])]).await?;
    unchanged(&*store, &from, &WHOLE).await?;
    store.delete_thread(&from).await.map_err(told)?;
    ensure!(
        all(&*store, &to).await?.len() == 12,
        "the copy lost records with its source"
    );
    Ok(())
}

pub(super) async fn copying_an_unknown_thread_copies_nothing(store: Subject) -> Verdict {
    let to = thread("to");
    store
        .copy_thread(&thread("unknown"), &to)
        .await
        .map_err(told)?;
    ensure!(
        store.head(&to).await.map_err(told)?.is_none(),
        "the target has a head"
    );
    Pen::begin(&*store, &to).await?.done();
    Ok(())
}

pub(super) async fn a_copy_onto_a_thread_with_a_log_is_refused(store: Subject) -> Verdict {
    let (from, to) = (thread("from"), thread("to"));
    lived_in(&*store, &from).await?;
    Pen::begin(&*store, &to).await?.done();
    for target in [&to, &from] {
        let told = store.copy_thread(&from, target).await;
        ensure!(
            matches!(&told, Err(StoreError::Exists { thread }) if thread == target),
            "it gave {told:?}"
        );
    }
    unchanged(&*store, &to, &[1, 2]).await?;
    unchanged(&*store, &from, &WHOLE).await
}

pub(super) async fn a_prune_drops_what_lies_before_the_newest_base(store: Subject) -> Verdict {
    let (id, other) = (thread("pruned"), thread("other"));
    lived_in(&*store, &id).await?;
    lived_in(&*store, &other).await?;
    let before = all(&*store, &id).await?;
    let head = store.head(&id).await.map_err(told)?;
    // The second time there is nothing left to drop.
    for _ in 0..2 {
        store.prune(&id).await.map_err(told)?;
        unchanged(&*store, &id, &PRUNED).await?;
    }
    let after = all(&*store, &id).await?;
    ensure!(
        after.iter().all(|stored| before.contains(stored)),
        "a kept record changed"
    );
    ensure!(
        store.head(&id).await.map_err(told)? == head,
        "the head changed"
    );
    let page = store.records(&id, Seq::new(2), 3).await.map_err(told)?;
    ensure!(seqs(&page) == [5, 6, 7], "a page has {:?}", seqs(&page));
    unchanged(&*store, &other, &WHOLE).await
}

pub(super) async fn a_prune_keeps_an_open_superstep_and_the_runs(store: Subject) -> Verdict {
    let id = thread("open");
    lived_in(&*store, &id).await?;
    store.prune(&id).await.map_err(told)?;
    let log = all(&*store, &id).await?;
    ensure!(
        log.iter()
            .any(|stored| *stored.record == Record::Outcome(outcome("study", 2)))
            && matches!(
                log.last().map(|last| &*last.record),
                Some(Record::Stopped(_))
            ),
        "the open superstep has {:?}",
        seqs(&log)
    );
    let runs: [RunId; 2] = ["run-1", "run-2"].map(run_id);
    for run in runs {
        let row = store.run(&id, &run).await.map_err(told)?;
        ensure!(row.is_some(), "run {run} has gone");
    }
    Ok(())
}

pub(super) async fn a_prune_keeps_what_a_kept_record_refers_to(store: Subject) -> Verdict {
    let id = thread("refers");
    lived_in(&*store, &id).await?;
    store.prune(&id).await.map_err(told)?;
    let kept = seqs(&all(&*store, &id).await?);
    for stored in all(&*store, &id).await? {
        let needed: Vec<u64> = match &*stored.record {
            Record::Commit(commit) => commit
                .outcomes
                .iter()
                .filter_map(|outcome| match outcome {
                    OutcomeRef::At(seq) => Some(*seq),
                    OutcomeRef::Inline(_) => None,
                })
                .collect(),
            Record::Base(base) => vec![base.at],
            _ => Vec::new(),
        };
        ensure!(
            needed.iter().all(|seq| kept.contains(seq)),
            "record {} refers to {needed:?}, kept are {kept:?}",
            stored.seq
        );
    }
    let head = store.head(&id).await.map_err(told)?;
    let head = head.ok_or("the head has gone")?;
    for seq in [head.seq, head.base, head.schema] {
        ensure!(
            kept.contains(&seq.get()),
            "the head refers to {seq}, kept are {kept:?}"
        );
    }
    Ok(())
}

pub(super) async fn a_prune_drops_segments_without_a_reference(store: Subject) -> Verdict {
    let id = thread("segments");
    lived_in(&*store, &id).await?;
    store.prune(&id).await.map_err(told)?;
    let ids = [segment_id(b"new"), segment_id(b"newer")];
    store.segments(&id, &ids).await.map_err(told)?;
    let old = store.segments(&id, &[segment_id(b"old")]).await;
    ensure!(old.is_err(), "a segment without a reference is there");
    Ok(())
}

pub(super) async fn a_prune_without_a_base_or_a_thread_does_nothing(store: Subject) -> Verdict {
    let id = thread("young");
    let mut pen = Pen::begin(&*store, &id).await?;
    pen.add(vec![commit(1, vec![])]).await?;
    pen.done();
    store.prune(&id).await.map_err(told)?;
    unchanged(&*store, &id, &[1, 2, 3]).await?;
    store.prune(&thread("unknown")).await.map_err(told)?;
    let listed = store.threads(None, 10).await.map_err(told)?;
    ensure!(listed.len() == 1, "listed are {listed:?}");
    Ok(())
}

pub(super) async fn a_pruned_thread_goes_on(store: Subject) -> Verdict {
    let id = thread("on");
    lived_in(&*store, &id).await?;
    store.prune(&id).await.map_err(told)?;
    let mut pen = Pen::take(&*store, &id).await?;
    ensure!(
        pen.next == Seq::new(12),
        "the next record would be {}",
        pen.next
    );
    pen.add(vec![commit(3, vec![]), base(12, &[])]).await?;
    pen.done();
    store.prune(&id).await.map_err(told)?;
    // The run's input is still needed, and with it the schema.
    unchanged(&*store, &id, &[1, 5, 12, 13]).await
}

pub(super) async fn a_pruned_thread_can_be_copied_and_deleted(store: Subject) -> Verdict {
    let (from, to) = (thread("from"), thread("to"));
    lived_in(&*store, &from).await?;
    store.prune(&from).await.map_err(told)?;
    store.copy_thread(&from, &to).await.map_err(told)?;
    unchanged(&*store, &to, &PRUNED).await?;
    store.delete_thread(&from).await.map_err(told)?;
    unchanged(&*store, &from, &[]).await?;
    unchanged(&*store, &to, &PRUNED).await
}

pub(super) async fn upkeep_outlives_a_reopen<S: CheckpointStore>(
    store: S,
    reopen: &impl AsyncFn(S) -> S,
) -> Verdict {
    let (pruned, copy, gone) = (thread("pruned"), thread("copy"), thread("gone"));
    lived_in(&store, &pruned).await?;
    lived_in(&store, &gone).await?;
    store.copy_thread(&pruned, &copy).await.map_err(told)?;
    store.prune(&pruned).await.map_err(told)?;
    store.delete_thread(&gone).await.map_err(told)?;
    let store = reopen(store).await;
    unchanged(&store, &pruned, &PRUNED).await?;
    unchanged(&store, &copy, &WHOLE).await?;
    unchanged(&store, &gone, &[]).await
}
