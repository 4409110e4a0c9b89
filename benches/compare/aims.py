"""What is aimed at, and what was found."""

from dataclasses import dataclass

from plan import DURABLE, Entry


@dataclass(frozen=True)
class Aim:
    text: str
    found: str
    is_met: bool


def all_of(rows, results):
    """Every aim that something was measured for."""
    found = [
        *without_a_store(rows, results),
        *in_memory(rows, results),
        *durable(rows, results),
        *threads(rows, results),
        *long(rows, results),
        *resume(rows, results),
        *memory(rows, results),
    ]
    return [aim for aim in found if aim]


def wall(line):
    return line["wall_us"] / line["steps"]


def at_least(text, value, bound):
    return value and Aim(f"{text}: at least {bound:,} times", f"{value:,.1f}", value >= bound)


def at_most(text, value, bound, unit=" times"):
    return value and Aim(f"{text}: at most {bound:,}{unit}", f"{value:,.2f}", value <= bound)


def of_group(rows, group):
    return [row for row in rows if row.group == group]


def ours(store):
    return Entry("milepost", store)


def fastest(row, results, store_of_ours, stores):
    """How many times as long as we the fastest Rust rival takes."""
    rivals = [e for e in row.entries if e.peer not in ("milepost", "langgraph") and e.store in stores]
    ratios = [results.ratio(rival, ours(store_of_ours), row, wall) for rival in rivals]
    return min((ratio for ratio in ratios if ratio), default=None)


def without_a_store(rows, results):
    for row in of_group(rows, "free"):
        yield at_least(
            f"{row.name()}, no store: the fastest peer", fastest(row, results, "none", ["none"]), 3
        )
        for entry in row.entries:
            if entry.peer == "langgraph":
                ratio = results.ratio(entry, ours("none"), row, wall)
                bound = 1000 if row.workload == "seq" else 300
                yield at_least(f"{row.name()}, no store: LangGraph", ratio, bound)


def in_memory(rows, results):
    for row in of_group(rows, "free"):
        ratio = fastest(row, results, "mem", ["none"])
        text = f"{row.name()}, every step kept in memory: the fastest peer that keeps nothing"
        yield at_least(text, ratio, 1)


def durable(rows, results):
    for row in of_group(rows, "durable"):
        for store, kept in DURABLE.items():
            beside = ours(f"{store}+{kept.bare}")
            ratio = results.median(beside, row, lambda line: line["wall_us"] / line["bare_us"])
            text = f"{row.name()}, {store}: beside a bare {kept.bare} of the same bytes, synced"
            yield at_most(text, ratio, kept.most)
            ratio = fastest(row, results, store, ["sqlite"])
            yield at_least(f"{row.name()}, {store}: the fastest peer with SQLite", ratio, kept.least)


def threads(rows, results):
    by_size = {row.size: row for row in of_group(rows, "threads")}
    if 1 in by_size and 64 in by_size:
        for store in DURABLE:
            ratio = results.ratio(ours(store), ours(store), by_size[1], wall, by_size[64])
            yield at_least(f"64 threads at once, {store}: steps a second of one thread", ratio, 8)


def long(rows, results):
    for row in rows:
        if row.workload != "react" or row.size < 10_000:
            continue
        for entry in row.entries:
            if entry.peer != "milepost" or "+" in entry.store:
                continue
            drift = lambda line: line["last_us"] / line["first_us"]  # noqa: E731
            yield at_most(
                f"{row.name()}, {entry.store}: the last hundred rounds beside the first",
                results.median(entry, row, drift),
                1.2,
            )
    rows = of_group(rows, "long")
    for row in rows:
        counted = next((e for e in row.entries if e.store == "mem+counted"), None)
        if not counted:
            continue
        said = 2 * row.size * row.bytes
        more = lambda line: (line["handed_bytes"] - said) / line["writes"]  # noqa: E731
        text = f"{row.name()}: bytes handed to the store a commit, beside the messages"
        yield at_most(text, results.median(counted, row, more), 200, " bytes")
    for store, kept in DURABLE.items():
        stored = {row.size: row for row in rows if store in stores_of(row)}
        for row in stored.values():
            times = lambda line: line["disk_allocated"] / (2 * line["size"] * line["bytes"])  # noqa: E731
            text = f"{row.name()}, {store}: room on the disk beside the bytes of the messages"
            yield at_most(text, results.median(ours(store), row, times), kept.room)
        if 5_000 in stored and 10_000 in stored:
            room = lambda line: line["disk_allocated"] / line["size"]  # noqa: E731
            half, whole = (results.median(ours(store), stored[n], room) for n in (5_000, 10_000))
            if half and whole:
                text = f"react, {store}: room a round, 10,000 rounds beside 5,000"
                yield at_most(text, whole / half, 1.05)


def stores_of(row):
    return [entry.store for entry in row.entries]


def resume(rows, results):
    for row in of_group(rows, "resume"):
        for entry in row.entries:
            spent = results.median(entry, row, lambda line: line["wall_us"] / 1000)
            yield at_most(f"{row.name()} steps, {entry.store}: the head", spent, 10, " ms")


def memory(rows, results):
    """Peaks of memory beside 20 MB and twice the state."""
    state = {
        "cycle": lambda row: 0,
        "fan": lambda row: 8 * row.size,
        "react": lambda row: 2 * row.size * row.bytes,
        "wide": lambda row: 8 * row.size,
        "subgraph": lambda row: 2 * 5_000 * row.size,
    }
    for row in rows:
        for entry in row.entries:
            if row.workload not in state or entry.store not in ("none", *DURABLE):
                continue
            if entry.peer != "milepost":
                continue
            bound = 20 + 2 * state[row.workload](row) / 1e6
            peak = results.median(entry, row, lambda line: line["peak_kb"] / 1000)
            yield at_most(f"{row.name()}, {entry.store}: peak of memory", peak, round(bound, 1), " MB")
