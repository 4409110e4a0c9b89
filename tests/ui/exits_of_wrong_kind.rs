//! Only an enum without data says how a node was left.

use milepost::Exits;

#[derive(Clone, Copy, Exits)]
enum WithData {
    Plain,
    Tuple(u8),
    Named { reason: u8 },
}

#[derive(Clone, Copy, Exits)]
enum Empty {}

#[derive(Clone, Copy, Exits)]
struct NoEnum;

#[derive(Clone, Copy, Exits)]
enum Generic<T> {
    One,
    Two(T),
}

#[derive(Exits)]
enum NotCopy {
    One,
}

fn main() {}
