"""ONNX models of any length that are one chain of one kind of op, and some that are one wide op.

Each step of a chain reads the result of the step before it and has its shape. Two forms: `float`,
and `qdq`, where each step's result is quantized and dequantized, with parameters that differ
between neighbours. Everything follows from the arguments.

    python -m tests.generators.chains Relu 1000 --form qdq chain.onnx
"""

# pyright: basic
from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SHAPE = (1, 4, 4, 4)
OPSET, IR_VERSION = 21, 10
FORMS = ("float", "qdq")


class ChainMaker:
    """A model under construction: its nodes, and each constant once."""

    def __init__(self, form: str) -> None:
        if form not in FORMS:
            raise ValueError(f"form must be one of {', '.join(FORMS)}, not {form!r}")
        self.form = form
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}
        self.count = 0
        self.earlier = "x"

    def constant(self, name: str, values: Any, dtype: Any = np.float32) -> str:
        if name not in self.constants:
            self.constants[name] = numpy_helper.from_array(np.asarray(values, dtype), name)
        return name

    def ints(self, *values: int) -> str:
        return self.constant("i" + "_".join(map(str, values)), values, np.int64)

    def node(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> list[str]:
        """Append a node; the names of its results."""
        self.count += 1
        names = [f"v{self.count}" if not i else f"v{self.count}_{i}" for i in range(outputs)]
        made = helper.make_node(kind, inputs, names, name=f"n{self.count}", **attributes)
        self.nodes.append(made)
        return names

    def put(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Append a node of one result, and that result."""
        return self.node(kind, *inputs, **attributes)[0]

    def pair(self, value: str, number: int) -> str:
        """The value quantized and dequantized, with one of seven scales."""
        scale = self.constant(f"s{number % 7}", 0.02 + 0.003 * (number % 7))
        zero = self.constant("zero", 128, np.uint8)
        return self.put(
            "DequantizeLinear", self.put("QuantizeLinear", value, scale, zero), scale, zero
        )

    def step_end(self, value: str, number: int) -> str:
        """What the next step reads."""
        return self.pair(value, number) if self.form == "qdq" else value

    def model(
        self, *results: str, inputs: Sequence[str] = ("x",), shape: Sequence[Any] = SHAPE
    ) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "chain",
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, SHAPE) for n in inputs],
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in results],
            list(self.constants.values()),
        )
        opsets = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


Step = Callable[[ChainMaker, str, int], str]


def _op(kind: str, *constants: Any, **attributes: Any) -> Step:
    """The op on the value before, and on constants."""

    def step(make: ChainMaker, value: str, number: int) -> str:
        names = [make.constant(f"c{i}", values) for i, values in enumerate(constants)]
        return make.put(kind, value, *names, **attributes)

    return step


def _constant_first(kind: str, constant: float) -> Step:
    return lambda make, value, number: make.put(kind, make.constant("c", constant), value)


def _numbered(kind: str, low: float = 0.5) -> Step:
    """The op on the value before and a constant that differs from step to step."""

    def step(make: ChainMaker, value: str, number: int) -> str:
        at = number % 11
        return make.put(kind, value, make.constant(f"c{at}", low + at / 16))

    return step


def _twice(kind: str) -> Step:
    """The op on the value before, twice."""
    return lambda make, value, number: make.put(kind, value, value)


def _earlier(kind: str) -> Step:
    """The op on the value before and the one before that."""

    def step(make: ChainMaker, value: str, number: int) -> str:
        made = make.put(kind, value, make.earlier)
        make.earlier = value
        return made

    return step


def _input(kind: str) -> Step:
    """The op on the value before and the input of the model, which all steps read."""
    return lambda make, value, number: make.put(kind, value, "x")


def _clip(make: ChainMaker, value: str, number: int) -> str:
    at = number % 9
    low, high = make.constant(f"low{at}", -4 + at / 8), make.constant("high", 3)
    return make.put("Clip", value, low, high)


def _reshape(make: ChainMaker, value: str, number: int) -> str:
    flat = make.put("Reshape", value, make.ints(4, 16))
    return make.put("Reshape", flat, make.ints(*SHAPE))


def _flatten(make: ChainMaker, value: str, number: int) -> str:
    return make.put("Reshape", make.put("Flatten", value, axis=2), make.ints(*SHAPE))


def _squeeze(make: ChainMaker, value: str, number: int) -> str:
    wide = make.put("Unsqueeze", value, make.ints(0))
    return make.put("Squeeze", wide, make.ints(0))


def _slice(make: ChainMaker, value: str, number: int) -> str:
    window = (make.ints(0), make.ints(4), make.ints(2))
    padded = make.put("Pad", value, make.ints(0, 0, 1, 0, 0, 0, 1, 0))
    at = number % 3
    return make.put("Slice", padded, make.ints(at), make.ints(at + 4), window[2])


def _concat(make: ChainMaker, value: str, number: int) -> str:
    wide = make.put("Concat", value, "x", axis=1)
    return make.put("Slice", wide, make.ints(2), make.ints(6), make.ints(1))


def _split(make: ChainMaker, value: str, number: int) -> str:
    halves = make.node("Split", value, make.ints(2, 2), outputs=2, axis=1)
    return make.put("Concat", halves[1], halves[0], axis=1)


def _gather(make: ChainMaker, value: str, number: int) -> str:
    return make.put("Gather", value, make.ints(1, 0, 3, 2), axis=number % 3 + 1)


def _depth(make: ChainMaker, value: str, number: int) -> str:
    deep = make.put("SpaceToDepth", value, blocksize=2)
    return make.put("DepthToSpace", deep, blocksize=2)


def _tile(make: ChainMaker, value: str, number: int) -> str:
    wide = make.put("Tile", value, make.ints(1, 2, 1, 1))
    return make.put("Slice", wide, make.ints(2), make.ints(6), make.ints(1))


def _expand(make: ChainMaker, value: str, number: int) -> str:
    return make.put("Expand", value, make.ints(*SHAPE))


def _pad(make: ChainMaker, value: str, number: int) -> str:
    wide = make.put("Pad", value, make.ints(0, 0, 1, 1, 0, 0, 1, 1))
    return make.put("MaxPool", wide, kernel_shape=[3, 3])


def _reduce(kind: str) -> Step:
    def step(make: ChainMaker, value: str, number: int) -> str:
        return make.put(
            "Expand", make.put(kind, value, make.ints(2), keepdims=1), make.ints(*SHAPE)
        )

    return step


def _global(kind: str) -> Step:
    return lambda make, value, number: make.put("Expand", make.put(kind, value), make.ints(*SHAPE))


def _resize(make: ChainMaker, value: str, number: int) -> str:
    sizes = make.ints(1, 4, 8, 8)
    wide = make.put("Resize", value, "", "", sizes, mode="nearest")
    return make.put("MaxPool", wide, kernel_shape=[2, 2], strides=[2, 2])


def _where(make: ChainMaker, value: str, number: int) -> str:
    chosen = make.put("Greater", value, make.constant("c", 0.25))
    return make.put("Where", chosen, value, "x")


def _cast(make: ChainMaker, value: str, number: int) -> str:
    return make.put("Cast", make.put("Cast", value, to=TensorProto.FLOAT16), to=TensorProto.FLOAT)


def _weighted(kind: str, shape: tuple[int, ...], *rest: Any, **attributes: Any) -> Step:
    """An op on the value before and weights, which are codes in the form `qdq`."""

    def step(make: ChainMaker, value: str, number: int) -> str:
        codes = np.arange(np.prod(shape)).reshape(shape) * 37 % 21 - 10
        if make.form == "qdq":
            stored = make.constant("w", codes, np.int8)
            zero = make.constant("wz", 0, np.int8)
            weight = make.put("DequantizeLinear", stored, make.constant("ws", 0.01), zero)
        else:
            weight = make.constant("w", codes * 0.01)
        others = [make.constant(f"r{i}", values) for i, values in enumerate(rest)]
        return make.put(kind, value, weight, *others, **attributes)

    return step


def _gemm(make: ChainMaker, value: str, number: int) -> str:
    rows = make.put("Reshape", value, make.ints(16, 4))
    made = _weighted("Gemm", (4, 4), np.full(4, 0.1), transB=1)(make, rows, number)
    return make.put("Reshape", made, make.ints(*SHAPE))


def _normalized(kind: str) -> Step:
    ones, halves = np.ones(4), np.full(4, 0.5)
    return _op(kind, ones, halves, *((halves, ones) if kind == "BatchNormalization" else ()))


UNARY = (
    "Abs",
    "Ceil",
    "Elu",
    "Erf",
    "Exp",
    "Floor",
    "HardSigmoid",
    "HardSwish",
    "Identity",
    "LeakyRelu",
    "Log",
    "Neg",
    "Reciprocal",
    "Relu",
    "Round",
    "Sigmoid",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Tanh",
    "Gelu",
    "Softmax",
    "LogSoftmax",
    "Sin",
    "Sign",
    "Selu",
    "Mish",
    "LpNormalization",
    "Dropout",
)
CHAINS: dict[str, Step] = {
    **{kind: _op(kind) for kind in UNARY},
    **{f"{kind} constant": _op(kind, 0.5) for kind in ("Add", "Sub", "Mul", "Div", "Max", "Min")},
    **{f"{kind} constants": _numbered(kind) for kind in ("Add", "Sub", "Mul", "Div", "Max", "Min")},
    **{
        f"{kind} channels": _op(kind, np.arange(1, 5).reshape(4, 1, 1) / 3)
        for kind in ("Add", "Mul")
    },
    **{f"{kind} twice": _twice(kind) for kind in ("Add", "Mul", "Sub", "Max")},
    **{f"{kind} earlier": _earlier(kind) for kind in ("Add", "Sub", "Mul", "Max")},
    **{f"{kind} input": _input(kind) for kind in ("Add", "Sub", "Mul", "Div", "Max")},
    **{f"{kind} from constant": _constant_first(kind, 0.5) for kind in ("Sub", "Div")},
    "Pow": _op("Pow", 2.0),
    "PRelu": _op("PRelu", np.full((4, 1, 1), 0.25)),
    "Clip": _clip,
    "Where": _where,
    "Cast": _cast,
    "Transpose": _op("Transpose", perm=[0, 1, 3, 2]),
    "Transpose rotating": _op("Transpose", perm=[0, 2, 3, 1]),
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Unsqueeze": _squeeze,
    "Slice": _slice,
    "Concat": _concat,
    "Split": _split,
    "Gather": _gather,
    "SpaceToDepth": _depth,
    "Tile": _tile,
    "Expand": _expand,
    "Pad": _pad,
    "MaxPool": _op("MaxPool", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    "AveragePool": _op("AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    "GlobalAveragePool": _global("GlobalAveragePool"),
    "GlobalMaxPool": _global("GlobalMaxPool"),
    **{kind: _reduce(kind) for kind in ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum")},
    "Resize": _resize,
    "Conv": _weighted("Conv", (4, 4, 1, 1)),
    "Conv depthwise": _weighted("Conv", (4, 1, 3, 3), group=4, pads=[1, 1, 1, 1]),
    "ConvTranspose": _weighted("ConvTranspose", (4, 4, 1, 1)),
    "MatMul": _weighted("MatMul", (4, 4)),
    "MatMul twice": _twice("MatMul"),
    "Gemm": _gemm,
    "LRN": _op("LRN", size=3),
    **{kind: _normalized(kind) for kind in ("BatchNormalization", "InstanceNormalization")},
    "LayerNormalization": _op("LayerNormalization", np.ones(4), np.zeros(4)),
    "Einsum": _op("Einsum", equation="abcd->abdc"),
}
"""By kind; two ops in a step where one alone would change the shape."""


def chain(kind: str, steps: int, form: str) -> onnx.ModelProto:
    """`steps` steps of one kind in a row."""
    make = ChainMaker(form)
    value = make.step_end(make.put("Sigmoid", "x"), 0)
    for number in range(steps):
        value = make.step_end(CHAINS[kind](make, value, number), number + 1)
    return make.model(value)


def casts(steps: int, form: str) -> onnx.ModelProto:
    """Quantize-dequantize pairs in a row."""
    make = ChainMaker(form)
    value = "x"
    for number in range(steps):
        value = make.pair(value, number if form == "qdq" else 0)
    return make.model(value)


def users(steps: int, form: str, kind: str = "Relu") -> onnx.ModelProto:
    """One value with `steps` users, joined in one op."""
    make = ChainMaker(form)
    shared = make.step_end(make.put("Sigmoid", "x"), 0)
    ends: list[str] = []
    for number in range(steps):
        factor = make.constant(f"c{number % 11}", 0.5 + number % 11 / 16)
        ends.append(make.step_end(make.put("Mul", shared, factor), 1))
    return make.model(make.step_end(make.put(kind, *ends, **_JOINS[kind]), 1), shape=[None] * 4)


_JOINS: dict[str, dict[str, Any]] = {"Concat": {"axis": 1}, "Sum": {}, "Max": {}}


def interface(steps: int, form: str) -> onnx.ModelProto:
    """A model with `steps` inputs and as many results."""
    make = ChainMaker(form)
    inputs = [f"x{number}" for number in range(steps)]
    ends = [make.step_end(make.put("Tanh", make.step_end(name, 0)), 1) for name in inputs]
    return make.model(*ends, inputs=inputs)


def constants(steps: int, form: str) -> onnx.ModelProto:
    """A sum with `steps` constants of a channel, all different."""
    make = ChainMaker(form)
    value = make.step_end(make.put("Sigmoid", "x"), 0)
    for number in range(steps):
        name = make.constant(f"c{number}", np.full((1, 4, 1, 1), number / 8))
        value = make.step_end(make.put("Add", value, name), number)
    return make.model(value)


def outputs(steps: int, form: str) -> onnx.ModelProto:
    """One op with `steps` results, each used once, and joined."""
    make = ChainMaker(form)
    wide = make.put("Tile", make.step_end("x", 0), make.ints(1, steps, 1, 1))
    parts = make.node("Split", wide, outputs=steps, axis=1, num_outputs=steps)
    ends = [make.step_end(make.put("Relu", part), 1) for part in parts]
    return make.model(make.step_end(make.put("Concat", *ends, axis=1), 1), shape=[None] * 4)


MODELS: dict[str, Callable[[int, str], onnx.ModelProto]] = {
    **{kind: partial(chain, kind) for kind in CHAINS},
    "casts": casts,
    **{f"users of one value, {kind}": partial(users, kind=kind) for kind in _JOINS},
    "results of one op": outputs,
    "inputs and results": interface,
    "constants": constants,
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("steps", type=int)
    parser.add_argument("output")
    parser.add_argument("--form", choices=FORMS, default="float")
    options = parser.parse_args(arguments)
    onnx.save(MODELS[options.model](options.steps, options.form), options.output)


if __name__ == "__main__":
    main()
