//! What stands beside the log: segments, runs, and the list of threads.

use super::super::contract::{RunRow, StoreError};
use super::super::guard::segment_id;
use super::super::record::Status;
use super::log::pattern;
use super::pen::{Pen, commit, input, run_id, thread, told};
use super::{Subject, Verdict, ensure};
use crate::ids::Seq;

pub(super) async fn a_segment_is_kept_once_and_read_in_the_order_asked_for(
    store: Subject,
) -> Verdict {
    let id = thread("segments");
    let mut pen = Pen::begin(&*store, &id).await?;
    let bytes = [b"one".to_vec(), pattern(65_536), Vec::new()];
    let ids = bytes.each_ref().map(|bytes| segment_id(bytes));
    // Twice, the second time with others and in another order.
    for round in [vec![0, 1], vec![1, 0, 2, 1]] {
        let mut write = pen.write(vec![commit(1, vec![])]);
        write.segments = round
            .iter()
            .map(|place| (ids[*place], bytes[*place].clone()))
            .collect();
        pen.send(write).await.map_err(told)?;
    }
    let asked = [ids[2], ids[0], ids[1], ids[0]];
    let found = store.segments(&id, &asked).await.map_err(told)?;
    let expected = [&bytes[2], &bytes[0], &bytes[1], &bytes[0]];
    ensure!(
        found
            .iter()
            .map(|bytes| &bytes[..])
            .eq(expected.map(|bytes| &bytes[..])),
        "other bytes came back, of {:?} bytes",
        found.iter().map(|bytes| bytes.len()).collect::<Vec<_>>()
    );
    let none = store.segments(&id, &[]).await.map_err(told)?;
    ensure!(none.is_empty(), "asked for none, got {}", none.len());
    Ok(())
}

pub(super) async fn a_missing_segment_is_a_typed_error(store: Subject) -> Verdict {
    let id = thread("missing");
    Pen::begin(&*store, &id).await?;
    for id in [id, thread("unknown")] {
        let found = store.segments(&id, &[[1; 16]]).await;
        ensure!(
            matches!(found, Err(StoreError::Corrupt { .. })),
            "thread {id} gave {found:?}"
        );
    }
    Ok(())
}

pub(super) async fn segments_of_other_threads_are_not_seen(store: Subject) -> Verdict {
    let mut pen = Pen::begin(&*store, &thread("mine")).await?;
    let mut write = pen.write(vec![commit(1, vec![])]);
    write.segments = vec![(segment_id(b"mine"), b"mine".to_vec())];
    pen.send(write).await.map_err(told)?;
    Pen::begin(&*store, &thread("theirs")).await?;
    let found = store
        .segments(&thread("theirs"), &[segment_id(b"mine")])
        .await;
    ensure!(found.is_err(), "another thread read it: {found:?}");
    Ok(())
}

pub(super) async fn a_run_row_is_kept_and_moves_on(store: Subject) -> Verdict {
    let id = thread("runs");
    let mut pen = Pen::begin(&*store, &id).await?;
    let long = "r".repeat(256);
    for run in ["run-2", "run|2", &long] {
        pen.add(vec![input(run)]).await?;
    }
    let ended = RunRow {
        input: Seq::new(2),
        end: Some(Seq::new(5)),
        status: Status::Finished,
    };
    let mut write = pen.write(vec![commit(1, vec![])]);
    write.run = Some((run_id("run-1"), ended.clone()));
    pen.send(write).await.map_err(told)?;
    let going = |input| RunRow {
        input: Seq::new(input),
        end: None,
        status: Status::Running,
    };
    for (run, expected) in [
        ("run-1", Some(ended)),
        ("run-2", Some(going(3))),
        ("run|2", Some(going(4))),
        (&long, Some(going(5))),
        ("run-3", None),
    ] {
        let found = store.run(&id, &run_id(run)).await.map_err(told)?;
        ensure!(
            found == expected,
            "run {run}: expected {expected:?}, found {found:?}"
        );
    }
    Ok(())
}

pub(super) async fn threads_are_listed_in_pages_without_gaps(store: Subject) -> Verdict {
    ensure!(
        store.threads(None, 10).await.map_err(told)?.is_empty(),
        "an empty store lists threads"
    );
    for number in 0..25 {
        Pen::begin(&*store, &thread(&format!("t{number}")))
            .await?
            .done();
    }
    // A thread that was claimed but never written is none.
    Pen::take(&*store, &thread("claimed")).await?;
    let whole = store.threads(None, usize::MAX).await.map_err(told)?;
    ensure!(whole.len() == 25, "{} of 25 are listed", whole.len());
    ensure!(
        whole.iter().all(|(_, head)| head.seq == Seq::new(2)),
        "a head is not the thread's"
    );
    let mut paged = Vec::new();
    loop {
        let after = paged.last().map(|(id, _): &(_, _)| id);
        let page = store.threads(after, 4).await.map_err(told)?;
        ensure!(page.len() <= 4, "a page of 4 has {}", page.len());
        if page.is_empty() {
            break;
        }
        paged.extend(page);
        ensure!(paged.len() <= 25, "pages repeat threads");
    }
    ensure!(paged == whole, "pages list {}, not 25", paged.len());
    Ok(())
}
