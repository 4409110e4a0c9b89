//! The parts of the research graph, put together by hand over real folders.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod folder;
mod graph;
mod manual;

use std::path::Path;

use milepost::agent::ChatModel;

use crate::graphs::research::{
    Finding, Library, Limits, MOST_ROUNDS, Plan, ResearchState, Route, TaskError, analyse, assess,
    check_citations, discover, findings, next_batch, required_sources, write_report,
};

/// Walks the loop of the graph; gives its last state and the findings of the report.
pub(crate) async fn research(
    query: &str,
    folder: &Path,
    library: &Library,
    model: &dyn ChatModel,
    require: &str,
) -> (ResearchState, Vec<Vec<Finding>>) {
    let plan = Plan::of(query).unwrap().weighed(library.index());
    let mut state = ResearchState {
        query: query.to_owned(),
        skipped: library.skipped().to_vec(),
        ..ResearchState::default()
    };
    state.constraints.insert("require".into(), require.into());
    let required = required_sources(&state.constraints);
    let mut route = Route::Discover;
    while route != Route::Report {
        if route == Route::Discover {
            state.rounds += 1;
            let new = discover(library, &plan, &required, &state.candidates, state.rounds);
            state.candidates.extend(new);
        }
        for candidate in next_batch(&required, &state.candidates, &state.notes, &state.errors) {
            match analyse(library, &plan, &candidate, model).await {
                Ok(note) => drop(state.notes.insert(note.id.clone(), note)),
                Err(error) => state.errors.push(TaskError {
                    node: "analyse".into(),
                    source: candidate.id,
                    message: error.to_string(),
                }),
            }
        }
        let more = state.rounds < MOST_ROUNDS;
        let coverage = assess(
            &plan,
            &required,
            &state.candidates,
            &state.notes,
            &state.errors,
            more,
        );
        route = coverage.route();
        state.coverage = Some(coverage);
    }
    let found = findings(&plan, &state.notes);
    let coverage = state.coverage.clone().unwrap_or_default();
    let report = write_report(&plan, &found, &coverage, &state.errors, &state.skipped);
    state.citation_faults = check_citations(&report, folder, &Limits::default());
    state.report = Some(report);
    state.plan = Some(plan);
    (state, found)
}
