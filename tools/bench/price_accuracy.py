"""How near the prices of ops are to what the runtime takes, on networks they were not fitted to.

Every float network is built with all ops on floats, with all that can be on codes, and with all
products dynamic that can be, and ONNX Runtime's profiler times the nodes of each.
`Target.state_price` says what each op should take. Of each network: the sum over the ops against
that of the nodes; the factor between an op's price and its time that half of the time is within,
and that 90 % of it is; and of the ops that run on floats and on codes how often the price says
rightly which is faster, by what they take (and what choosing by the price costs over choosing by
the times). A node's time is without what the profiler adds.

    python -m tools.bench price-accuracy *.onnx --prices here.json --json figures.json
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.ir import Operation

import qdialect as qd
from qdialect.analysis.cost import elements
from qdialect.plugins.onnx.write import OrtEngine, write_model
from qdialect.plugins.onnx.write.node_times import NodeTime, node_times
from qdialect.quantizer.precision import Time
from qdialect.quantizer.preparation import prepare
from qdialect.quantizer.recipe import Precision, Recipe
from qdialect.quantizer.selection import concerns
from qdialect.quantizer.values import float_value
from qdialect.targets.base import Target
from qdialect.targets.price_table import read_prices
from qdialect.workflows.candidates import Builder, attributed
from qdialect.workflows.model import Model
from tests.support.tables import step, table
from tools.bench.kernel_benchmark import ByNode, KernelBenchmark

NUMERICS = "exact"
SECONDS = 6.0
STATES = {"float": "float", "codes": "u8 i8", "dynamic": "dynamic"}
"""What is built, and the state it is priced in."""


@dataclass(frozen=True)
class Op:
    """An op that ran as a node of its own: nanoseconds by its price and by the profiler."""

    name: str
    state: str
    number: int
    price: float
    time: float

    @property
    def factor(self) -> float:
        """How far apart they are; 1: equal."""
        return math.exp(abs(math.log(max(self.price, 500.0) / max(self.time, 500.0))))


@dataclass(frozen=True)
class Row:
    """A network; times in microseconds."""

    model: str
    state: str
    price: float
    time: float
    ops: int
    middle: float
    most: float


@dataclass(frozen=True)
class Choice:
    """Of the ops of a network that ran in both states: how many, the share of their time in
    which the price chooses as the times do, and the time of what it chooses by that of the
    best."""

    model: str
    ops: int
    right: float
    over: float


def samples(path: Path) -> Mapping[str, np.ndarray]:
    """Random inputs: times depend little on values."""
    engine = OrtEngine(path, optimize=False)
    rng = np.random.default_rng(1)
    found: dict[str, np.ndarray] = {}
    for port in engine.ports:
        shape = [128 if n == -1 and d else abs(n) for d, n in enumerate(port["signature"])]
        floats = "float" in port["type"]
        values = rng.standard_normal(shape) if floats else rng.integers(0, 5, shape)
        found[port["name"]] = values.astype(np.float32 if floats else np.int64)
    return found


def measured(path: Path, target: Target, by_node: ByNode) -> Iterator[Op]:
    """The ops of a network that have times, in both states."""
    model = qd.load(path)
    inputs = samples(path)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.npz"
        np.savez(data, allow_pickle=False, **inputs)
        profile = qd.calibrate(model, data)
    prepared = Model(model.module.clone(), model.ctx.clone())
    prepared.ctx.target = target
    prepare(prepared.module, prepared.ctx, frozenset())
    builder = Builder(prepared, profile, Recipe.of_target(target), target, NUMERICS)
    selection = builder.selection()
    able = builder.able(selection)
    built = {"float": builder.floats()}
    for name, state in (("codes", Precision.CODES), ("dynamic", Precision.DYNAMIC)):
        if state in able:
            built[name] = builder.extreme(state, able)
    files = [write_model(each.model.module, each.model.ctx).whole() for each in built.values()]
    nodes = node_times(files, [inputs] * len(files), SECONDS)
    for state, each in zip(built, nodes, strict=True):
        corrected = [_corrected(node, by_node) for node in each]
        times = attributed(selection.values.function, selection.values.ctx, corrected)
        prices = _prices(list(selection.values.block.ops), times.keys(), STATES[state], target)
        for number, op in enumerate(selection.values.block.ops):
            if number in prices:
                time = _time(op, times[number], state, target)
                yield Op(op.name, state, number, prices[number], time)


def _prices(
    ops: Sequence[Operation], timed: Container[int], state: str, target: Target
) -> dict[int, float]:
    """The prices of the ops that have times, with those of the ops that ran as part of them."""
    numbers = {op: number for number, op in enumerate(ops)}
    found: dict[int, float] = {}
    for number, op in enumerate(ops):
        if not concerns(op) or (price := target.state_price(op, state)) is None:
            continue
        above: Operation | None = op
        while above is not None and numbers[above] not in timed:
            owners = [v.owner for v in above.operands if float_value(v)]
            above = next((o for o in owners if isinstance(o, Operation) and o in numbers), None)
        if above is op:
            found[number] = found.get(number, 0.0) + price
        elif above is not None and numbers[above] in found:
            found[numbers[above]] += price
    return found


def _corrected(node: NodeTime, by_node: ByNode) -> NodeTime:
    ns = node.nanoseconds - by_node.start - by_node.operand * node.operands
    return replace(node, nanoseconds=max(ns, 0.0))


def _time(op: Operation, time: Time, state: str, target: Target) -> float:
    """What an op took; on floats between casts, with the casts, by their prices."""
    if state != "codes":
        return time.nanoseconds
    cast = target.state_cast_price
    found = time.nanoseconds
    if time.takes_floats:
        counts = [elements(v) for v in op.operands if float_value(v)]
        found += sum(cast("quant.dcast", n) or 0.0 for n in counts)
    if time.gives_floats:
        counts = [elements(v) for v in op.results if float_value(v)]
        found += sum(cast("quant.qcast", n) or 0.0 for n in counts)
    return found


def rows(name: str, ops: Sequence[Op]) -> Iterator[Row]:
    """The figures of a network by state."""
    for state in STATES:
        found = [op for op in ops if op.state == state]
        if found:
            yield Row(
                name,
                state,
                sum(op.price for op in found) / 1e3,
                sum(op.time for op in found) / 1e3,
                len(found),
                _within(found, 0.5),
                _within(found, 0.9),
            )


def _within(ops: Sequence[Op], share: float) -> float:
    """The factor that ops with that share of the time are within."""
    whole = sum(op.time for op in ops)
    before = 0.0
    for op in sorted(ops, key=lambda op: op.factor):
        before += op.time
        if before >= share * whole:
            return op.factor
    return 1.0


def choice(name: str, ops: Sequence[Op]) -> Choice:
    """How well prices choose between the states."""
    by_state = {state: {op.number: op for op in ops if op.state == state} for state in STATES}
    both = by_state["float"].keys() & by_state["codes"].keys()
    right = whole = chosen = best = 0.0
    for number in both:
        one, other = by_state["float"][number], by_state["codes"][number]
        slow, fast = max(one.time, other.time), min(one.time, other.time)
        agrees = (one.price < other.price) == (one.time < other.time)
        whole += slow
        right += slow if agrees else 0.0
        best += fast
        chosen += fast if agrees else slow
    return Choice(name, len(both), right / max(whole, 1e-9), chosen / max(best, 1e-9))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="tools.bench price-accuracy", description=__doc__)
    parser.add_argument("models", nargs="+", type=Path, help="float networks (.onnx)")
    parser.add_argument(
        "--prices", type=Path, help="a table of tools.bench prices, not the shipped one"
    )
    parser.add_argument("--json", type=Path, help="write the figures")
    parser.add_argument("--ops", action="store_true", help="print every op too")
    options = parser.parse_args(arguments)
    target = qd.get_target("onnxruntime")
    if options.prices:
        target = target.with_prices(read_prices(options.prices, target.name))
    by_node = KernelBenchmark().by_node()
    found: list[Row] = []
    choices: list[Choice] = []
    every: dict[str, list[Op]] = {}
    for path in options.models:
        name = path.name.partition(".")[0]
        with step(name):
            every[name] = list(measured(path, target, by_node))
        found += rows(name, every[name])
        choices.append(choice(name, every[name]))
    if options.ops:
        for name, ops in every.items():
            for op in ops:
                print(f"{name} {op.state} {op.name} {op.price / 1e3:.1f} {op.time / 1e3:.1f}")
    header = ("network", "state", "price, us", "time, us", "price / time", "ops", "middle", "90 %")
    print(table(header, [_shown(row) for row in found]))
    print(
        table(
            ("network", "ops in both", "right by time", "chosen / best"),
            [(c.model, str(c.ops), f"{c.right:.0%}", f"{c.over:.3f}") for c in choices],
        )
    )
    whole = {
        state: [op for ops in every.values() for op in ops if op.state == state] for state in STATES
    }
    print(table(header, [_shown(row) for ops in whole.values() for row in rows("all", ops)]))
    if options.json:
        figures: dict[str, Any] = {
            "rows": [asdict(row) for row in found],
            "choices": [asdict(each) for each in choices],
            "ops": {name: [asdict(op) for op in ops] for name, ops in every.items()},
        }
        options.json.write_text(json.dumps(figures, indent=1))
    return 0


def _shown(row: Row) -> tuple[str, ...]:
    ratio = row.price / max(row.time, 1e-9)
    return (
        row.model,
        row.state,
        f"{row.price:.0f}",
        f"{row.time:.0f}",
        f"{ratio:.2f}",
        str(row.ops),
        f"{row.middle:.2f}",
        f"{row.most:.2f}",
    )
