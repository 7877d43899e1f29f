"""`place-rescales` casts the fewest elements, whatever stands where, and across calls."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np
import pytest
from random_graphs import random_graph
from rewrite_support import apply, evaluate, parse
from xdsl.dialects.builtin import ModuleOp, f32

from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.quant import element_type, quant_element
from qdialect.plugins.mlir.write import module_text

PIPELINE = "place-rescales{boundary=minimize-conversions},cse,dce"
Q = "!quant.uniform<i8:f32, 0.5:3>"
Shape = tuple[int, ...]


class Node(NamedTuple):
    """An op that moves elements of other nodes, or of the argument (-1)."""

    text: str
    inputs: tuple[int, ...]
    shape: Shape


def nodes(rng: random.Random) -> list[Node]:
    made: list[Node] = []

    def shape(n: int) -> Shape:
        return (4, 6) if n < 0 else made[n].shape

    for _ in range(rng.randint(1, 6)):
        n = rng.randint(-1, len(made) - 1)
        rows, columns = shape(n)
        kind = rng.randrange(5)
        if kind == 0:
            made.append(Node("flip {} axes [0]", (n,), (rows, columns)))
        elif kind == 1:
            stops = [rng.randint(1, rows), rng.randint(1, columns)]
            text = f"slice {{}} starts [0, 0] stops {stops} steps [1, 1]"
            made.append(Node(text, (n,), (stops[0], stops[1])))
        elif kind == 2:
            made.append(Node("tile {} repeats [2, 1]", (n,), (2 * rows, columns)))
        elif kind == 3:
            made.append(Node("transpose {} perm [1, 0]", (n,), (columns, rows)))
        else:
            other = rng.choice([m for m in range(-1, len(made)) if shape(m)[1] == columns])
            text = "concat {}, {} axis 0"
            made.append(Node(text, (n, other), (rows + shape(other)[0], columns)))
    return made


class Graph:
    """Nodes between an argument and results; `codes_first` says which end is codes."""

    def __init__(self, seed: int, codes_first: bool) -> None:
        rng = random.Random(seed)
        self.nodes, self.codes_first = nodes(rng), codes_first
        used = {n for node in self.nodes for n in node.inputs}
        self.results = [n for n in range(len(self.nodes)) if n not in used or rng.random() < 0.15]
        #: per node, whether it is on the side of the argument
        self.states = rng.choice(list(self.possible()))

    def possible(self) -> Iterator[tuple[bool, ...]]:
        for states in product((False, True), repeat=len(self.nodes)):
            if all(
                first <= all(m < 0 or states[m] for m in node.inputs)
                for first, node in zip(states, self.nodes, strict=True)
            ):
                yield states

    def inputs(self) -> list[np.ndarray]:
        rng = np.random.default_rng(len(self.nodes))
        if self.codes_first:
            return [rng.integers(-128, 128, (4, 6)).astype(np.int8)]
        return [rng.uniform(-80, 80, (4, 6)).astype(np.float32)]

    def size(self, n: int) -> int:
        return 24 if n < 0 else prod(self.nodes[n].shape)

    def crossing(self, states: tuple[bool, ...]) -> set[int]:
        """The tensors that are cast: made on one side and read on the other."""
        read = {m for n, node in enumerate(self.nodes) if not states[n] for m in node.inputs}
        return {n for n in (*read, *self.results) if n < 0 or states[n]}

    def least(self, preserving: bool = False) -> int:
        """The fewest elements cast; with `preserving`, where no op on codes becomes one on
        floats."""
        return min(
            sum(map(self.size, self.crossing(states)))
            for states in self.possible()
            if not preserving
            or all(
                now == self.codes_first or was != self.codes_first
                for was, now in zip(self.states, states, strict=True)
            )
        )

    def text(self, calls: bool = False) -> str:
        """The module; with `calls` each node is a private function of its own."""
        functions: list[str] = []
        kinds = (Q, "f32") if self.codes_first else ("f32", Q)
        cast = "quant.dcast" if self.codes_first else "quant.qcast"

        def tensor(n: int, first: bool) -> str:
            rows, columns = (4, 6) if n < 0 else self.nodes[n].shape
            return f"tensor<{rows}x{columns}x{kinds[not first]}>"

        crossing, lines = self.crossing(self.states), list[str]()
        for n, node in [(-1, None), *enumerate(self.nodes)]:
            first = n < 0 or self.states[n]
            if node is not None:
                names = [
                    f"%{'a' if first or not self._is_first(m) else 'b'}{m + 1}" for m in node.inputs
                ]
                types = ", ".join(tensor(m, first) for m in node.inputs)
                text, kind = node.text.format(*names), tensor(n, first)
                if calls:
                    lines.append(
                        f"%a{n + 1} = func.call @n{n}({', '.join(names)}) : ({types}) -> {kind}"
                    )
                    functions.append(_function(n, node, types, kind))
                else:
                    lines.append(f"%a{n + 1} = nn.{text} : ({types}) -> {kind}")
            if n in crossing:
                a, b = tensor(n, True), tensor(n, False)
                lines.append(f"%b{n + 1} = {cast} %a{n + 1} : {a} to {b}")
        given = [f"%{'b' if self.states[n] else 'a'}{n + 1}" for n in self.results]
        types = ", ".join(tensor(n, False) for n in self.results)
        body = "\n  ".join([*lines, f"return {', '.join(given)} : {types}"])
        main = f"func.func @main(%a0: {tensor(-1, True)}) -> ({types}) {{\n  {body}\n}}\n"
        return main + "".join(functions)

    def _is_first(self, n: int) -> bool:
        return n < 0 or self.states[n]


def _function(n: int, node: Node, types: str, kind: str) -> str:
    """A private function of what `node` does."""
    names = [f"%x{m}" for m in range(len(node.inputs))]
    arguments = ", ".join(
        f"{name}: {t}" for name, t in zip(names, types.split(", tensor"), strict=True)
    )
    arguments = arguments.replace(": <", ": tensor<")
    return (
        f"func.func private @n{n}({arguments}) -> {kind} {{\n"
        f"  %r = nn.{node.text.format(*names)} : ({types}) -> {kind}\n"
        f"  return %r : {kind}\n}}\n"
    )


def cast_elements(module: ModuleOp) -> int:
    casts = [op for op in module.walk() if op.name in ("quant.dcast", "quant.qcast")]
    return sum(prod(shape_of(op.results[0])) for op in casts)


@pytest.mark.parametrize("codes_first", [True, False])
def test_no_placement_casts_fewer_elements(codes_first: bool) -> None:
    moved = 0
    for seed in range(60):
        graph = Graph(seed, codes_first)
        module, ctx = parse(graph.text())
        before = cast_elements(module)
        apply(module, ctx, PIPELINE)
        assert cast_elements(module) == graph.least(), f"{seed}: {before}\n{graph.text()}"
        moved += cast_elements(module) < before
        text = module_text(module, ctx)
        apply(module, ctx, PIPELINE)
        assert module_text(module, ctx) == text, seed
    assert moved > 15


@pytest.mark.parametrize("calls", [True, False])
@pytest.mark.parametrize("codes_first", [True, False])
def test_integer_ops_stay_integer_ops_by_default(codes_first: bool, calls: bool) -> None:
    """Of those placements, none casts fewer elements."""
    moved = 0
    for seed in range(40):
        graph = Graph(seed, codes_first)
        if len(set(graph.nodes)) < len(graph.nodes):
            continue  # of ops that are alike one is left
        module, ctx = parse(graph.text(calls))
        before = cast_elements(module)
        kept = integer_ops(module)
        apply(module, ctx, "place-rescales,dce")
        assert integer_ops(module) >= kept, f"{seed}\n{graph.text(calls)}"
        assert cast_elements(module) == graph.least(preserving=True), f"{seed}\n{graph.text(calls)}"
        moved += cast_elements(module) < before
    assert moved > 5


@pytest.mark.parametrize("codes_first", [True, False])
def test_calls_cost_nothing(codes_first: bool) -> None:
    """Functions around ops, each called once: as few elements as without them."""
    crossed = 0
    for seed in range(40):
        graph = Graph(seed, codes_first)
        module, ctx = parse(graph.text(calls=True))
        before = evaluate(module, ctx, graph.inputs())
        elements_before = cast_elements(module)
        apply(module, ctx, PIPELINE)
        assert cast_elements(module) == graph.least(), f"{seed}\n{graph.text(calls=True)}"
        after = evaluate(module, ctx, graph.inputs())
        assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True)), seed
        crossed += cast_elements(module) < elements_before
    assert crossed > 10


def test_it_is_idempotent_with_canonicalize() -> None:
    for seed in range(100, 125):
        module, ctx = parse(Graph(seed, seed % 2 == 0).text())
        apply(module, ctx, f"{PIPELINE},canonicalize")
        text = module_text(module, ctx)
        apply(module, ctx, f"{PIPELINE},canonicalize")
        assert module_text(module, ctx) == text, seed


def float_ops(module: ModuleOp) -> int:
    """The movement and order-preserving ops on floats."""
    moved = (op for op in module.walk() if op.name.startswith("nn.") and op.operands)
    return sum(element_type(op.results[0].type) == f32 for op in moved)


def integer_ops(module: ModuleOp) -> Counter[str]:
    """How many ops of each name have a result on codes."""
    ops = (op for op in module.walk() if op.name.startswith("nn.") and op.operands)
    return Counter(op.name for op in ops if quant_element(op.results[0].type))


def test_no_fewer_ops_on_integers_than_greedy() -> None:
    policy = "maximize-integer"
    moved = 0
    for seed in range(200, 260):
        if seed % 2:
            text = Graph(seed, seed % 4 == 1).text()
        else:
            module, ctx = parse(random_graph(seed, 30).text)
            apply(module, ctx, "fold-rescale,cse,dce")
            text = module_text(module, ctx)
        module, _ = parse(text)
        left, before = list[int](), float_ops(module)
        for name in ("move-casts", "place-rescales"):
            module, ctx = parse(text)
            apply(module, ctx, f"{name}{{boundary={policy}}},cse,dce")
            left.append(float_ops(module))
        greedy, placed = left
        assert placed <= greedy, f"{seed}\n{text}"
        moved += placed < before
    assert moved
