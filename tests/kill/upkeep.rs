//! Kills while a thread is deleted, copied, restored or pruned and others go on.

use std::path::Path;

use milepost::store::Stored;
use milepost::{Seq, ThreadId};

use super::child::{Chore, NEW, OLD, Plan};
use super::failpoint::{Among, Moment, Point};
use super::graphs::Shape;
use super::ledger::made;
use super::parent::{Family, block_on, play, undisturbed};
use super::reference::Remains;

/// Copies the folder of a store that nobody has open.
fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_folder(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).unwrap()),
        }
    }
}

pub(crate) fn records(remains: &Remains, thread: &str) -> Vec<Stored> {
    let thread = ThreadId::new(thread).unwrap();
    block_on(remains.store.records(&thread, Seq::new(0), usize::MAX)).unwrap()
}

pub(crate) fn listed(remains: &Remains) -> Vec<String> {
    let all = block_on(remains.store.threads(None, 100)).unwrap();
    all.iter().map(|(thread, _)| thread.to_string()).collect()
}

/// Kills at a chore, and hands what is left to `verify`, with the records before and whether the
/// chore was done.
fn killed_at(name: &str, chore: Chore, verify: impl Fn(&Remains, &[Stored], bool) + Sync) {
    let others = [
        Plan::new("one", Shape::Fan, 2),
        Plan::new("two", Shape::Chain, 2),
    ];
    killed_at_among(name, chore, (&others, 22), Family::new, verify);
}

/// The same beside these threads, so often inside of the chore, in families that are made so.
pub(crate) fn killed_at_among(
    name: &str,
    chore: Chore,
    (others, inside): (&[Plan], u64),
    family: impl Fn(&[Plan]) -> Family + Sync,
    verify: impl Fn(&Remains, &[Stored], bool) + Sync,
) {
    let old = [Plan::new(OLD, Shape::Long, 2)];
    let mut template = family(&old);
    assert!(!template.live_until(None));
    let before = records(&Remains::open(template.path()).unwrap(), OLD);
    let reference = undisturbed(others);
    let mut moments = vec![Moment::Before, Moment::After];
    moments.extend((0..inside).map(|number| Moment::During(number * 22 / inside * 130)));
    let kills = play(&moments, |moment| {
        let mut family = family(others);
        copy_folder(template.path(), family.path());
        std::fs::remove_file(family.path().join("diary")).unwrap();
        let mut life = family.life(Some(Point {
            at: 1,
            moment: *moment,
            among: Among::Upkeep,
        }));
        life.chore = Some(chore);
        let killed = family.live(&life);
        {
            let remains = Remains::open(family.path()).unwrap();
            let done = !killed || matches!(moment, Moment::After);
            verify(&remains, &before, done);
            if matches!(moment, Moment::Before) {
                assert_eq!(records(&remains, OLD), before);
            }
        }
        family.end(Some(&reference), &(chore, moment))
    });
    made(name, kills);
}

#[test]
fn a_thread_is_deleted_whole_or_not_at_all() {
    killed_at("delete", Chore::Delete, |remains, before, done| {
        let left = records(remains, OLD);
        let there = listed(remains).contains(&OLD.to_owned());
        assert!(left == before || left.is_empty(), "half a thread is left");
        assert_eq!(there, !left.is_empty());
        assert!(!done || left.is_empty(), "a deleted thread is back");
    });
}

#[test]
fn a_thread_is_copied_whole_or_not_at_all() {
    comes_whole_or_not_at_all("copy", Chore::Copy);
}

#[test]
fn a_thread_is_restored_whole_or_not_at_all() {
    comes_whole_or_not_at_all("restore", Chore::Restore);
}

fn comes_whole_or_not_at_all(name: &str, chore: Chore) {
    killed_at(name, chore, |remains, before, done| {
        assert_eq!(records(remains, OLD), before, "the source is as it was");
        let copy = records(remains, NEW);
        let there = listed(remains).contains(&NEW.to_owned());
        assert!(copy == before || copy.is_empty(), "half a copy is there");
        assert_eq!(there, !copy.is_empty());
        assert!(!done || there, "a copy is lost");
        if there {
            let state = |thread| block_on(remains.state(&Plan::new(thread, Shape::Long, 2)));
            assert_eq!(state(NEW), state(OLD));
        }
    });
}

#[test]
fn a_thread_is_pruned_whole_or_not_at_all() {
    let whole = std::sync::Mutex::new(Vec::new());
    killed_at("prune", Chore::Prune, |remains, before, done| {
        let left = records(remains, OLD);
        assert!(left.iter().all(|stored| before.contains(stored)));
        assert_eq!(left.last(), before.last());
        let pruned = left.len() < before.len();
        assert!(!done || pruned, "what was pruned is back");
        if pruned {
            let mut whole = whole.lock().unwrap();
            if whole.is_empty() {
                whole.clone_from(&left);
            }
            assert_eq!(*whole, left, "half of it was pruned");
        }
        let state = block_on(remains.state(&Plan::new(OLD, Shape::Long, 2)));
        state.expect("its state is there");
    });
}
