//! What the public surface promises, tested from outside.

mod store_conformance;
mod store_damage;
mod store_format;
mod store_kill;
mod store_logs;
mod store_sled;
mod smoke;
