"""The generated graphs that benchmarks run on: `generators/sized.py`, and three extremes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from qdialect.ir.ops import AddOp, ConcatOp, ReluOp, SigmoidOp, SplitOp
from tests.generators.sized import FORMS, GRAPHS, SHAPE, Network


def deep(size: int, form: str) -> ModuleOp:
    """One value after the other, all elementwise: one chain of ops as long as the graph."""
    network = Network(form)
    value, encoding = network.input, 0
    while len(network.ops) < size:
        encoding += 1
        value = network.layer(SigmoidOp, (network.rescale(value, encoding),), encoding + 1)
    return network.finish(value)


def joins(size: int, form: str) -> ModuleOp:
    """One split of a value, and one concat of what is done to each part: at 100 000 ops some
    30 000 results and operands."""
    network = Network(form)
    n, c, h, w = SHAPE
    copies = max(size // (3 if network.quantized else 7) // c, 1)
    count = copies * c
    # As many channels as there will be parts.
    wide = (n, count, h, w)
    value = network.move(ConcatOp, [network.input] * copies, wide, axis=1)[0]
    shapes = [(n, 1, h, w)] * count
    split = network.move(SplitOp, (value,), *shapes, axis=1, sizes=(1,) * count)
    ends: list[SSAValue] = []
    for index, part in enumerate(split):
        other = network.rescale(part, index + 1)
        done = network.layer(ReluOp, (other,), index + 1, (n, 1, h, w))
        ends.append(network.rescale(done, 0))
    return network.finish(network.move(ConcatOp, ends, wide, axis=1)[0])


def users(size: int, form: str) -> ModuleOp:
    """One value that a third of the ops use: at 30 000 ops it has 10 000 users."""
    network = Network(form)
    shared = network.layer(ReluOp, (network.input,), 0)
    value, encoding = shared, 0
    while len(network.ops) < size:
        encoding += 1
        other = network.rescale(shared, encoding)
        value = network.layer(ReluOp, (network.layer(AddOp, (value, other), encoding),), encoding)
    return network.finish(value)


CASES: dict[str, Callable[[int, str], ModuleOp]] = GRAPHS | {
    "deep": deep,
    "joins": joins,
    "users": users,
}
NAMES = [f"{graph} {form}" for graph in CASES for form in FORMS]
DEFAULT = {
    "text": ("residual qdq", "chain quantized"),
    "passes": (
        "chain qdq",
        "chain quantized",
        "residual qdq",
        "residual quantized",
        "concat qdq",
        "concat quantized",
        "deep quantized",
        "joins quantized",
        "users quantized",
    ),
    "table": ("residual qdq", "residual quantized", "chain quantized"),
}
"""By section: reading the large ones with stock xDSL takes minutes."""


@dataclass(frozen=True)
class Case:
    """One kind of graph, in one form and size."""

    name: str
    size: int

    def build(self) -> ModuleOp:
        graph, form = self.name.split()
        return CASES[graph](self.size, form)

    def __str__(self) -> str:
        return f"{self.name}, {self.size} ops"


def count(module: ModuleOp) -> int:
    """Ops of a module, itself among them."""
    return sum(1 for _ in module.walk())
