//! A disk that is full, at many sizes: writes fail for real in the middle of whatever the engine
//! writes, and what was acknowledged by then is neither lost nor done again.

use super::child::Plan;
use super::diary::{Diary, Effect};
use super::graphs::Shape;
use super::parent::{Family, play, undisturbed};

#[test]
fn a_full_disk_stops_all_runs_and_costs_nothing_that_was_acknowledged() {
    let plans: Vec<_> = (0..12)
        .map(|number| {
            let shape = [Shape::Long, Shape::Fan, Shape::Chain][number % 3];
            Plan::new(&format!("thread-{number}"), shape, 3)
        })
        .collect();
    let reference = undisturbed(&plans);
    let sizes: Vec<u64> = (1..7).map(|number| 310 * number).collect();
    play(&sizes, |kib| {
        let mut family = Family::new(&plans);
        family.workers = 2;
        // No room twice, a little more, and then enough.
        for room in [*kib, *kib, kib + 150] {
            family.room = Some(room);
            assert!(!family.live_until(None), "a full disk ends no process");
        }
        family.room = None;
        let stumbled = Diary::open(family.path()).read().into_iter().filter(
            |effect| matches!(effect, Effect::Stumbled(_, why) if why.contains("File too large")),
        );
        let stumbled = stumbled.count();
        // With the first sizes, not even a store can be made.
        let fits = (600..1_500).contains(kib);
        assert!(stumbled > 0 || !fits, "{kib} KiB were enough");
        family.end(Some(&reference), kib)
    });
}
