"""Shapes that a model computes: followed by symbol, native where they hold on every run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx_models import ModelBuilder, load, ops
from random_shapes import Shapes

from qdialect.errors import InputError
from qdialect.interpreter import Interpreter
from qdialect.ir.context import new_context
from qdialect.plugins.onnx.dialect import NodeOp
from qdialect.plugins.onnx.read import import_model
from qdialect.plugins.onnx.write import OrtEngine, write_model

Feed = dict[str, Any]


class Graph(ModelBuilder):
    """A model of `x`, batch x sequence x 32 floats, with the nodes exporters write."""

    def __init__(self, shape: Sequence[int | str | None] = ("batch", "sequence", 32)) -> None:
        super().__init__(17)
        self.rank = len(shape)
        self.input("x", list(shape))
        self.const("zero", [0])
        self.count = 0

    def fresh(self, op: str, *inputs: str, **attributes: Any) -> str:
        self.count += 1
        return self.node(op, inputs, f"{op.lower()}{self.count}", **attributes)

    def ints(self, *values: int) -> str:
        self.count += 1
        return self.const(f"ints{self.count}", np.array(values, np.int64))

    def extent(self, tensor: str, axis: int) -> str:
        """As scripts do it: a scalar out of the shape, as a vector."""
        index = self.const(f"index{self.count}", np.array(axis, np.int64))
        return self.fresh(
            "Unsqueeze", self.fresh("Gather", self.fresh("Shape", tensor), index), "zero"
        )

    def shape(self, *parts: str | int) -> str:
        vectors = [self.ints(p) if isinstance(p, int) else p for p in parts]
        return self.fresh("Concat", *vectors, axis=0)

    def done(self, result: str) -> onnx.ModelProto:
        self.node("Neg", [result], "y")
        self.output("y")
        return self.model()


def heads(g: Graph) -> str:
    split = g.shape(g.extent("x", 0), g.extent("x", 1), 4, 8)
    return g.fresh("Transpose", g.fresh("Reshape", "x", split), perm=[0, 2, 1, 3])


def split_and_joined(g: Graph) -> str:
    turned = g.fresh("Transpose", heads(g), perm=[0, 2, 1, 3])
    return g.fresh("Reshape", turned, g.shape(g.extent("x", 0), g.extent("x", 1), 32))


def rows(g: Graph) -> str:
    count = g.fresh("Mul", g.extent("x", 0), g.extent("x", 1))
    return g.fresh("Reshape", "x", g.shape(count, 32))


def flat(g: Graph) -> str:
    width = g.fresh("Mul", g.extent("x", 1), g.ints(32))
    return g.fresh("Reshape", "x", g.shape(g.extent("x", 0), width))


def inferred(g: Graph) -> str:
    return g.fresh("Reshape", "x", g.shape(g.extent("x", 0), -1))


def keys_turned(g: Graph) -> str:
    k, b, s = heads(g), g.extent("x", 0), g.extent("x", 1)
    merged = g.fresh("Reshape", k, g.shape(-1, s, 8))
    turned = g.fresh("Transpose", merged, perm=[0, 2, 1])
    return g.fresh("Reshape", turned, g.shape(b, 4, 8, s))


def torch_heads(g: Graph) -> str:
    x = g.fresh("Transpose", "x", perm=[1, 0, 2])
    many = g.fresh("Mul", g.extent(x, 1), g.ints(4))
    parts = g.fresh("Reshape", x, g.shape(g.extent(x, 0), many, 8))
    turned = g.fresh("Transpose", parts, perm=[1, 0, 2])
    return g.fresh("Reshape", turned, g.shape(g.extent(x, 1), 4, g.extent(x, 0), 8))


def merged_heads(g: Graph) -> str:
    many = g.fresh("Mul", g.extent("x", 0), g.ints(4))
    return g.fresh("Reshape", heads(g), g.shape(many, g.extent("x", 1), 8))


def groups(g: Graph) -> str:
    h = g.fresh("Unsqueeze", heads(g), g.ints(2))
    b, s = g.extent("x", 0), g.extent("x", 1)
    return g.fresh("Expand", h, g.shape(b, 4, 3, s, 8))


def as_it_is(g: Graph) -> str:
    """Expand as PyTorch writes it: -1 becomes 1."""
    wanted = g.shape(g.extent("x", 0), -1, -1)
    ones = g.fresh("ConstantOfShape", g.ints(3), value=onnx.helper.make_tensor("one", 7, [1], [1]))
    kept = g.fresh("Equal", wanted, g.ints(-1))
    return g.fresh("Expand", "x", g.fresh("Where", kept, ones, wanted))


def last(g: Graph) -> str:
    start = g.fresh("Sub", g.extent("x", 1), g.ints(1))
    return g.fresh("Slice", "x", start, g.extent("x", 1), g.ints(1))


def all_of_it(g: Graph) -> str:
    return g.fresh("Slice", "x", g.ints(0), g.extent("x", 1), g.ints(1))


def masked(g: Graph) -> str:
    """Scores under a triangle out of a constant one."""
    turned = g.fresh("Transpose", "x", perm=[0, 2, 1])
    scores = g.fresh("MatMul", "x", turned)
    g.const("triangle", np.tril(np.ones((1, 16, 16), bool)))
    s = g.extent("x", 1)
    part = g.fresh("Slice", "triangle", g.ints(0), s, g.ints(1))
    part = g.fresh("Slice", part, g.ints(0), s, g.ints(2))
    g.const("low", np.float32(-9))
    mixed = g.fresh("MatMul", g.fresh("Where", part, scores, "low"), "x")
    return g.fresh("Reshape", mixed, g.shape(g.extent("x", 0), s, 4, 8))


CASES: list[tuple[Callable[[Graph], str], list[str], set[str]]] = [
    (split_and_joined, ["reshape", "transpose", "transpose", "reshape"], set()),
    (rows, ["reshape"], set()),
    (flat, ["flatten"], set()),
    (inferred, ["reshape"], set()),
    (keys_turned, ["reshape", "transpose", "transpose"], set()),
    (torch_heads, ["transpose", "reshape", "transpose"], set()),
    (
        merged_heads,
        ["reshape", "transpose", "reshape_to"],
        {"Shape", "Gather", "Unsqueeze", "Mul", "Concat"},
    ),
    (groups, ["reshape", "transpose", "unsqueeze", "expand"], set()),
    (as_it_is, [], set()),
    (last, ["slice"], set()),
    (all_of_it, ["slice"], set()),
    (
        masked,
        ["transpose", "matmul", "select", "matmul", "reshape"],
        {"Shape", "Gather", "Unsqueeze", "Slice"},
    ),
]


def result(engine: Callable[[Feed], Any], feed: Feed) -> bytes | None:
    """Shape and bits; None where it fails."""
    try:
        (found,) = engine(feed)
    except InputError:
        return None
    return repr(found.shape).encode() + found.tobytes()


@pytest.mark.parametrize(
    ("build", "native", "kept"), CASES, ids=lambda c: getattr(c, "__name__", "")
)
def test_computed_shapes(build: Callable[[Graph], str], native: list[str], kept: set[str]) -> None:
    g = Graph()
    model = g.done(build(g))
    ctx, module = load(model)
    names = ops(module)
    expected = [f"nn.{name}" for name in native]
    assert [
        n for n in names if n.startswith("nn.") and n not in ("nn.constant", "nn.neg")
    ] == expected
    written = write_model(module, ctx).whole()
    assert {n.op_type for n in written.graph.node} >= kept
    assert names.count("onnx.node") >= len(kept) if kept else "onnx.node" not in names
    alone = not {"onnx.node", "nn.matmul"} & set(names)
    ran = 0
    for batch, length in ((1, 1), (2, 5), (3, 16), (2, 0), (0, 3)):
        x = np.random.default_rng(batch).normal(size=(batch, length, 32)).astype(np.float32)
        wanted = result(lambda f: OrtEngine(model, optimize=False).run(f).values(), {"x": x})
        if wanted is None:
            continue
        got = result(lambda f: OrtEngine(written, optimize=False).run(f).values(), {"x": x})
        assert got == wanted, (batch, length)
        if alone:
            assert result(lambda f: Interpreter(ctx, module).run(f), {"x": x}) == wanted
        ran += 1
    assert ran >= 3


def test_a_shape_of_known_extents_is_a_constant() -> None:
    g = Graph([2, 5, 32])
    parts = g.fresh("Div", g.extent("x", 2), g.ints(8))
    model = g.done(g.fresh("Reshape", "x", g.shape(g.extent("x", 0), g.extent("x", 1), parts, 8)))
    _, module = load(model)
    assert ops(module) == ["nn.reshape", "nn.neg"]


def test_bound_extents_leave_no_arithmetic() -> None:
    g = Graph()
    model = g.done(masked(g))
    module = import_model(model, new_context(), {"batch": 2, "sequence": 5})
    kinds = {op.op_type.data for op in module.walk() if isinstance(op, NodeOp)}
    assert kinds == {"Slice"}


def test_equal_arithmetic_is_there_once() -> None:
    """A mask for each layer: one shape, from the input."""
    g = Graph()
    g.const("one", np.float32(1))
    layers = ["x"]
    for _ in range(3):
        x = layers[-1]
        sides = g.fresh("Concat", g.extent(x, 1), g.ints(32), axis=0)
        layers.append(g.fresh("Add", x, g.fresh("Expand", "one", sides)))
    ctx, module = load(g.done(layers[-1]))
    kinds = [n.op_type for n in write_model(module, ctx).whole().graph.node]
    assert [kinds.count(kind) for kind in ("Shape", "Concat", "Expand", "Add")] == [1, 1, 3, 3]


def test_arithmetic_that_is_read_otherwise_stays() -> None:
    g = Graph()
    rows_ = g.extent("x", 0)
    y = g.fresh("Reshape", "x", g.shape(rows_, g.extent("x", 1), 4, 8))
    g.node("Identity", [rows_], "count")
    g.output("count", np.int64)
    model = g.done(y)
    ctx, module = load(model)
    feed = {"x": np.ones((3, 2, 32), np.float32)}
    got = OrtEngine(write_model(module, ctx).whole(), optimize=False).run(feed)
    assert got["count"].tolist() == [3] and got["y"].shape == (3, 2, 4, 8)


@pytest.mark.parametrize("allowzero", [0, 1])
@pytest.mark.parametrize("target", [[0, 6], [2, -1], [-1, 0], [3, 2], [0, 0], [0, -1]])
def test_a_shape_that_is_an_input(target: list[int], allowzero: int) -> None:
    """Nothing is known of it: 0 and -1 mean what they do in ONNX."""
    b = ModelBuilder(17)
    b.input("x", [None, None])
    b.input("shape", [2], np.int64)
    b.node("Reshape", ["x", "shape"], "y", allowzero=allowzero)
    b.output("y", shape=[None, None])
    model = b.model()
    ctx, module = load(model)
    assert ops(module) == ["nn.reshape_to"]
    written = write_model(module, ctx).whole()
    for size in ((2, 6), (0, 4), (6, 0)):
        x = np.arange(size[0] * size[1], dtype=np.float32).reshape(size)
        feed = {"x": x, "shape": np.array(target)}
        wanted = result(lambda f: OrtEngine(model, optimize=False).run(f).values(), feed)
        got = result(lambda f: OrtEngine(written, optimize=False).run(f).values(), feed)
        mine = result(lambda f: Interpreter(ctx, module).run(f), feed)
        assert got == wanted
        if not (allowzero and {0, -1} <= set(target)):  # means nothing
            assert mine == wanted, (size, target, allowzero)


@pytest.mark.parametrize("seed", range(60))
def test_random_shapes(seed: int) -> None:
    """What is written gives what the model gives, for every batch and sequence it runs on."""
    shapes = Shapes(seed)
    model = shapes.model()
    ctx, module = load(model)
    written = write_model(module, ctx).whole()
    before, after = OrtEngine(model, optimize=False), OrtEngine(written, optimize=False)
    ran = 0
    empty = ((0, 2), (2, 0), (0, 0)) if shapes.allowzero else ()
    for batch, length in ((1, 1), (2, 3), (3, 2), (4, 4), *empty):
        x = np.random.default_rng(seed).normal(size=(batch, length, 24)).astype(np.float32)
        wanted = result(lambda f: before.run(f).values(), {"x": x})
        if wanted is not None:
            assert result(lambda f: after.run(f).values(), {"x": x}) == wanted, (batch, length)
            ran += 1
    assert ran >= 4


def test_only_names_of_inputs_are_believed() -> None:
    """Values and outputs are named `n` here that are not of one extent."""
    b = ModelBuilder(17)
    b.input("x", ["n", "m"])
    b.const("low", np.float32(0))
    rows = b.node("NonZero", [b.node("Greater", ["x", "low"], "positive")], "places")
    turned = b.node("Cast", [b.node("Transpose", [rows], "turned", perm=[1, 0])], "z", to=1)
    b.output("z", shape=["n", "m"])
    size = b.node("Shape", ["x"], "size")
    b.node("Reshape", [turned, size], "y")
    b.output("y", shape=["n", "m"])
    ctx, module = load(b.model())
    assert "nn.reshape_to" in ops(module)
    x = np.array([[1, -1], [2, 3], [-1, -1]], np.float32)
    feed = {"x": x}
    written = OrtEngine(write_model(module, ctx).whole(), optimize=False).run(feed)
    assert written["z"].shape == (3, 2) == written["y"].shape
    with pytest.raises(InputError, match="reshape"):
        OrtEngine(write_model(module, ctx).whole(), optimize=False).run({"x": x * 0 + 1})
