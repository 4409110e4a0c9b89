#!/usr/bin/env bash
# What a user's first debug build costs: a program with a graph of ten nodes and the default features,
# built from nothing, without the network. Prints how many crates were compiled and how many seconds
# of processor time that took, all processes together.
#
#   benches/build-cost.sh
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/src"
# The versions that this repository is built with: those are there without the network.
cp "$root/Cargo.lock" "$folder/Cargo.lock"

cat > "$folder/Cargo.toml" <<TOML
[package]
name = "ten"
version = "0.1.0"
edition = "2024"

[dependencies]
milepost = { path = "$root" }
tokio = { version = "1", features = ["rt-multi-thread", "macros"] }
TOML

cat > "$folder/src/main.rs" <<'RUST'
use milepost::store::SledStore;
use milepost::{
    Command, Context, End, Graph, NodeError, Runner, Snapshot, State, ThreadId,
};

#[derive(Clone, Debug, Default, State)]
struct Count {
    n: u64,
}

async fn increase(count: Snapshot<Count>, _: Context) -> Result<CountUpdate, NodeError> {
    Ok(Count::update().n(count.n + 1))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut g = Graph::builder("ten");
    let mut last = g.node("n0", increase);
    g.start(last);
    for i in 1..10 {
        let next = g.node(format!("n{i}"), increase);
        g.edge(last, next);
        last = next;
    }
    g.edge(last, End);
    let folder = std::env::args().nth(1).unwrap_or_else(|| "store".to_owned());
    let runner = Runner::new(g.build()?).store(SledStore::open(folder)?);
    let report = runner
        .run(&ThreadId::new("first")?, Command::start(Count::update()))
        .await?;
    assert_eq!(report.state.n, 10);
    Ok(())
}
RUST

export CARGO_TARGET_DIR="$folder/target"
unset RUSTFLAGS RUSTC_WRAPPER
TIMEFORMAT='%R %U %S'
taken=$({ time cargo build --offline --manifest-path "$folder/Cargo.toml" 2> "$folder/log"; } 2>&1) || {
    cat "$folder/log" >&2
    exit 1
}
"$folder/target/debug/ten" "$folder/store"
crates=$(grep -c '^ *Compiling ' "$folder/log")
echo "$taken" | awk -v crates="$crates" \
    '{ printf "%d crates, %.1f s of processor time, %.1f s on the clock\n", crates, $2 + $3, $1 }'
