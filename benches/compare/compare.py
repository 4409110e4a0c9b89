"""Runs the plan and prints the tables. `benches/compare/run` says how it is called."""

import argparse
import json
import os
import statistics
import subprocess
import sys
from datetime import date
from pathlib import Path

import aims
from plan import ROWS

HERE = Path(__file__).parent
# Seconds after which a run is given up.
LIMIT = 600


def programs():
    """The program of each peer; ours has the wide states in one of their own."""
    target = Path(os.environ["TARGET"])
    rust = target / "rust" / "release"
    return {
        "milepost": [os.environ["ENGINE"]],
        "milepost wide": [os.environ["WIDE"]],
        "graph-flow": [rust / "graph-flow"],
        "cognis-graph": [rust / "cognis"],
        "adk-graph": [rust / "adk"],
        "langgraph": [target / "python" / "bin" / "python", HERE / "python" / "langgraph_rival.py"],
    }


def run(rows, rounds, file):
    """Runs everything, round by round, and keeps each line with its round."""
    known = programs()
    os.environ["BENCH_DATA"] = str(Path(os.environ["TARGET"]) / "data")
    lines = []
    for number in range(rounds):
        for row in rows:
            runs = [run for run in row.runs() if number < run[0].rounds]
            # Nobody is always the first.
            turn = number % max(len(runs), 1)
            for entry, args in runs[turn:] + runs[:turn]:
                told = f"round {number + 1} of {rounds}: {entry.peer} {' '.join(args)}"
                print(f"\r\033[K{told}", end="", file=sys.stderr, flush=True)
                wide = f"{entry.peer} {row.workload}"
                line = one(known.get(wide, known[entry.peer]), args) | {"round": number}
                if "failed" in line:
                    print(f"\n{line['failed']}", file=sys.stderr)
                else:
                    lines.append(line)
                    file.write(json.dumps(line) + "\n")
                    file.flush()
    print("\r\033[K", end="", file=sys.stderr, flush=True)
    return lines


def one(program, args):
    command = [str(part) for part in program + args]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return {"failed": f"given up after {LIMIT} s"}
    if done.returncode != 0:
        return {"failed": done.stderr.strip()[-500:]}
    return json.loads(done.stdout)


class Results:
    """All lines, found by who did what."""

    def __init__(self, lines):
        self.by_key = {}
        for line in lines:
            names = ("peer", "workload", "store", "size", "bytes")
            key = tuple(line[name] for name in names)
            self.by_key.setdefault(key, {})[line["round"]] = line

    def of(self, entry, row):
        """The runs of an entry, by round."""
        size = entry.size or row.size
        return self.by_key.get((entry.peer, row.workload, entry.store, size, row.bytes or 200), {})

    def values(self, entry, row, value):
        return [value(line) for line in self.of(entry, row).values()]

    def median(self, entry, row, value):
        values = self.values(entry, row, value)
        return statistics.median(values) if values else None

    def ratio(self, above, below, row, value, other_row=None):
        """The median of the ratios of the runs of one round, which were neighbours."""
        over, under = self.of(above, row), self.of(below, other_row or row)
        ratios = [
            value(over[number]) / value(under[number])
            for number in over.keys() & under.keys()
            if value(under[number])
        ]
        return statistics.median(ratios) if ratios else None


def wall(line):
    return line["wall_us"] / line["steps"]


def cpu(line):
    return line["cpu_us"] / line["steps"]


def figure(value):
    """Three digits, or all of those before the point."""
    if value is None:
        return "–"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.{2 if value < 10 else 1}f}"


def measured(rows, results):
    yield ["work", "who", "store", "µs a step", "least–most", "CPU", "÷ first", "CPU ÷", "peak MB"]
    for row in rows:
        name = row.name()
        first = row.entries[0]
        for entry in row.entries:
            walls = results.values(entry, row, wall)
            if not walls:
                continue
            other = entry is not first
            peak = results.median(entry, row, lambda line: line["peak_kb"] / 1000)
            beside = "+" in entry.store
            yield [
                name,
                entry.peer + (f" ({entry.size:,})" if entry.size else ""),
                entry.store,
                figure(statistics.median(walls)),
                f"{figure(min(walls))}–{figure(max(walls))}",
                "" if beside else figure(results.median(entry, row, cpu)),
                figure(results.ratio(entry, first, row, wall)) if other else "",
                figure(results.ratio(entry, first, row, cpu)) if other and not beside else "",
                figure(peak),
            ]
            name = ""
            # What was written bare in the same run, in turn with the store.
            bare = results.values(entry, row, lambda line: line.get("bare_us", 0) / line["steps"])
            if any(bare):
                spread = f"{figure(min(bare))}–{figure(max(bare))}"
                kind = f"bare {entry.store.split('+')[1]}"
                yield ["", "", kind, figure(statistics.median(bare)), spread, "", "", "", ""]


def judged(rows, results):
    yield ["aim", "found", ""]
    for aim in aims.all_of(rows, results):
        yield [aim.text, aim.found, "met" if aim.is_met else "**missed**"]


def show(table, markdown):
    table = [[str(cell) for cell in line] for line in table]
    widths = [max(map(len, column)) for column in zip(*table)]
    for number, line in enumerate(table):
        if markdown:
            print(f"| {' | '.join(line)} |")
            if number == 0:
                print("|" + " --- |" * len(line))
        else:
            cells = [cell.ljust(width) for cell, width in zip(line, widths)]
            print("  ".join(cells).replace("**", "").rstrip())
    print()


def machine():
    info = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(": ")[1] for line in info if line.startswith("model name")), "?")
    rustc = subprocess.run(["rustc", "--version"], capture_output=True, text=True).stdout.strip()
    return f"{date.today()}, {os.cpu_count()} cores of {model}, {os.uname().sysname}, {rustc}."


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--json", default=str(Path(os.environ["TARGET"]) / "lines.jsonl"))
    parser.add_argument("--from", dest="source")
    parser.add_argument("--markdown", action="store_true")
    args = parser.parse_args()
    rows = [row for row in ROWS if args.only in f"{row.group} {row.name()}"]
    if args.source:
        lines = [json.loads(line) for line in Path(args.source).read_text().splitlines()]
    else:
        with open(args.json, "w") as file:
            lines = run(rows, args.rounds, file)
    results = Results(lines)
    rounds = 1 + max((line["round"] for line in lines), default=0)
    print(f"{machine()} {rounds} rounds.\n")
    show(measured(rows, results), args.markdown)
    show(judged(rows, results), args.markdown)


main()
