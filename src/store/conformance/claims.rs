//! One writer a thread: claims, epochs, and refusals that change nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::super::contract::{CheckpointStore, RunRow, StoreError, Take, Write};
use super::super::guard::segment_id;
use super::super::record::{Record, Status};
use super::pen::{Pen, all, commit, run_id, seqs, thread, told};
use super::samples::one_of_each;
use super::{Subject, Verdict, ensure};
use crate::ids::{Epoch, Seq, ThreadId};

pub(super) async fn a_claim_stores_nothing(store: Subject) -> Verdict {
    let id = thread("claimed");
    let claim = store.claim(&id, Take::IfFree).await.map_err(told)?;
    ensure!(
        claim.head.is_none() && claim.next == Seq::new(1),
        "an empty log is claimed as {claim:?}"
    );
    ensure!(
        store.head(&id).await.map_err(told)?.is_none(),
        "a claim made a head"
    );
    let listed = store.threads(None, 10).await.map_err(told)?;
    ensure!(listed.is_empty(), "a claim made a thread");
    Ok(())
}

pub(super) async fn every_claim_has_a_higher_epoch(store: Subject) -> Verdict {
    let id = thread("epochs");
    let mut last = Epoch::new(0);
    for round in 0..6 {
        let mut pen = match round {
            0 => Pen::begin(&*store, &id).await?,
            _ => Pen::take(&*store, &id).await?,
        };
        ensure!(pen.epoch > last, "epoch {} came after {last}", pen.epoch);
        last = pen.epoch;
        // Claims that write and claims that do not take turns.
        if round % 2 == 0 {
            pen.add(vec![commit(1, vec![])]).await?;
        }
        ensure!(
            pen.next == Seq::new(pen.head.as_ref().map_or(0, |head| head.seq.get()) + 1),
            "a claim gives the end of the log as {}",
            pen.next
        );
        pen.done();
    }
    Ok(())
}

pub(super) async fn a_held_thread_is_busy_until_it_is_released(store: Subject) -> Verdict {
    let id = thread("busy");
    let pen = Pen::begin(&*store, &id).await?;
    for _ in 0..2 {
        let second = store.claim(&id, Take::IfFree).await;
        ensure!(
            matches!(&second, Err(StoreError::Busy { thread }) if *thread == id),
            "a second claim gave {second:?}"
        );
    }
    Pen::take(&*store, &thread("other")).await?;
    pen.done();
    Pen::take(&*store, &id).await?;
    Ok(())
}

pub(super) async fn a_claim_says_that_the_thread_was_given_back(store: Subject) -> Verdict {
    let id = thread("given back");
    let mut pen = Pen::begin(&*store, &id).await?;
    let mut write = pen.write(vec![commit(1, vec![])]);
    write.head.status = Status::Running;
    pen.send(write).await.map_err(told)?;
    pen.done();
    let claim = store.claim(&id, Take::IfFree).await.map_err(told)?;
    ensure!(
        claim.given_back,
        "a thread that its holder released counts as left by a dead one"
    );
    let claim = store.claim(&id, Take::Replace).await.map_err(told)?;
    ensure!(
        claim.given_back,
        "a thread whose holder was replaced counts as left by a dead one"
    );
    Ok(())
}

pub(super) async fn a_replaced_writer_is_fenced_off(store: Subject) -> Verdict {
    let id = thread("replaced");
    let mut old = Pen::begin(&*store, &id).await?;
    let claim = store.claim(&id, Take::Replace).await.map_err(told)?;
    let before = all(&*store, &id).await?;
    let write = old.write(vec![commit(1, vec![])]);
    let late = old.send(write).await;
    ensure!(
        matches!(
            &late,
            Err(StoreError::Fenced { found, current, .. })
                if *found == old.epoch && *current == claim.epoch
        ),
        "the old writer got {late:?}"
    );
    ensure!(
        all(&*store, &id).await? == before,
        "the old writer changed the log"
    );
    // The old writer's goodbye must not free the thread.
    store.release(&id, old.epoch);
    let third = store.claim(&id, Take::IfFree).await;
    ensure!(
        matches!(third, Err(StoreError::Busy { .. })),
        "after the old writer's release a claim gave {third:?}"
    );
    let mut new = Pen {
        epoch: claim.epoch,
        head: claim.head,
        next: claim.next,
        ..old
    };
    new.add(vec![commit(1, vec![])]).await
}

pub(super) async fn a_release_with_an_old_epoch_does_nothing(store: Subject) -> Verdict {
    let id = thread("released");
    let pen = Pen::begin(&*store, &id).await?;
    store.release(&id, Epoch::new(pen.epoch.get() - 1));
    store.release(&id, pen.epoch.next());
    store.release(&thread("unknown"), Epoch::new(1));
    let second = store.claim(&id, Take::IfFree).await;
    ensure!(
        matches!(second, Err(StoreError::Busy { .. })),
        "a claim gave {second:?}"
    );
    Ok(())
}

pub(super) async fn a_write_without_a_claim_is_fenced_off(store: Subject) -> Verdict {
    let pen = Pen {
        store: &*store,
        thread: thread("unclaimed"),
        epoch: Epoch::new(0),
        head: None,
        next: Seq::new(1),
    };
    for epoch in [0, 1, u64::MAX] {
        let write = Write {
            epoch: Epoch::new(epoch),
            ..pen.write(vec![super::pen::input("run-1")])
        };
        let told = store.append(write).await;
        ensure!(
            matches!(told, Err(StoreError::Fenced { .. })),
            "a write with epoch {epoch} got {told:?}"
        );
    }
    Ok(())
}

pub(super) async fn a_write_on_a_stale_head_is_a_conflict(store: Subject) -> Verdict {
    let mut pen = Pen::begin(&*store, &thread("head")).await?;
    for expected in [0, 1, 3] {
        let write = Write {
            expected: Seq::new(expected),
            ..pen.write(vec![commit(1, vec![])])
        };
        conflict(&mut pen, write).await?;
    }
    Ok(())
}

pub(super) async fn a_write_on_a_stale_end_is_a_conflict(store: Subject) -> Verdict {
    let mut pen = Pen::begin(&*store, &thread("end")).await?;
    pen.add(vec![one_of_each().swap_remove(3)]).await?;
    for first in [1, 3, 5, 900] {
        let mut write = pen.write(vec![commit(1, vec![])]);
        write.first = Seq::new(first);
        write.head.seq = Seq::new(first);
        write.head.schema = Seq::new(1);
        conflict(&mut pen, write).await?;
    }
    Ok(())
}

pub(super) async fn the_second_of_two_equal_writes_is_a_conflict(store: Subject) -> Verdict {
    let mut pen = Pen::begin(&*store, &thread("twice")).await?;
    let write = pen.write(vec![commit(1, vec![1])]);
    pen.send(write.clone()).await.map_err(told)?;
    conflict(&mut pen, write).await
}

async fn conflict(pen: &mut Pen<'_, dyn CheckpointStore>, write: Write) -> Verdict {
    let before = all(pen.store, &pen.thread).await?;
    let told = pen.send(write).await;
    ensure!(
        matches!(
            &told,
            Err(StoreError::Conflict { next, head, .. })
                if *next == pen.next && Some(*head) == pen.head.as_ref().map(|head| head.seq)
        ),
        "it got {told:?}"
    );
    ensure!(
        all(pen.store, &pen.thread).await? == before,
        "the log was changed"
    );
    Ok(())
}

pub(super) async fn a_senseless_write_is_refused(store: Subject) -> Verdict {
    let pen = Pen::begin(&*store, &thread("senseless")).await?;
    let sound = || pen.write(vec![commit(1, vec![])]);
    let mut writes = vec![
        ("no record", pen.write(Vec::new())),
        ("a head behind the end", sound()),
        ("no head", sound()),
        (
            "a head that is no position",
            pen.write(vec![one_of_each().swap_remove(2)]),
        ),
        ("a base behind the end", sound()),
        ("a run behind the end", sound()),
        ("a segment with another id", sound()),
    ];
    writes[1].1.head.seq = Seq::new(4);
    writes[2].1.head.seq = Seq::new(0);
    writes[3].1.head.seq = Seq::new(3);
    writes[4].1.head.base = Seq::new(9);
    let row = RunRow {
        input: Seq::new(9),
        end: None,
        status: Status::Running,
    };
    writes[5].1.run = Some((run_id("run-2"), row));
    writes[6].1.segments = vec![([0; 16], b"other".to_vec())];
    for (what, write) in writes {
        let told = store.append(write).await;
        ensure!(
            matches!(told, Err(StoreError::Refused { .. })),
            "{what} got {told:?}"
        );
    }
    let found = seqs(&all(&*store, &pen.thread).await?);
    ensure!(found == [1, 2], "the log is {found:?}");
    Ok(())
}

pub(super) async fn a_refused_write_changes_nothing(store: Subject) -> Verdict {
    let id = thread("untouched");
    let pen = Pen::begin(&*store, &id).await?;
    let head = store.head(&id).await.map_err(told)?;
    let mut write = Write {
        expected: Seq::new(1),
        ..pen.write(vec![super::pen::input("run-9"), commit(1, vec![])])
    };
    write.segments = vec![(segment_id(b"lost"), b"lost".to_vec())];
    for epoch in [pen.epoch, Epoch::new(77)] {
        write.epoch = epoch;
        let told = store.append(write.clone()).await;
        ensure!(told.is_err(), "it was taken");
    }
    ensure!(
        store.head(&id).await.map_err(told)? == head,
        "the head moved"
    );
    let run = store.run(&id, &run_id("run-9")).await.map_err(told)?;
    ensure!(run.is_none(), "the run row was written");
    let segment = store.segments(&id, &[segment_id(b"lost")]).await;
    ensure!(segment.is_err(), "the segment was written");
    Ok(())
}

/// Adds one commit, as often as the thread is free for it; the step says how often it was written.
async fn increment(store: &dyn CheckpointStore, id: &ThreadId) -> Result<u64, StoreError> {
    let claim = store.claim(id, Take::IfFree).await?;
    let mut pen = Pen {
        store,
        thread: id.clone(),
        epoch: claim.epoch,
        head: claim.head,
        next: claim.next,
    };
    let step = pen.head.as_ref().map_or(0, |head| head.step) + 1;
    tokio::task::yield_now().await;
    let write = pen.write(vec![commit(step, vec![])]);
    let told = pen.send(write).await;
    pen.done();
    told.map(|()| step)
}

pub(super) async fn twenty_callers_of_one_thread_make_one_line(store: Subject) -> Verdict {
    let id = thread("crowded");
    let mut pen = Pen::begin(&*store, &id).await?;
    // The sample head has closed steps already; begin to count here.
    pen.add(vec![commit(0, vec![])]).await?;
    pen.done();
    let callers: Vec<_> = (0..20)
        .map(|_| {
            let (store, id) = (Arc::clone(&store), id.clone());
            tokio::spawn(async move { increment(&*store, &id).await })
        })
        .collect();
    let mut taken = Vec::new();
    for caller in callers {
        match caller.await.map_err(|error| error.to_string())? {
            Ok(step) => taken.push(step),
            Err(StoreError::Busy { .. } | StoreError::Conflict { .. }) => {}
            Err(error) => return Err(format!("a caller got {error}")),
        }
    }
    taken.sort_unstable();
    ensure!(!taken.is_empty(), "nobody could write");
    ensure!(
        taken == (1..=taken.len() as u64).collect::<Vec<_>>(),
        "the callers wrote the steps {taken:?}"
    );
    let log = all(&*store, &id).await?;
    ensure!(
        log.len() == 3 + taken.len(),
        "{} callers wrote, the log has {} records",
        taken.len(),
        log.len()
    );
    Ok(())
}

pub(super) async fn many_tasks_on_many_threads_lose_nothing(store: Subject) -> Verdict {
    const TASKS: u64 = 16;
    const STEPS: u64 = 20;
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let mut pen = Pen::begin(&*store, &thread(&format!("task-{task}"))).await?;
                for step in 1..=STEPS {
                    pen.add(vec![commit(step, vec![task as u8, step as u8])])
                        .await?;
                }
                pen.done();
                Ok::<_, String>(())
            })
        })
        .collect();
    for task in tasks {
        task.await.map_err(|error| error.to_string())??;
    }
    for task in 0..TASKS {
        let log = all(&*store, &thread(&format!("task-{task}"))).await?;
        let expected = (1..=STEPS).map(|step| commit(step, vec![task as u8, step as u8]));
        ensure!(
            log[2..]
                .iter()
                .map(|stored| (*stored.record).clone())
                .eq(expected),
            "thread {task} has other records than its task wrote"
        );
    }
    Ok(())
}

pub(super) async fn a_reader_never_sees_half_a_write(store: Subject) -> Verdict {
    const TOGETHER: usize = 5;
    let id = thread("halves");
    let mut pen = Pen::begin(&*store, &id).await?;
    let over = Arc::new(AtomicBool::new(false));
    let reader = tokio::spawn({
        let (store, over, id) = (Arc::clone(&store), Arc::clone(&over), id.clone());
        async move {
            while !over.load(Ordering::Acquire) {
                let head = store.head(&id).await.map_err(told)?;
                let log = all(&*store, &id).await?;
                ensure!(
                    (log.len() - 2).is_multiple_of(TOGETHER),
                    "a reader saw {} of {TOGETHER} records",
                    (log.len() - 2) % TOGETHER
                );
                let seen = head.map_or(0, |head| head.seq.get());
                ensure!(
                    seen <= log.len() as u64,
                    "a reader saw head {seen} before its record"
                );
                tokio::task::yield_now().await;
            }
            Ok(())
        }
    });
    for step in 1..=40 {
        let records: Vec<Record> = (0..TOGETHER)
            .map(|_| commit(step, vec![0; 5_000]))
            .collect();
        pen.add(records).await?;
        tokio::task::yield_now().await;
    }
    over.store(true, Ordering::Release);
    reader.await.map_err(|error| error.to_string())?
}

pub(super) async fn epochs_rise_over_a_reopen<S: CheckpointStore>(
    store: S,
    reopen: &impl AsyncFn(S) -> S,
) -> Verdict {
    let id = thread("epochs");
    let pen = Pen::begin(&store, &id).await?;
    let (old, write) = (pen.epoch, pen.write(vec![commit(1, vec![])]));
    let store = reopen(store).await;
    // A claim does not outlive its process: the thread is free.
    let claim = store.claim(&id, Take::IfFree).await.map_err(told)?;
    ensure!(claim.epoch > old, "epoch {} came after {old}", claim.epoch);
    let late = store.append(write).await;
    ensure!(
        matches!(late, Err(StoreError::Fenced { .. })),
        "a writer from before the reopen got {late:?}"
    );
    Ok(())
}
