//! What the public surface promises, tested from outside.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[cfg(feature = "graphs")]
#[path = "../../graphs/mod.rs"]
pub mod graphs;

#[cfg(all(feature = "cli", feature = "graphs"))]
mod broken_cli;
#[cfg(feature = "sled")]
mod broken_runtime;
#[cfg(all(feature = "cli", feature = "graphs"))]
mod cli_answers;
#[cfg(all(feature = "cli", feature = "graphs"))]
mod cli_archive;
#[cfg(all(feature = "cli", feature = "graphs"))]
mod cli_bin;
#[cfg(all(unix, feature = "cli", feature = "graphs"))]
mod cli_cancel;
#[cfg(all(feature = "cli", feature = "graphs"))]
mod cli_commands;
#[cfg(all(feature = "cli", feature = "graphs"))]
mod cli_compact;
#[cfg(all(feature = "cli", feature = "graphs"))]
mod cli_crash;
#[cfg(all(feature = "cli", feature = "graphs"))]
mod cli_doctor;
#[cfg(all(feature = "cli", feature = "graphs"))]
mod cli_durability;
#[cfg(all(feature = "cli", feature = "graphs"))]
mod cli_effects;
#[cfg(all(feature = "cli", feature = "graphs", feature = "fjall"))]
mod cli_engines;
#[cfg(all(feature = "cli", feature = "graphs"))]
mod cli_errors;
#[cfg(all(feature = "cli", feature = "graphs"))]
mod cli_inputs;
#[cfg(all(unix, feature = "cli", feature = "graphs"))]
mod cli_inside;
#[cfg(all(unix, feature = "cli", feature = "graphs"))]
mod cli_live;
#[cfg(all(feature = "cli", feature = "graphs"))]
mod cli_looks;
#[cfg(all(unix, feature = "cli", feature = "graphs"))]
mod cli_messages;
#[cfg(all(feature = "cli", feature = "graphs"))]
mod cli_new;
#[cfg(all(feature = "cli", feature = "graphs"))]
mod cli_pictures;
#[cfg(all(feature = "cli", feature = "sled"))]
mod cli_retry;
#[cfg(all(feature = "cli", feature = "graphs"))]
mod cli_schema;
#[cfg(all(unix, feature = "cli", feature = "graphs"))]
mod cli_terminal;
#[cfg(all(feature = "cli", feature = "graphs"))]
mod cli_travel;
#[cfg(all(feature = "cli", feature = "graphs"))]
mod cli_versions;
#[cfg(all(feature = "cli", feature = "graphs", unix))]
mod cli_window;
mod data_path;
#[cfg(feature = "sled")]
mod durability;
#[cfg(feature = "sled")]
mod effects;
#[cfg(feature = "sled")]
mod engine_callers;
#[cfg(feature = "sled")]
mod engine_cases;
#[cfg(feature = "sled")]
mod engine_damage;
#[cfg(feature = "sled")]
mod engine_doors;
#[cfg(feature = "sled")]
mod engine_growth;
#[cfg(feature = "sled")]
mod engine_marks;
#[cfg(feature = "sled")]
mod engine_state;
#[cfg(feature = "sled")]
mod engine_told;
#[cfg(feature = "sled")]
mod engine_trouble;
#[cfg(feature = "sled")]
mod error_exits;
#[cfg(feature = "sled")]
mod failed_merges;
#[cfg(feature = "sled")]
mod graph_checks;
#[cfg(feature = "sled")]
mod graph_orders;
#[cfg(all(unix, feature = "cli", feature = "graphs", feature = "fjall"))]
mod guide;
#[cfg(feature = "sled")]
mod idle;
#[cfg(feature = "sled")]
mod inner_records;
#[cfg(feature = "sled")]
mod joins;
#[cfg(feature = "sled")]
mod joins_random;
#[cfg(feature = "sled")]
mod late;
#[cfg(feature = "sled")]
mod migrate;
#[cfg(feature = "sled")]
mod node_cache;
mod pictures;
#[cfg(feature = "sled")]
mod questions;
#[cfg(feature = "graphs")]
mod research;
#[cfg(feature = "sled")]
mod retention;
#[cfg(feature = "sled")]
mod retries;
mod rooms;
#[cfg(feature = "sled")]
mod run_context;
#[cfg(feature = "sled")]
mod run_events;
#[cfg(feature = "sled")]
mod run_schema;
#[cfg(feature = "sled")]
mod run_stop;
#[cfg(feature = "sled")]
mod settle;
#[cfg(feature = "sled")]
mod smoke;
mod state_codec;
mod state_data;
mod state_merge;
mod state_orders;
mod state_reducers;
#[cfg(feature = "sled")]
mod steps;
#[cfg(feature = "sled")]
mod store_archive;
mod store_conformance;
#[cfg(any(feature = "sled", feature = "fjall"))]
mod store_damage;
#[cfg(any(feature = "sled", feature = "fjall"))]
mod store_disk;
#[cfg(all(feature = "sled", feature = "encryption", feature = "cli"))]
mod store_encrypted;
#[cfg(feature = "fjall")]
mod store_fjall;
mod store_format;
#[cfg(any(feature = "sled", feature = "fjall"))]
mod store_kill;
#[cfg(any(feature = "sled", feature = "fjall"))]
mod store_logs;
#[cfg(feature = "sled")]
mod store_sled;
#[cfg(all(feature = "sled", feature = "window", unix))]
mod store_window;
#[cfg(feature = "sled")]
mod subgraphs;
#[cfg(feature = "sled")]
mod support;
#[cfg(feature = "sled")]
mod travel;
#[cfg(feature = "sled")]
mod travel_replay;
mod ui;
#[cfg(feature = "sled")]
mod wishes;
