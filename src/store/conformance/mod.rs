//! The promises of a store as named checks, for every store there is and will be.
//!
//! In comes a way to make an empty store, out comes a [`Report`] that names each promise that was
//! not kept, with what was expected and what was found. A check never panics the caller and never
//! looks at a clock. Run it inside a Tokio runtime, best one with several workers.

mod branches;
mod claims;
mod log;
mod parts;
mod pen;
mod restore;
mod retention;
mod samples;
mod upkeep;
mod wishes;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::contract::CheckpointStore;

pub use samples::{one_of_each, sample_head};

#[cfg(any(feature = "sled", feature = "fjall"))]
pub use super::disk::without_sync;

/// A store under test, shared by the tasks of a check.
type Subject = Arc<dyn CheckpointStore>;
type Verdict = Result<(), String>;
type Check = fn(Subject) -> Pin<Box<dyn Future<Output = Verdict> + Send>>;

/// Returns from a check with a reason, unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($reason:tt)+) => {
        if !$condition {
            return Err(format!($($reason)+));
        }
    };
}
use ensure;

/// Makes a table of checks whose names are those of the functions.
macro_rules! checks {
    ($($module:ident::$check:ident),+ $(,)?) => {
        &[$((stringify!($check), |store| Box::pin($module::$check(store)))),+]
    };
}

const CHECKS: &[(&str, Check)] = checks![
    log::a_record_of_every_kind_comes_back_equal,
    log::an_unknown_thread_has_no_head_no_records_and_no_runs,
    log::the_head_is_the_last_one_written,
    log::records_come_in_the_order_of_their_seq,
    log::records_are_read_from_any_seq_and_in_pages,
    log::a_seq_behind_the_end_has_no_records,
    log::threads_with_awkward_names_stay_apart,
    log::bytes_that_look_like_marks_come_back_as_they_were,
    log::large_and_empty_values_come_back_equal,
    parts::a_segment_is_kept_once_and_read_in_the_order_asked_for,
    parts::a_missing_segment_is_a_typed_error,
    parts::segments_of_other_threads_are_not_seen,
    parts::a_run_row_is_kept_and_moves_on,
    parts::threads_are_listed_in_pages_without_gaps,
    log::a_thread_of_many_writes_keeps_them_all,
    claims::a_claim_stores_nothing,
    claims::every_claim_has_a_higher_epoch,
    claims::a_held_thread_is_busy_until_it_is_released,
    claims::a_claim_says_that_the_thread_was_given_back,
    claims::a_replaced_writer_is_fenced_off,
    claims::a_release_with_an_old_epoch_does_nothing,
    claims::a_write_without_a_claim_is_fenced_off,
    claims::a_write_on_a_stale_head_is_a_conflict,
    claims::a_write_on_a_stale_end_is_a_conflict,
    claims::the_second_of_two_equal_writes_is_a_conflict,
    claims::a_senseless_write_is_refused,
    claims::a_refused_write_changes_nothing,
    claims::twenty_callers_of_one_thread_make_one_line,
    claims::many_tasks_on_many_threads_lose_nothing,
    claims::a_reader_never_sees_half_a_write,
    upkeep::a_deleted_thread_is_gone_and_others_stay,
    upkeep::deleting_an_unknown_thread_does_nothing,
    upkeep::a_deleted_thread_can_be_begun_again,
    upkeep::a_writer_from_before_a_delete_is_fenced_off,
    upkeep::a_held_thread_is_neither_deleted_nor_copied_nor_pruned,
    upkeep::a_copy_has_the_whole_log_and_the_source_stays,
    upkeep::a_copy_and_its_source_go_separate_ways,
    upkeep::copying_an_unknown_thread_copies_nothing,
    upkeep::a_copy_onto_a_thread_with_a_log_is_refused,
    upkeep::a_prune_drops_what_lies_before_the_newest_base,
    upkeep::a_prune_keeps_an_open_superstep_and_the_runs,
    upkeep::a_prune_keeps_what_a_kept_record_refers_to,
    upkeep::a_prune_drops_segments_without_a_reference,
    upkeep::a_prune_without_a_base_or_a_thread_does_nothing,
    upkeep::a_pruned_thread_goes_on,
    upkeep::a_pruned_thread_can_be_copied_and_deleted,
    retention::a_policy_keeps_what_it_names_and_what_that_needs,
    retention::the_newest_of_each_branch_are_those_that_led_to_it,
    retention::who_holds_a_thread_may_drop_its_old_checkpoints,
    retention::a_policy_for_an_unknown_thread_does_nothing,
    branches::the_head_goes_back_to_an_older_position_on_a_new_branch,
    branches::a_branch_that_is_not_its_own_is_refused,
    branches::a_branch_on_a_stale_head_or_end_is_a_conflict,
    branches::a_prune_keeps_what_the_head_of_each_branch_needs,
    branches::a_prune_keeps_the_position_that_an_empty_branch_stands_on,
    branches::a_log_with_branches_is_copied_and_restored,
    wishes::a_wish_is_kept_and_told_to_the_holder,
    wishes::a_wish_for_nobody_is_not_kept,
    wishes::a_wish_is_gone_with_the_write_that_fulfils_it,
    wishes::a_wish_never_outlives_its_run,
    wishes::a_lesser_wish_changes_nothing,
    wishes::upkeep_takes_a_wish_nowhere,
    wishes::a_thread_that_nobody_holds_is_cancelled_at_once,
    restore::an_extent_says_what_a_thread_has,
    restore::an_extent_says_what_a_prune_has_left,
    restore::threads_are_listed_by_name,
    restore::a_thread_is_restored_as_it_was,
    restore::a_restored_thread_goes_on,
    restore::a_restored_thread_stands_for_itself,
    restore::a_restore_onto_a_thread_with_a_log_is_refused,
    restore::a_held_thread_is_not_restored,
    restore::a_writer_from_before_a_restore_is_fenced_off,
    restore::an_archive_that_does_not_hold_together_is_refused,
];

/// What a run of the checks found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// How many checks were run.
    pub checks: usize,
    /// The promises that were not kept.
    pub failures: Vec<Failure>,
}

impl Report {
    /// Whether every promise was kept.
    pub fn passed(&self) -> bool {
        self.failures.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of {} checks failed",
            self.failures.len(),
            self.checks
        )?;
        for failure in &self.failures {
            write!(f, "\n- {failure}")?;
        }
        Ok(())
    }
}

/// A promise that was not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// The name of the check.
    pub check: &'static str,
    /// What was expected and what was found.
    pub reason: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.check, self.reason)
    }
}

/// Runs every check, each on a store of its own.
///
/// `make` gives an empty store each time it is called.
pub async fn check<S: CheckpointStore>(make: impl AsyncFn() -> S) -> Report {
    let mut report = Report {
        checks: 0,
        failures: Vec::new(),
    };
    for (name, check) in CHECKS {
        let store: Subject = Arc::new(make().await);
        report.note(name, run(check(store)).await);
    }
    report
}

/// Runs every check, and then those that close a store and open it again.
///
/// `reopen` closes the store it is given and opens the same one again.
pub async fn check_reopened<S: CheckpointStore>(
    make: impl AsyncFn() -> S,
    reopen: impl AsyncFn(S) -> S,
) -> Report {
    let mut report = check(&make).await;
    let verdict = log::all_is_there_after_a_reopen(make().await, &reopen).await;
    report.note("all_is_there_after_a_reopen", verdict);
    let verdict = claims::epochs_rise_over_a_reopen(make().await, &reopen).await;
    report.note("epochs_rise_over_a_reopen", verdict);
    let verdict = upkeep::upkeep_outlives_a_reopen(make().await, &reopen).await;
    report.note("upkeep_outlives_a_reopen", verdict);
    let verdict = restore::a_restored_thread_outlives_a_reopen(make().await, &reopen).await;
    report.note("a_restored_thread_outlives_a_reopen", verdict);
    let verdict = wishes::a_wish_outlives_a_reopen(make().await, &reopen).await;
    report.note("a_wish_outlives_a_reopen", verdict);
    report
}

impl Report {
    fn note(&mut self, check: &'static str, verdict: Verdict) {
        self.checks += 1;
        if let Err(reason) = verdict {
            self.failures.push(Failure { check, reason });
        }
    }
}

/// Turns a panic of the store into a failure of the check.
async fn run(check: impl Future<Output = Verdict> + Send + 'static) -> Verdict {
    match tokio::spawn(check).await {
        Ok(verdict) => verdict,
        Err(error) => Err(format!("it panicked: {error}")),
    }
}
