//! Branches: the head goes back, nothing that was written is touched, and each branch stays readable.

use super::super::archive::ThreadArchive;
use super::super::check::check;
use super::super::contract::{CheckpointStore, StoreError};
use super::super::guard::segment_id;
use super::super::record::Record;
use super::pen::{Pen, all, base, branch, commit, input, thread, told};
use super::samples::schema;
use super::upkeep::unchanged;
use super::{Subject, Verdict, ensure};
use crate::ids::{Branch, Seq, ThreadId};

/// Writes a thread with two branches that both went on, and stands on the second:
/// 1 schema, 2 input, 3 base, 4 and 5 commits, 6 base, 7 commit; 8 branch 1 at 4, 9 schema,
/// 10 commit, 11 base, 12 commit.
async fn forked<S: CheckpointStore + ?Sized>(store: &S, id: &ThreadId) -> Verdict {
    let mut pen = Pen::take(store, id).await?;
    let seal = |bytes: &[u8]| (segment_id(bytes), bytes.to_vec());
    let mut write = pen.write(vec![
        Record::Schema(schema()),
        input("run-1"),
        base(2, &[b"first"]),
    ]);
    write.segments = vec![seal(b"first")];
    pen.send(write).await.map_err(told)?;
    pen.add(vec![commit(1, vec![1])]).await?;
    let mut write = pen.write(vec![commit(2, vec![2]), base(5, &[b"old"])]);
    write.segments = vec![seal(b"old")];
    pen.send(write).await.map_err(told)?;
    pen.add(vec![commit(3, vec![3])]).await?;
    fork(&mut pen, 1, 0, 4).await?;
    let mut write = pen.write(vec![
        Record::Schema(schema()),
        commit(2, vec![4]),
        base(10, &[b"new"]),
    ]);
    write.segments = vec![seal(b"new")];
    pen.send(write).await.map_err(told)?;
    pen.add(vec![commit(3, vec![5])]).await?;
    pen.done();
    Ok(())
}

/// Begins a branch at a position whose base is the first.
async fn fork<S: CheckpointStore + ?Sized>(
    pen: &mut Pen<'_, S>,
    number: u32,
    parent: u32,
    at: u64,
) -> Verdict {
    let mut write = pen.write(vec![branch(number, parent, at)]);
    (write.head.base, write.head.schema) = (Seq::new(3), Seq::new(1));
    write.head.step = 1;
    pen.send(write).await.map_err(told)
}

async fn is_sound(store: &Subject, id: &ThreadId) -> Verdict {
    let checked = check(&**store, id).await;
    let bad = checked.findings.iter().find(|found| found.is_error());
    ensure!(bad.is_none(), "thread {id}: {bad:?}");
    Ok(())
}

pub(super) async fn the_head_goes_back_to_an_older_position_on_a_new_branch(
    store: Subject,
) -> Verdict {
    let id = thread("forked");
    forked(&*store, &id).await?;
    let mut pen = Pen::take(&*store, &id).await?;
    let before = all(&*store, &id).await?;
    fork(&mut pen, 2, 0, 4).await?;
    pen.done();
    let head = store.head(&id).await.map_err(told)?;
    let head = head.ok_or("the head has gone")?;
    ensure!(
        (head.branch, head.seq) == (Branch::new(2), Seq::new(4)),
        "the head is {head:?}"
    );
    let after = all(&*store, &id).await?;
    ensure!(after[..before.len()] == before, "an old record changed");
    let last = after.last().ok_or("the log is empty")?;
    ensure!(
        last.branch == Branch::new(2) && *last.record == branch(2, 0, 4),
        "the last record is {last:?}"
    );
    is_sound(&store, &id).await
}

pub(super) async fn a_branch_that_is_not_its_own_is_refused(store: Subject) -> Verdict {
    let id = thread("refused");
    forked(&*store, &id).await?;
    let before = all(&*store, &id).await?;
    let pen = Pen::take(&*store, &id).await?;
    let mut other = pen.write(vec![branch(2, 0, 4)]);
    other.branch = Branch::new(3);
    other.head.branch = Branch::new(3);
    let mut elsewhere = pen.write(vec![branch(2, 0, 4)]);
    elsewhere.head.branch = Branch::new(0);
    let late = pen.write(vec![commit(4, vec![]), branch(1, 0, 4)]);
    let nowhere = pen.write(vec![branch(2, 0, 13)]);
    for (what, write) in [
        ("a branch on another", other),
        ("a head on another", elsewhere),
        ("a branch in the middle", late),
        ("a branch at no record", nowhere),
    ] {
        let refused = store.append(write).await;
        ensure!(
            matches!(refused, Err(StoreError::Refused { .. })),
            "{what} got {refused:?}"
        );
    }
    ensure!(all(&*store, &id).await? == before, "the log changed");
    Ok(())
}

pub(super) async fn a_branch_on_a_stale_head_or_end_is_a_conflict(store: Subject) -> Verdict {
    let id = thread("stale");
    forked(&*store, &id).await?;
    let mut pen = Pen::take(&*store, &id).await?;
    let stale = pen.write(vec![branch(2, 0, 4)]);
    fork(&mut pen, 2, 0, 4).await?;
    let mut moved = stale.clone();
    moved.first = pen.next;
    for write in [stale, moved] {
        let refused = store.append(write).await;
        ensure!(
            matches!(refused, Err(StoreError::Conflict { .. })),
            "it got {refused:?}"
        );
    }
    Ok(())
}

pub(super) async fn a_prune_keeps_what_the_head_of_each_branch_needs(store: Subject) -> Verdict {
    let id = thread("pruned");
    forked(&*store, &id).await?;
    // The second time there is nothing left to drop.
    for _ in 0..2 {
        store.prune(&id).await.map_err(told)?;
        // Not the first base, nor the commit at which the branch begins.
        unchanged(&*store, &id, &[1, 2, 5, 6, 7, 8, 9, 10, 11, 12]).await?;
        is_sound(&store, &id).await?;
    }
    let kept = [segment_id(b"old"), segment_id(b"new")];
    store.segments(&id, &kept).await.map_err(told)?;
    let gone = store.segments(&id, &[segment_id(b"first")]).await;
    ensure!(gone.is_err(), "a segment without a reference is there");
    Ok(())
}

pub(super) async fn a_prune_keeps_the_position_that_an_empty_branch_stands_on(
    store: Subject,
) -> Verdict {
    let id = thread("empty");
    forked(&*store, &id).await?;
    let mut pen = Pen::take(&*store, &id).await?;
    fork(&mut pen, 2, 0, 4).await?;
    pen.done();
    store.prune(&id).await.map_err(told)?;
    unchanged(&*store, &id, &(1..=13).collect::<Vec<_>>()).await?;
    let all_there = [segment_id(b"first"), segment_id(b"old"), segment_id(b"new")];
    store.segments(&id, &all_there).await.map_err(told)?;
    is_sound(&store, &id).await
}

pub(super) async fn a_log_with_branches_is_copied_and_restored(store: Subject) -> Verdict {
    let (id, copy, new) = (thread("from"), thread("copy"), thread("new"));
    forked(&*store, &id).await?;
    store.prune(&id).await.map_err(told)?;
    store.copy_thread(&id, &copy).await.map_err(told)?;
    let archive = ThreadArchive::read(&*store, &id).await.map_err(told)?;
    let mut archive = archive.ok_or("the thread has gone")?;
    archive.thread = new.clone();
    store.restore(archive).await.map_err(told)?;
    for other in [&copy, &new] {
        ensure!(
            all(&*store, other).await? == all(&*store, &id).await?,
            "thread {other} has another log"
        );
        is_sound(&store, other).await?;
    }
    Ok(())
}
