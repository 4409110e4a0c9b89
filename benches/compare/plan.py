"""What is run: rows of the same work, done by several, one after the other.

The first of a row is the one that the others are compared with.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Entry:
    """Who does the work, and where the steps are kept."""

    peer: str
    store: str
    # Where it takes too long at the row's size; compared by the step.
    size: int | None = None
    # Rounds at most.
    rounds: int = 99


@dataclass(frozen=True)
class Row:
    """One piece of work."""

    group: str
    workload: str
    size: int
    entries: list[Entry] = field(hash=False)
    bytes: int = 0

    def name(self):
        small = f", {self.bytes:,} bytes" if self.bytes else ""
        return f"{self.workload} {self.size:,}{small}"

    def runs(self):
        """Each entry with the arguments of its program."""
        for entry in self.entries:
            args = [self.workload, entry.store, str(entry.size or self.size)]
            yield entry, args + ([str(self.bytes)] if self.bytes else [])


def ours(*stores, **how):
    return [Entry("milepost", store, **how) for store in stores]


@dataclass(frozen=True)
class Durable:
    """What a store of ours that waits for the disk at each step is held against."""

    # The same bytes without an engine: `batch` of sled with flush and sync, `append` with sync.
    bare: str
    # At most so many times as long as those.
    most: float
    # The fastest peer with SQLite takes at least so many times as long.
    least: float
    # Room on the disk, at most so many times the bytes of the messages.
    room: float


DURABLE = {"sled": Durable("batch", 1.15, 2.5, 8)}

FLOW, COGNIS, ADK, LANG = "graph-flow", "cognis-graph", "adk-graph", "langgraph"


def free(workload, size, *rivals, bytes=0, stores=("none", "mem")):
    """Nothing is stored by the rivals; ours also with every step kept in memory."""
    return Row("free", workload, size, ours(*stores) + list(rivals), bytes)


def flow(**how):
    return Entry(FLOW, "none", **how)


def cognis(**how):
    return Entry(COGNIS, "none", **how)


def lang(store="none", **how):
    return Entry(LANG, store, **({"rounds": 3} | how))


def memory(workload, size, bytes=0):
    rivals = [Entry(FLOW, "mem"), Entry(COGNIS, "mem"), lang("mem")]
    return Row("memory", workload, size, ours("mem") + rivals, bytes)


def durable(workload, size, bytes=0):
    beside = [f"{store}+{durable.bare}" for store, durable in DURABLE.items()]
    rivals = [Entry(COGNIS, "sqlite"), Entry(ADK, "sqlite"), lang("sqlite", rounds=2)]
    return Row("durable", workload, size, ours(*DURABLE, *beside) + rivals, bytes)


def alone(group, workload, size, *stores, bytes=0, rounds=3):
    return Row(group, workload, size, ours(*stores, rounds=rounds), bytes)


ROWS = [
    free("seq", 1_000, flow(), cognis(), lang()),
    free("seq", 100_000, flow(), cognis()),
    free("cycle", 1_000_000, flow(), cognis(), lang(size=1_000), stores=("none",)),
    free("cycle", 100_000, stores=("none", "mem")),
    free("fan", 1_000, flow(), cognis(), lang()),
    free("fan", 100_000, flow(), cognis()),
    free("react", 100, flow(), cognis(), lang(), bytes=200),
    free("react", 100, flow(), cognis(), lang(), bytes=1024),
    free("react", 10_000, flow(), bytes=200),
    free("react", 10_000, flow(), bytes=1024),
    free("wide", 300, flow(), lang()),
    free("wide", 600, flow(), lang()),
    free("wide", 1_200, flow(), lang(rounds=1)),
    free("subgraph", 100, lang()),
    memory("seq", 1_000),
    memory("react", 100, bytes=200),
    durable("seq", 1_000),
    durable("react", 100, bytes=200),
    durable("react", 100, bytes=1024),
    alone("long", "react", 10_000, *DURABLE, bytes=200, rounds=2),
    alone("long", "react", 5_000, *DURABLE, bytes=200, rounds=2),
    alone("long", "react", 10_000, "mem+counted", bytes=200, rounds=1),
    alone("long", "react", 10_000, "mem+counted", bytes=1024, rounds=1),
    alone("threads", "threads", 1, "none", "mem", *DURABLE),
    alone("threads", "threads", 64, "none", "mem", *DURABLE),
    alone("threads", "threads", 1_000, "none", "mem", *DURABLE),
    alone("resume", "resume", 10_000, "mem", *DURABLE),
]
