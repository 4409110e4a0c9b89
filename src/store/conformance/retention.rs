//! Policies: what is asked for stays with all that it needs, and the rest goes.

use super::super::contract::{CheckpointStore, StoreError};
use super::super::guard::segment_id;
use super::super::record::Record;
use super::super::retention::{Retain, Retained, Retention, Surplus};
use super::pen::{Pen, all, base, branch, commit, input, seqs, thread, told};
use super::samples::schema;
use super::upkeep::unchanged;
use super::{Subject, Verdict, ensure};
use crate::ids::{Epoch, Seq, ThreadId};
use std::time::Duration;

/// A commit that was written at a time.
fn at(step: u64, at_ms: u64) -> Record {
    let mut record = commit(step, vec![step as u8]);
    if let Record::Commit(commit) = &mut record {
        commit.at_ms = at_ms;
    }
    record
}

/// Writes a thread with three bases: 1 schema, 2 input, 3 base, 4 and 5 commits, 6 base, 7 and 8
/// commits, 9 base, 10 commit. The commits are of 100, 200, … 500 ms.
async fn aged<'a, S: CheckpointStore + ?Sized>(
    store: &'a S,
    id: &ThreadId,
) -> Result<Pen<'a, S>, String> {
    let mut pen = Pen::take(store, id).await?;
    let seal = |bytes: &[u8]| vec![(segment_id(bytes), bytes.to_vec())];
    let begin = vec![Record::Schema(schema()), input("run-1"), base(2, &[b"one"])];
    let mut write = pen.write(begin);
    write.segments = seal(b"one");
    pen.send(write).await.map_err(told)?;
    pen.add(vec![at(1, 100)]).await?;
    let mut write = pen.write(vec![at(2, 200), base(5, &[b"two"])]);
    write.segments = seal(b"two");
    pen.send(write).await.map_err(told)?;
    pen.add(vec![at(3, 300)]).await?;
    let mut write = pen.write(vec![at(4, 400), base(8, &[b"three"])]);
    write.segments = seal(b"three");
    pen.send(write).await.map_err(told)?;
    pen.add(vec![at(5, 500)]).await?;
    Ok(pen)
}

async fn retain(
    store: &Subject,
    id: &ThreadId,
    retention: Retention,
    holder: Option<Epoch>,
) -> Result<Retained, StoreError> {
    let what = Retain {
        thread: id.clone(),
        retention,
        now_ms: 600,
        holder,
    };
    store.retain(what).await
}

pub(super) async fn a_policy_keeps_what_it_names_and_what_that_needs(store: Subject) -> Verdict {
    let young = |ms| Retention::younger_than(Duration::from_millis(ms));
    let pinned = |seq| Retention::pinned([Seq::new(seq)]);
    let (newest, middle): (&[u64], &[u64]) = (&[1, 2, 8, 9, 10], &[1, 2, 5, 6, 7, 8, 9, 10]);
    let whole = &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10][..];
    for (name, retention, expected) in [
        ("all", Retention::all(), whole),
        ("one", Retention::last(1), newest),
        ("two", Retention::last(2), newest),
        ("three", Retention::last(3), middle),
        ("four", Retention::last(4), middle),
        ("five", Retention::last(5), whole),
        ("many", Retention::last(u64::MAX), whole),
        ("young", young(200), newest),
        ("younger", young(0), newest),
        ("older", young(300), middle),
        ("old", young(500), whole),
        ("ever", young(u64::MAX), whole),
        ("pin", pinned(7), middle),
        ("no pin", pinned(6), newest),
        ("both", young(0).or(pinned(5)), middle),
        ("either", Retention::last(3).or(young(500)), whole),
    ] {
        let id = thread(name);
        aged(&*store, &id).await?.done();
        let before = all(&*store, &id).await?;
        let surplus = Surplus::of(&*store, &id, &retention, 600).await;
        let surplus = surplus.map_err(told)?;
        let kept = expected.len() as u64;
        let mut dropped = before.len() as u64 - kept;
        // The second time there is nothing left to drop.
        for _ in 0..2 {
            let done = retain(&store, &id, retention.clone(), None).await;
            let expected = Retained { dropped, kept };
            let done = done.map_err(told)?;
            ensure!(done == expected, "{name} gave {done:?}, not {expected:?}");
            dropped = 0;
        }
        unchanged(&*store, &id, expected).await?;
        let after = all(&*store, &id).await?;
        ensure!(
            after.iter().all(|stored| before.contains(stored)),
            "{name}: a kept record changed"
        );
        let gone: Vec<_> = before
            .iter()
            .filter(|stored| !after.contains(stored))
            .collect();
        let gone: Vec<_> = gone.iter().map(|stored| stored.seq).collect();
        ensure!(
            surplus.records == gone,
            "{name}: {:?} were to go, {gone:?} went",
            surplus.records
        );
        for (segment, base) in [(b"one" as &[u8], 3), (b"two", 6), (b"three", 9)] {
            let id_of = segment_id(segment);
            let there = store.segments(&id, &[id_of]).await.is_ok();
            let stays = expected.contains(&base);
            ensure!(
                there == stays && surplus.segments.contains(&id_of) != stays,
                "{name}: the segment of base {base} is there: {there}"
            );
        }
    }
    Ok(())
}

pub(super) async fn the_newest_of_each_branch_are_those_that_led_to_it(store: Subject) -> Verdict {
    let id = thread("branches");
    let mut pen = aged(&*store, &id).await?;
    // 11 branch 1 at 5, 12 schema, 13 commit, 14 base, 15 commit.
    let mut write = pen.write(vec![branch(1, 0, 5)]);
    (write.head.base, write.head.step) = (Seq::new(6), 2);
    pen.send(write).await.map_err(told)?;
    let begins = vec![Record::Schema(schema()), at(3, 600), base(13, &[])];
    pen.add(begins).await?;
    pen.add(vec![at(4, 700)]).await?;
    pen.done();
    let mut expected: Vec<u64> = (1..=15).collect();
    // On the way to 15 are 13 and 5, to 10 are 8 and 7; 5 needs base 6, and so does 7.
    for (last, lowest) in [(4, 2), (3, 5), (2, 8)] {
        expected.retain(|seq| *seq < 3 || *seq >= lowest);
        let done = retain(&store, &id, Retention::last(last), None).await;
        done.map_err(told)?;
        unchanged(&*store, &id, &expected).await?;
    }
    Ok(())
}

pub(super) async fn who_holds_a_thread_may_drop_its_old_checkpoints(store: Subject) -> Verdict {
    let id = thread("held");
    let mut pen = aged(&*store, &id).await?;
    let two = || Retention::last(2);
    let refused = retain(&store, &id, two(), None).await;
    ensure!(
        matches!(&refused, Err(StoreError::Busy { thread }) if *thread == id),
        "without a claim it gave {refused:?}"
    );
    let old = Epoch::new(pen.epoch.get() - 1);
    for stale in [old, pen.epoch.next()] {
        let refused = retain(&store, &id, two(), Some(stale)).await;
        ensure!(
            matches!(&refused, Err(StoreError::Fenced { .. })),
            "with another claim it gave {refused:?}"
        );
    }
    unchanged(&*store, &id, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]).await?;
    let done = retain(&store, &id, two(), Some(pen.epoch)).await;
    done.map_err(told)?;
    unchanged(&*store, &id, &[1, 2, 8, 9, 10]).await?;
    // It is still the holder, and its next write follows.
    pen.add(vec![at(6, 600)]).await?;
    let busy = retain(&store, &id, two(), None).await;
    ensure!(
        matches!(busy, Err(StoreError::Busy { .. })),
        "it is no longer held"
    );
    pen.done();
    unchanged(&*store, &id, &[1, 2, 8, 9, 10, 11]).await?;
    let listed = seqs(&store.records(&id, Seq::new(2), 2).await.map_err(told)?);
    ensure!(listed == [2, 8], "a page has {listed:?}");
    Ok(())
}

pub(super) async fn a_policy_for_an_unknown_thread_does_nothing(store: Subject) -> Verdict {
    let id = thread("unknown");
    let done = retain(&store, &id, Retention::last(1), None).await;
    let done = done.map_err(told)?;
    ensure!(done == Retained::default(), "it gave {done:?}");
    ensure!(
        store.head(&id).await.map_err(told)?.is_none(),
        "it has a head"
    );
    Ok(())
}
