//! What milepost promises, a module a promise.

mod state_codec;
mod state_data;
mod state_merge;
mod state_orders;
mod state_reducers;
mod ui;
