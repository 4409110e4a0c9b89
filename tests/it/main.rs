//! What the public surface promises, tested from outside.

mod store_conformance;
mod store_format;
