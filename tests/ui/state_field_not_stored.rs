//! A field whose type cannot be stored.

use milepost::State;

#[derive(Clone, Default)]
struct Handle;

#[derive(Clone, Default, State)]
struct Chat {
    handle: Handle,
}

fn main() {}
