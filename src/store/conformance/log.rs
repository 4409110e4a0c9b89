//! What is written comes back: equal, in order, to its own thread only.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::contract::CheckpointStore;
use super::super::guard::segment_id;
use super::super::record::Record;
use super::pen::{Pen, all, commit, run_id, seqs, thread, told};
use super::samples::one_of_each;
use super::{Subject, Verdict, ensure};
use crate::ids::Seq;

pub(super) async fn a_record_of_every_kind_comes_back_equal(store: Subject) -> Verdict {
    let id = thread("kinds");
    let mut pen = Pen::take(&*store, &id).await?;
    // The samples contain an input before anything else that needs one, and a branch, which begins
    // with a write of its own and has what follows it.
    let mut samples = one_of_each();
    let is_branch = |record: &Record| matches!(record, Record::Branch(_));
    let first = samples.iter().position(is_branch).unwrap_or(samples.len());
    let branch = samples.split_off(first);
    pen.add(samples).await?;
    pen.add(branch).await?;
    let found = all(&*store, &id).await?;
    ensure!(
        found.len() == one_of_each().len(),
        "{} records were written, {} came back",
        one_of_each().len(),
        found.len()
    );
    for (stored, written) in found.iter().zip(one_of_each()) {
        ensure!(
            *stored.record == written,
            "record {} came back as {:?}",
            stored.seq,
            stored.record
        );
        ensure!(
            stored.epoch == pen.epoch
                && (stored.branch.get() == 0) == (stored.seq.get() <= first as u64),
            "record {} came back with epoch {} and branch {}",
            stored.seq,
            stored.epoch,
            stored.branch
        );
    }
    Ok(())
}

pub(super) async fn an_unknown_thread_has_no_head_no_records_and_no_runs(
    store: Subject,
) -> Verdict {
    Pen::begin(&*store, &thread("known")).await?;
    let id = thread("unknown");
    ensure!(
        store.head(&id).await.map_err(told)?.is_none(),
        "it has a head"
    );
    ensure!(all(&*store, &id).await?.is_empty(), "it has records");
    let run = store.run(&id, &run_id("run-1")).await.map_err(told)?;
    ensure!(run.is_none(), "it has the run of another thread");
    Ok(())
}

pub(super) async fn the_head_is_the_last_one_written(store: Subject) -> Verdict {
    let id = thread("9");
    let mut pen = Pen::begin(&*store, &id).await?;
    for step in 1..=12 {
        pen.add(vec![commit(step, vec![step as u8])]).await?;
        // A clock that goes back must not matter.
        if let Some(head) = &mut pen.head {
            head.updated_ms -= 500;
        }
        let head = store.head(&id).await.map_err(told)?;
        ensure!(
            head.as_ref().map(|head| (head.step, head.seq.get())) == Some((step, step + 2)),
            "after step {step} the head is {head:?}"
        );
    }
    Ok(())
}

pub(super) async fn records_come_in_the_order_of_their_seq(store: Subject) -> Verdict {
    let id = thread("order");
    let mut pen = Pen::begin(&*store, &id).await?;
    // More than a byte's worth, so that an order by text or by a cut number shows.
    for step in 1..=300 {
        pen.add(vec![commit(step, vec![1])]).await?;
    }
    let found = seqs(&all(&*store, &id).await?);
    ensure!(found == (1..=302).collect::<Vec<_>>(), "found {found:?}");
    Ok(())
}

pub(super) async fn records_are_read_from_any_seq_and_in_pages(store: Subject) -> Verdict {
    let id = thread("pages");
    let mut pen = Pen::begin(&*store, &id).await?;
    pen.add(
        (1..=10)
            .map(|step| commit(step, vec![step as u8]))
            .collect(),
    )
    .await?;
    for (from, limit, expected) in [
        (0, 3, vec![1, 2, 3]),
        (1, 3, vec![1, 2, 3]),
        (4, 3, vec![4, 5, 6]),
        (11, 9, vec![11, 12]),
        (7, 1, vec![7]),
        (7, 0, vec![]),
    ] {
        let found = store.records(&id, Seq::new(from), limit).await;
        let found = seqs(&found.map_err(told)?);
        ensure!(
            found == expected,
            "from {from}, at most {limit}: expected {expected:?}, found {found:?}"
        );
    }
    Ok(())
}

pub(super) async fn a_seq_behind_the_end_has_no_records(store: Subject) -> Verdict {
    let id = thread("end");
    Pen::begin(&*store, &id).await?;
    for from in [3, 4, 1_000, u64::MAX] {
        let found = store.records(&id, Seq::new(from), 10).await.map_err(told)?;
        ensure!(found.is_empty(), "from {from} there is {:?}", seqs(&found));
    }
    Ok(())
}

/// Names that a careless key would mix up.
fn awkward() -> Vec<String> {
    let mut names: Vec<String> = [
        "a",
        "a|b",
        "a:b",
        "a/b",
        "a%b",
        "a%2Fb",
        "a\0",
        "a\0b",
        "\0",
        "A",
        "ä",
        "a\u{308}",
        "🦀",
        "'; --",
        "__start__",
        " a",
        "a ",
        "10",
        "9",
        "..",
        "../a",
    ]
    .map(str::to_owned)
    .into();
    names.push("x".repeat(256));
    names.push(format!("{}y", "x".repeat(255)));
    names
}

pub(super) async fn threads_with_awkward_names_stay_apart(store: Subject) -> Verdict {
    for (number, name) in awkward().iter().enumerate() {
        let mut pen = Pen::begin(&*store, &thread(name)).await?;
        pen.add(vec![commit(1, vec![number as u8])]).await?;
    }
    for (number, name) in awkward().iter().enumerate() {
        let found = all(&*store, &thread(name)).await?;
        ensure!(
            found.len() == 3 && *found[2].record == commit(1, vec![number as u8]),
            "thread {name:?} has {:?}",
            seqs(&found)
        );
    }
    let listed = store.threads(None, usize::MAX).await.map_err(told)?;
    let listed: BTreeSet<_> = listed.into_iter().map(|(id, _)| id.to_string()).collect();
    ensure!(
        listed == awkward().into_iter().collect(),
        "listed are {listed:?}"
    );
    Ok(())
}

pub(super) async fn bytes_that_look_like_marks_come_back_as_they_were(store: Subject) -> Verdict {
    let id = thread("marks");
    let mut pen = Pen::begin(&*store, &id).await?;
    let marks: [&[u8]; 5] = [
        b"MPST\x05\x01\x01\x00",
        b"__interrupt__",
        b"{\"lc\":1,\"type\":\"constructor\"}",
        &[0; 64],
        &[0xff; 64],
    ];
    for mark in marks {
        pen.add(vec![commit(1, mark.to_vec())]).await?;
    }
    for (stored, mark) in all(&*store, &id).await?[2..].iter().zip(marks) {
        ensure!(
            *stored.record == commit(1, mark.to_vec()),
            "{mark:?} came back as {:?}",
            stored.record
        );
    }
    Ok(())
}

pub(super) async fn large_and_empty_values_come_back_equal(store: Subject) -> Verdict {
    let id = thread("sizes");
    let mut pen = Pen::begin(&*store, &id).await?;
    // Around the sizes at which a store might cut a value.
    let sizes = [
        0, 1, 3_700, 4_000, 4_095, 4_096, 4_097, 8_192, 300_000, 1_500_000,
    ];
    for size in sizes {
        pen.add(vec![commit(1, pattern(size))]).await?;
    }
    for (stored, size) in all(&*store, &id).await?[2..].iter().zip(sizes) {
        ensure!(
            *stored.record == commit(1, pattern(size)),
            "a value of {size} bytes came back changed"
        );
    }
    Ok(())
}

/// Bytes in which every place is different from its neighbours.
pub(super) fn pattern(size: usize) -> Vec<u8> {
    (0..size)
        .map(|place| (place * 31 + place / 4096) as u8)
        .collect()
}

pub(super) async fn a_thread_of_many_writes_keeps_them_all(store: Subject) -> Verdict {
    let id = thread("many");
    let mut pen = Pen::begin(&*store, &id).await?;
    for step in 1..=500 {
        pen.add(vec![commit(step, vec![0; 64])]).await?;
    }
    let tail = store.records(&id, Seq::new(500), 10).await.map_err(told)?;
    ensure!(
        seqs(&tail) == [500, 501, 502],
        "the end of the log is {:?}",
        seqs(&tail)
    );
    let same = store.records(&id, Seq::new(1), 10).await.map_err(told)?;
    ensure!(
        matches!(*same[0].record, Record::Schema(_)),
        "the first record is {:?}",
        same[0].record
    );
    Ok(())
}

pub(super) async fn all_is_there_after_a_reopen<S: CheckpointStore>(
    store: S,
    reopen: &impl AsyncFn(S) -> S,
) -> Verdict {
    let id = thread("kept|for/ever");
    let mut store = store;
    let mut written = Vec::new();
    let segment = Arc::<[u8]>::from(pattern(70_000));
    for round in 0..4_u64 {
        let mut pen = match round {
            0 => Pen::begin(&store, &id).await?,
            _ => Pen::take(&store, &id).await?,
        };
        let mut write = pen.write(vec![commit(round + 1, pattern(5_000))]);
        write.segments = vec![(segment_id(&segment), segment.to_vec())];
        pen.send(write).await.map_err(told)?;
        if round == 0 {
            written.extend(all(&store, &id).await?.into_iter().take(2));
        }
        written.extend(all(&store, &id).await?.pop());
        let head = store.head(&id).await.map_err(told)?;
        store = reopen(store).await;
        ensure!(
            all(&store, &id).await? == written,
            "after reopening {} times the log has {:?}",
            round + 1,
            seqs(&all(&store, &id).await?)
        );
        ensure!(
            store.head(&id).await.map_err(told)? == head,
            "the head is another one"
        );
        let run = store.run(&id, &run_id("run-1")).await.map_err(told)?;
        ensure!(run.is_some(), "the run has gone");
        let found = store.segments(&id, &[segment_id(&segment)]).await;
        ensure!(
            found.map_err(told)? == [Arc::clone(&segment)],
            "the segment is another one"
        );
    }
    Ok(())
}
