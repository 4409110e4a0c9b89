#!/usr/bin/env bash
# Runs our benchmark and those of the two fastest rivals alternately, in the same minutes, and
# prints medians, spread and ratios: on a shared machine only the ratios mean anything.
#
#   benches/beside.sh PATH_TO_RIVALS [ROUNDS]
#
# PATH_TO_RIVALS is a cargo workspace with the packages peer-graphflow and peer-cognis, whose
# programs take WORKLOAD STORE and print one line of JSON. They are not part of this repository.
# Every run is a process of its own and does the work once, without a warm-up, on both sides;
# `milepost warm` is our own figure after one.
#
#   TARGET   where the rivals are built (default /tmp/milepost-beside)
#   CARGO    how cargo is called (default cargo)
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
rivals=${1:?usage: benches/beside.sh PATH_TO_RIVALS [ROUNDS]}
rounds=${2:-5}
target=${TARGET:-/tmp/milepost-beside}
cargo=${CARGO:-cargo}

mkdir -p "$target/source"
cp -r "$rivals/." "$target/source/"
(cd "$target/source" && CARGO_TARGET_DIR="$target" $cargo build --release -q -p peer-graphflow -p peer-cognis)
cd "$here"
ours=$($cargo bench --no-run --bench engine --message-format=json 2>/dev/null |
    python3 -c '
import json, sys
found = [m["executable"] for m in map(json.loads, sys.stdin)
         if m.get("reason") == "compiler-artifact" and m["target"]["name"] == "engine" and m["executable"]]
print(found[-1])')
export BENCH_DATA="$target/data"
lines=$(mktemp)
trap 'rm -rf "$lines" "$BENCH_DATA"' EXIT

# Which pairs, and which stores stand for the same thing.
pairs="seq:none fan:none react:none seq:mem react:mem"
for _ in $(seq "$rounds"); do
    for pair in $pairs; do
        workload=${pair%:*} store=${pair#*:}
        BENCH_WARM_UP=0 "$ours" "$workload" "$store" >>"$lines"
        "$target/release/peer-graphflow" "$workload" "$store" >>"$lines"
        "$target/release/peer-cognis" "$workload" "$store" >>"$lines"
        "$ours" "$workload" "$store" | sed 's/"peer":"milepost"/"peer":"milepost warm"/' >>"$lines"
    done
done

python3 - "$lines" "$rounds" <<'PYTHON'
import json, statistics, sys

runs = {}
for line in open(sys.argv[1]):
    run = json.loads(line)
    if "micros_per_step" not in run:
        continue
    # Some programs round to a hundredth: the total is finer.
    micros = run["total_ms"] * 1000 / run["steps"]
    runs.setdefault((run["workload"], run["store"]), {}).setdefault(run["peer"], []).append(micros)
print(f"{sys.argv[2]} rounds; microseconds a step: median (least to most); ratio to milepost")
print(f"{'workload':<12} {'peer':<14} {'median':>8} {'least':>8} {'most':>8} {'ratio':>7}")
for (workload, store), peers in runs.items():
    ours = statistics.median(peers["milepost"])
    for peer, values in peers.items():
        median = statistics.median(values)
        print(f"{workload + ' ' + store:<12} {peer:<14} {median:8.3f} {min(values):8.3f} "
              f"{max(values):8.3f} {median / ours:7.2f}")
PYTHON
