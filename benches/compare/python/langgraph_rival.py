"""LangGraph: one run of one shape, printed as one line of JSON with the names of benches/engine.

Called with WORKLOAD STORE SIZE [BYTES]. As in the other programs, a small run before the measured one
warms up, a short one without a disk is measured several times, and compiling the graph and opening the
store are outside. `sqlite` is written in the mode that waits for the store at each step.
"""

import json
import operator
import os
import resource
import shutil
import sqlite3
import statistics
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, TypedDict

os.environ["LANGSMITH_TRACING"] = "false"

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

WARM_UP = 100
SHORT = 1_000
REPEATS = 3
LETTERS = "abcdefghijklmnopqrstuvwxyz"
BUMPS = 10
SUBJECT = 5_000


def letters(count, skip=0):
    return (LETTERS * (count // len(LETTERS) + 2))[skip : skip + count]


class Small(TypedDict):
    n: int
    v: Annotated[list, operator.add]


class Chat(TypedDict):
    n: int
    messages: Annotated[list, operator.add]


class Task(TypedDict):
    i: int


class Jokes(TypedDict):
    subjects: list
    jokes: Annotated[list, operator.add]


class Joke(TypedDict):
    subject: str
    joke: str
    bumps: int


def increase(small):
    return {"n": small["n"] + 1}


def seq(n, _):
    graph = StateGraph(Small)
    last = START
    for i in range(n):
        graph.add_node(f"n{i}", increase)
        graph.add_edge(last, f"n{i}")
        last = f"n{i}"
    graph.add_edge(last, END)
    return graph, {"n": 0, "v": list(range(16))}, n, lambda end: end["n"] == n


def cycle(n, _):
    graph = StateGraph(Small)
    graph.add_node("there", increase)
    graph.add_node("back", increase)
    graph.add_edge(START, "there")
    graph.add_edge("there", "back")
    graph.add_conditional_edges(
        "back", lambda small: "there" if small["n"] < n else END, ["there", END]
    )
    return graph, {"n": 0, "v": list(range(16))}, n, lambda end: end["n"] == n


def fan(n, _):
    graph = StateGraph(Small)
    graph.add_node("source", lambda small: {})
    graph.add_node("worker", lambda task: {"v": [task["i"]]}, input_schema=Task)
    graph.add_node("reduce", lambda small: {"n": len(small["v"])})
    graph.add_edge(START, "source")
    each = [Send("worker", {"i": i}) for i in range(n)]
    graph.add_conditional_edges("source", lambda small: each, ["worker"])
    graph.add_edge("worker", "reduce")
    graph.add_edge("reduce", END)
    return graph, {"n": 0, "v": []}, n + 2, lambda end: end["v"] == list(range(n))


def react(n, size):
    rest = letters(size)

    def message(number):
        text = str(number)
        return text + rest[len(text) :]

    graph = StateGraph(Chat)
    graph.add_node(
        "agent", lambda chat: {"n": chat["n"] + 1, "messages": [message(2 * chat["n"])]}
    )
    graph.add_node("tool", lambda chat: {"messages": [message(2 * chat["n"] + 1)]})
    graph.add_edge(START, "agent")
    graph.add_edge("agent", "tool")
    graph.add_conditional_edges(
        "tool", lambda chat: "agent" if chat["n"] < n else END, ["agent", END]
    )
    return graph, {"n": 0, "messages": []}, 2 * n, lambda end: len(end["messages"]) == 2 * n


def wide(n, _):
    fields = TypedDict("Wide", {"at": int} | {f"f{i}": int for i in range(n)})

    def touch(state):
        at = state["at"]
        return {"at": at + 1, f"f{at}": state[f"f{at}"] + 1}

    graph = StateGraph(fields)
    graph.add_node("touch", touch)
    graph.add_edge(START, "touch")
    graph.add_conditional_edges(
        "touch", lambda state: "touch" if state["at"] < n else END, ["touch", END]
    )
    start = {"at": 0} | {f"f{i}": 0 for i in range(n)}
    return graph, start, n, lambda end: all(end[f"f{i}"] == 1 for i in range(n))


def subgraph(n, _):
    inner = StateGraph(Joke)
    inner.add_node("edit", lambda joke: {"subject": f"{joke['subject']} - hohoho"})
    inner.add_node("generate", lambda joke: {"joke": f"Joke about {joke['subject']}", "bumps": 0})
    inner.add_node("bump", lambda joke: {"joke": joke["joke"] + " a", "bumps": joke["bumps"] + 1})
    inner.add_edge(START, "edit")
    inner.add_edge("edit", "generate")
    inner.add_edge("generate", "bump")
    inner.add_conditional_edges(
        "bump", lambda joke: "bump" if joke["bumps"] < BUMPS else END, ["bump", END]
    )
    compiled = inner.compile()
    graph = StateGraph(Jokes)
    graph.add_node("plan", lambda jokes: {})
    graph.add_node("one", lambda joke: {"jokes": [compiled.invoke(joke)["joke"]]}, input_schema=Joke)
    graph.add_edge(START, "plan")
    graph.add_conditional_edges(
        "plan", lambda jokes: [Send("one", {"subject": s}) for s in jokes["subjects"]], ["one"]
    )
    graph.add_edge("one", END)
    start = {"subjects": [letters(SUBJECT, i % 26) for i in range(n)], "jokes": []}
    return graph, start, n * (2 + BUMPS), lambda end: len(end["jokes"]) == n


SHAPES = {
    "seq": seq, "cycle": cycle, "fan": fan, "react": react, "wide": wide, "subgraph": subgraph,
}


def once(workload, store, size, message_bytes, folder):
    graph, start, steps, check = SHAPES[workload](size, message_bytes)
    saver = None
    if store == "mem":
        saver = InMemorySaver()
    elif store == "sqlite":
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        saver = SqliteSaver(sqlite3.connect(folder / "store.db", check_same_thread=False))
        saver.setup()
    compiled = graph.compile(checkpointer=saver)
    config = {"configurable": {"thread_id": "measured"}, "recursion_limit": steps + 10}
    how = {} if saver is None else {"durability": "sync"}
    cpu, wall = time.process_time(), time.perf_counter()
    end = compiled.invoke(start, config, **how)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    assert check(end), "the result is wrong"
    return steps, wall, cpu


def main(workload, store, size, message_bytes=200):
    size, message_bytes = int(size), int(message_bytes)
    if workload not in SHAPES:
        sys.exit(f"langgraph has no {workload}")
    folder = Path(os.environ.get("BENCH_DATA", "target/bench-data")) / f"langgraph-{os.getpid()}"
    warm_up = size if workload == "wide" else min(size, WARM_UP)
    once(workload, store, warm_up, message_bytes, folder)
    runs = [once(workload, store, size, message_bytes, folder)]
    steps = runs[0][0]
    while steps <= SHORT and store == "none" and len(runs) < REPEATS:
        runs.append(once(workload, store, size, message_bytes, folder))
    files = [file.stat() for file in folder.rglob("*") if file.is_file()]
    shutil.rmtree(folder, ignore_errors=True)
    line = {
        "peer": "langgraph",
        "version": version("langgraph"),
        "workload": workload,
        "store": store,
        "size": size,
        "bytes": message_bytes,
        "steps": steps,
        "wall_us": statistics.median(wall for _, wall, _ in runs) * 1e6,
        "cpu_us": statistics.mean(cpu for _, _, cpu in runs) * 1e6,
        "peak_kb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        "disk_bytes": sum(file.st_size for file in files),
        "disk_allocated": sum(file.st_blocks * 512 for file in files),
    }
    print(json.dumps(line))


main(*sys.argv[1:])
