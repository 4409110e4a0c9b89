//! The `milepost` program: the commands over the worked graphs.
fn main() {}
