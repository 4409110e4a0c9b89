//! Wishes: made without a claim, kept for the run that they are for, and for no other.

use super::super::contract::{CheckpointStore, StoreError, Take};
use super::super::record::{Record, Status};
use super::super::wish::{Asked, Wish, WishKind, Wished};
use super::pen::{Pen, all, commit, input, run_id, thread, told};
use super::{Subject, Verdict, ensure};
use crate::ids::ThreadId;

fn wish(kind: WishKind, at_ms: u64) -> Wish {
    Wish {
        run: "run-1".into(),
        kind,
        at_ms,
        reason: "not needed".into(),
    }
}

/// Makes a wish, and expects this of it.
async fn expect<S: CheckpointStore + ?Sized>(
    store: &S,
    thread: &ThreadId,
    wish: Wish,
    expected: Wished,
) -> Verdict {
    let found = store.wish(thread, wish.clone()).await.map_err(told)?;
    ensure!(
        found == expected,
        "{wish:?} of thread {thread}: expected {expected:?}, found {found:?}"
    );
    Ok(())
}

/// Expects this wish to wait.
async fn waits<S: CheckpointStore + ?Sized>(
    store: &S,
    thread: &ThreadId,
    expected: Option<&Wish>,
) -> Verdict {
    let found = store.wished(thread).await.map_err(told)?;
    ensure!(
        found.as_ref() == expected,
        "of thread {thread} waits {found:?}, expected {expected:?}"
    );
    Ok(())
}

pub(super) async fn a_wish_is_kept_and_told_to_the_holder(store: Subject) -> Verdict {
    let id = thread("held");
    Pen::begin(&*store, &id).await?.done();
    let claim = store.claim(&id, Take::IfFree).await.map_err(told)?;
    ensure!(claim.wishes.newest().is_none(), "a wish from nowhere");
    let made = wish(WishKind::Cancel, 1);
    expect(&*store, &id, made.clone(), Wished::Kept).await?;
    let heard = claim.wishes.newest();
    ensure!(heard.as_ref() == Some(&made), "the holder hears {heard:?}");
    waits(&*store, &id, Some(&made)).await?;
    let log = all(&*store, &id).await?;
    ensure!(log.len() == 2, "a wish became a record");
    store.release(&id, claim.epoch);
    // Whoever comes next hears of it.
    let next = store.claim(&id, Take::IfFree).await.map_err(told)?;
    ensure!(
        next.wishes.newest().as_ref() == Some(&made),
        "the next holder hears {:?}",
        next.wishes.newest()
    );
    waits(&*store, &id, Some(&made)).await
}

pub(super) async fn a_wish_for_nobody_is_not_kept(store: Subject) -> Verdict {
    let id = thread("free");
    let mut pen = Pen::begin(&*store, &id).await?;
    let other = Wish {
        run: "run-0".into(),
        ..wish(WishKind::Cancel, 1)
    };
    let cancelled = Wished::Over(Status::Cancelled);
    expect(&*store, &id, other, cancelled).await?;
    let unknown = thread("unknown");
    let made = wish(WishKind::Drain, 1);
    expect(&*store, &unknown, made.clone(), Wished::Unknown).await?;
    let claimed = thread("claimed");
    Pen::take(&*store, &claimed).await?;
    expect(&*store, &claimed, made.clone(), Wished::Unknown).await?;
    let mut write = pen.write(vec![commit(1, vec![])]);
    write.head.status = Status::Finished;
    pen.send(write).await.map_err(told)?;
    let over = Wished::Over(Status::Finished);
    expect(&*store, &id, made.clone(), over).await?;
    let mut write = pen.write(vec![input("run-1")]);
    write.head.status = Status::Running;
    pen.send(write).await.map_err(told)?;
    pen.done();
    expect(&*store, &id, made, Wished::Free).await?;
    waits(&*store, &id, None).await
}

pub(super) async fn a_wish_is_gone_with_the_write_that_fulfils_it(store: Subject) -> Verdict {
    let id = thread("fulfilled");
    let mut pen = Pen::begin(&*store, &id).await?;
    let made = wish(WishKind::Drain, 1);
    expect(&*store, &id, made.clone(), Wished::Kept).await?;
    let mut write = pen.write(vec![commit(1, vec![])]);
    write.fulfils = Some(wish(WishKind::Drain, 2));
    pen.send(write).await.map_err(told)?;
    waits(&*store, &id, Some(&made)).await?;
    let mut write = pen.write(vec![commit(2, vec![])]);
    write.fulfils = Some(made.clone());
    write.first = pen.next.next();
    let refused = store.append(write.clone()).await;
    ensure!(refused.is_err(), "a write with a gap was taken");
    waits(&*store, &id, Some(&made)).await?;
    write.first = pen.next;
    pen.send(write).await.map_err(told)?;
    waits(&*store, &id, None).await
}

pub(super) async fn a_wish_never_outlives_its_run(store: Subject) -> Verdict {
    let id = thread("outlived");
    let mut pen = Pen::begin(&*store, &id).await?;
    expect(&*store, &id, wish(WishKind::Cancel, 1), Wished::Kept).await?;
    pen.add(vec![input("run-2")]).await?;
    waits(&*store, &id, None).await?;
    let second = Wish {
        run: "run-2".into(),
        ..wish(WishKind::Cancel, 2)
    };
    expect(&*store, &id, second, Wished::Kept).await?;
    let mut write = pen.write(vec![commit(1, vec![])]);
    write.head.status = Status::Finished;
    pen.send(write).await.map_err(told)?;
    waits(&*store, &id, None).await
}

pub(super) async fn a_lesser_wish_changes_nothing(store: Subject) -> Verdict {
    let id = thread("lesser");
    let pen = Pen::begin(&*store, &id).await?;
    let drain = wish(WishKind::Drain, 1);
    let cancel = wish(WishKind::Cancel, 2);
    for (made, left) in [
        (drain.clone(), &drain),
        (wish(WishKind::Drain, 3), &drain),
        (cancel.clone(), &cancel),
        (wish(WishKind::Drain, 4), &cancel),
        (wish(WishKind::Cancel, 5), &cancel),
    ] {
        expect(&*store, &id, made, Wished::Kept).await?;
        waits(&*store, &id, Some(left)).await?;
    }
    let long = Wish {
        reason: "x".repeat(1025),
        ..cancel
    };
    let told = store.wish(&id, long).await;
    ensure!(
        matches!(told, Err(StoreError::Refused { .. })),
        "a reason that is too long gave {told:?}"
    );
    pen.done();
    Ok(())
}

pub(super) async fn upkeep_takes_a_wish_nowhere(store: Subject) -> Verdict {
    let (id, copy) = (thread("wished"), thread("copy"));
    let pen = Pen::begin(&*store, &id).await?;
    let made = wish(WishKind::Cancel, 1);
    expect(&*store, &id, made.clone(), Wished::Kept).await?;
    pen.done();
    store.copy_thread(&id, &copy).await.map_err(told)?;
    waits(&*store, &copy, None).await?;
    store.prune(&id).await.map_err(told)?;
    waits(&*store, &id, Some(&made)).await?;
    store.delete_thread(&id).await.map_err(told)?;
    waits(&*store, &id, None).await?;
    let pen = Pen::begin(&*store, &id).await?;
    waits(&*store, &id, None).await?;
    pen.done();
    Ok(())
}

pub(super) async fn a_thread_that_nobody_holds_is_cancelled_at_once(store: Subject) -> Verdict {
    let id = thread("asked");
    Pen::begin(&*store, &id).await?.done();
    let drained = store.ask_to_stop(&id, wish(WishKind::Drain, 1)).await;
    ensure!(
        matches!(drained, Ok(Some(Asked::AtRest(Status::Failed)))),
        "a drain gave {drained:?}"
    );
    let asked = store.ask_to_stop(&id, wish(WishKind::Cancel, 2)).await;
    ensure!(
        matches!(asked, Ok(Some(Asked::Stopped))),
        "it gave {asked:?}"
    );
    let head = store.head(&id).await.map_err(told)?;
    let status = head.map(|head| head.status);
    ensure!(status == Some(Status::Cancelled), "it stands {status:?}");
    let row = store.run(&id, &run_id("run-1")).await.map_err(told)?;
    let status = row.map(|row| row.status);
    ensure!(status == Some(Status::Cancelled), "its run is {status:?}");
    let log = all(&*store, &id).await?;
    let last = log.last().map(|last| &*last.record);
    ensure!(
        matches!(last, Some(Record::Stopped(stopped)) if stopped.status == Status::Cancelled
            && stopped.error.as_ref().is_some_and(|why| why.message == "not needed")),
        "its last record is {last:?}"
    );
    let again = store.ask_to_stop(&id, wish(WishKind::Cancel, 3)).await;
    ensure!(
        matches!(again, Ok(Some(Asked::AtRest(Status::Cancelled)))),
        "asked again it gave {again:?}"
    );
    let unknown = thread("unknown");
    let none = store.ask_to_stop(&unknown, wish(WishKind::Cancel, 4)).await;
    ensure!(matches!(none, Ok(None)), "an unknown thread gave {none:?}");
    // The thread was given back.
    let mut pen = Pen::take(&*store, &id).await?;
    pen.add(vec![commit(1, vec![])]).await?;
    let held = store.ask_to_stop(&id, wish(WishKind::Cancel, 5)).await;
    ensure!(
        matches!(held, Ok(Some(Asked::Pending))),
        "a held thread gave {held:?}"
    );
    Ok(())
}

pub(super) async fn a_wish_outlives_a_reopen<S: CheckpointStore>(
    store: S,
    reopen: &impl AsyncFn(S) -> S,
) -> Verdict {
    let id = thread("kept");
    Pen::begin(&store, &id).await?;
    let made = wish(WishKind::Cancel, 1);
    expect(&store, &id, made.clone(), Wished::Kept).await?;
    let store = reopen(store).await;
    waits(&store, &id, Some(&made)).await?;
    let claim = store.claim(&id, Take::IfFree).await.map_err(told)?;
    ensure!(
        claim.wishes.newest().as_ref() == Some(&made),
        "after the reopen, the holder hears {:?}",
        claim.wishes.newest()
    );
    Ok(())
}
