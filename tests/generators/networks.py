"""Random ONNX models: quantized and float parts as exporters and quantizers mix them.

Ops are drawn one after another on values that are there, with shapes that are known by then.
About half of the values get a quantize-dequantize pair (per tensor, now and then per axis),
weights are floats or codes per tensor or axis, constants are shared, some values have many
readers and some none, a batch may be dynamic, and there are `If`s and ops of other domains.
Everything follows from the seed.

    python -m tests.generators.networks 7 --ops 20 -o model.onnx
"""

# pyright: basic
from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSETS = (13, 15, 17, 18, 19, 20, 21)
BATCH = 2
"""What a dynamic batch is when shapes are reckoned."""
LARGEST = 2000
SCALES = (0.02, 0.05, 0.1, 0.0371, 0.125, 0.0078125)


@dataclass(frozen=True)
class Value:
    """A float tensor by name, and its shape."""

    name: str
    shape: tuple[int, ...]


class ModelMaker:
    """Draws one model."""

    def __init__(self, seed: int, ops: int) -> None:
        self.draw = random.Random(seed)
        self.rng = np.random.default_rng(seed)
        self.opset = self.draw.choice(OPSETS)
        self.dynamic = self.draw.random() < 0.3
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}
        self.values: list[Value] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self._count = 0
        self._pairs: list[tuple[str, str]] = []
        self._choice = ""
        for shape in self._input_shapes():
            self._input(shape)
        while self._count < ops:
            self._draw_op()

    # -- pieces ---------------------------------------------------------------

    def model(self) -> onnx.ModelProto:
        """With a few values as outputs; the others that nobody reads are dead."""
        read = {name for node in self.nodes for name in node.input}
        made = {name for node in self.nodes for name in node.output}
        ends = [v for v in self.values if v.name not in read and v.name in made]
        inner = [v for v in self.values if v.name in read and v.name in made]
        outputs = [v for v in ends if self.draw.random() < 0.8] or ends[-1:]
        outputs += self.draw.sample(inner, min(len(inner), self.draw.choice((0, 0, 1))))
        infos = [_result(v.name, len(v.shape)) for v in outputs]
        graph = helper.make_graph(
            self.nodes, "random", self.inputs, infos, list(self.constants.values())
        )
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets)
        model.ir_version = 8 if self.opset < 19 else 9 if self.opset < 21 else 10
        return model

    def _input_shapes(self) -> list[tuple[int, ...]]:
        draw, image = self.draw, self.draw.random() < 0.6
        batch = BATCH if self.dynamic else draw.choice((1, 1, 2, 3))
        if image:
            side = draw.choice((4, 5, 6, 8))
            return [(batch, draw.choice((2, 3, 4)), side, draw.choice((side, side + 1)))]
        rows = [(batch, draw.choice((3, 4, 6)), draw.choice((4, 8)))]
        return rows * draw.choice((1, 2))

    def _input(self, shape: tuple[int, ...]) -> None:
        name = f"x{len(self.inputs)}"
        dims: list[Any] = ["n" if self.dynamic and i == 0 else n for i, n in enumerate(shape)]
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, dims))
        self.values.append(Value(name, shape))

    def _constant(self, array: Any, name: str = "") -> str:
        name = name or f"c{len(self.constants)}"
        if name not in self.constants:
            self.constants[name] = numpy_helper.from_array(np.asarray(array), name)
        return name

    def _node(self, kind: str, inputs: Sequence[str], outputs: int = 1, **attributes: Any) -> Any:
        self._count += 1
        names = [f"v{self._count}_{i}" if i else f"v{self._count}" for i in range(outputs)]
        node = helper.make_node(kind, inputs, names, name=f"{kind}_{self._count}", **attributes)
        self.nodes.append(node)
        return names[0] if outputs == 1 else names

    def _add(self, name: str, shape: Sequence[int]) -> None:
        """A value that later ops read, more often than not through a pair."""
        value = Value(name, tuple(shape))
        if self.draw.random() < 0.55:
            value = Value(self._pair(name, value.shape), value.shape)
        self.values.append(value)

    def _kinds(self) -> list[Any]:
        return [np.int8, np.uint8] + ([np.int16, np.uint16] if self.opset >= 21 else [])

    def _pair(self, name: str, shape: tuple[int, ...]) -> str:
        per_axis = bool(shape) and self.draw.random() < 0.08
        axis = self.draw.randrange(len(shape)) if per_axis else 0
        if self.dynamic and axis == 0:
            per_axis = False
        if per_axis:
            kind = self.draw.choice((np.int8, np.uint8))
            scale = self._constant(self._scales(shape[axis]))
            zero = self._constant(np.zeros(shape[axis], kind))
            extra = {"axis": axis}
        else:
            if not self._pairs or self.draw.random() < 0.6:
                kind = self.draw.choice(self._kinds())
                low = np.iinfo(kind).min
                zero_point = self.draw.choice((0, 3, 128 + low, 100 + low))
                scale = self._constant(np.float32(self.draw.choice(SCALES)))
                self._pairs.append((scale, self._constant(kind(zero_point))))
            scale, zero = self.draw.choice(self._pairs)
            extra = {}
        code = self._node("QuantizeLinear", [name, scale, zero], **extra)
        return self._node("DequantizeLinear", [code, scale, zero], **extra)

    def _scales(self, count: int) -> np.ndarray:
        return np.array([self.draw.choice(SCALES) / 4 for _ in range(count)], np.float32)

    def _weight(self, shape: Sequence[int], axis: int) -> str:
        """Floats, codes per tensor or axis, or floats that are quantized in the model."""
        kind = self.draw.randrange(4)
        scale = float(np.sqrt(2 / max(1, prod(shape) // shape[axis])))
        floats = (self.rng.normal(size=shape) * scale).astype(np.float32)
        if kind == 0:
            return self._constant(floats)
        count = shape[axis] if kind == 1 else None
        steps = np.float32(np.abs(floats).max() / 127) if count is None else self._scales(count) / 4
        zero = np.zeros(() if count is None else count, np.int8)
        names = [self._constant(np.asarray(steps, np.float32)), self._constant(zero)]
        extra = {} if count is None else {"axis": axis}
        if kind == 2:
            code = self._node("QuantizeLinear", [self._constant(floats), *names], **extra)
        else:
            code = self._constant(self.rng.integers(-127, 128, shape).astype(np.int8))
        return self._node("DequantizeLinear", [code, *names], **extra)

    def _bias(self, count: int) -> list[str]:
        kind = self.draw.randrange(3)
        if kind == 0:
            return []
        if kind == 1:
            return [self._constant(self.rng.normal(size=count).astype(np.float32))]
        code = self._constant(self.rng.integers(-400, 400, count).astype(np.int32))
        scale = self._constant(np.float32(0.003))
        return [self._node("DequantizeLinear", [code, scale])]

    # -- ops ------------------------------------------------------------------

    def _draw_op(self) -> None:
        value = self.draw.choice(self.values[-6:] if self.draw.random() < 0.7 else self.values)
        rank = len(value.shape)
        kinds: list[Callable[[Value], None]] = [self._unary, self._unary, self._movement]
        kinds += [self._binary, self._binary, self._reduce, self._softmax]
        kinds += [self._convolution] * 3 + [self._pool] * 2 if rank == 4 else []
        kinds += [self._product] * 3 if rank in (2, 3) else []
        kinds += [self._join, self._slice, self._branch, self._foreign]
        self.draw.choice(kinds)(value)

    def _unary(self, value: Value) -> None:
        kind = self.draw.choice(
            ("Relu", "Relu", "LeakyRelu", "Sigmoid", "Tanh", "HardSigmoid", "Neg", "Abs",
             "Identity", "Clip", "HardSwish", "Erf", "Elu")
        )  # fmt: skip
        if kind == "HardSwish" and self.opset < 14:
            kind = "HardSigmoid"
        more: list[str] = []
        if kind == "Clip":
            low, high = self.draw.choice(((0, 6), (-1, 1), (0, 0.9)))
            more = [self._constant(np.float32(low)), self._constant(np.float32(high))]
        self._add(self._node(kind, [value.name, *more]), value.shape)

    def _binary(self, value: Value) -> None:
        kind = self.draw.choice(("Add", "Add", "Mul", "Sub", "Max", "Min", "Div"))
        alike = [v for v in self.values if v.shape == value.shape]
        other = self.draw.choice(alike).name
        if kind == "Div" or self.draw.random() < 0.4:
            shape = self.draw.choice(((), value.shape[-1:], value.shape[1:]))
            array = self.rng.uniform(0.3, 2, shape).astype(np.float32)
            shared = [n for n, t in self.constants.items() if t.data_type == 1 and not t.dims]
            other = self._constant(array) if shape or not shared else self.draw.choice(shared)
            if kind == "Div":
                other = self._constant(array)
        pair = [value.name, other]
        self._add(self._node(kind, pair if kind == "Div" else self._mixed(pair)), value.shape)

    def _mixed(self, names: list[str]) -> list[str]:
        return names if self.draw.random() < 0.7 else names[::-1]

    def _reduce(self, value: Value) -> None:
        if len(value.shape) < 2:
            return
        kind = self.draw.choice(("ReduceMean", "ReduceSum", "ReduceMax"))
        axis = self.draw.randrange(1, len(value.shape))
        keep = self.draw.randrange(2)
        as_input = self.opset >= 18 or kind == "ReduceSum"
        inputs = [value.name] + ([self._constant(np.array([axis]))] if as_input else [])
        extra: dict[str, Any] = {} if as_input else {"axes": [axis]}
        shape = [n for i, n in enumerate(value.shape) if keep or i != axis]
        if keep:
            shape[axis] = 1
        self._add(self._node(kind, inputs, keepdims=keep, **extra), shape)

    def _softmax(self, value: Value) -> None:
        self._add(self._node("Softmax", [value.name], axis=-1), value.shape)

    def _convolution(self, value: Value) -> None:
        _, channels, height, width = value.shape
        groups = self.draw.choice((1, 1, channels))
        made = groups * self.draw.choice((1, 2)) if groups > 1 else self.draw.choice((2, 3, 5))
        size = self.draw.choice((1, 3)) if min(height, width) >= 3 else 1
        pad = self.draw.choice((0, size // 2))
        stride = self.draw.choice((1, 1, 2))
        weight = self._weight((made, channels // groups, size, size), 0)
        inputs = [value.name, weight, *self._bias(made)]
        shape = [(n + 2 * pad - size) // stride + 1 for n in (height, width)]
        name = self._node("Conv", inputs, group=groups, pads=[pad] * 4, strides=[stride] * 2)
        self._add(name, (value.shape[0], made, *shape))

    def _pool(self, value: Value) -> None:
        kind = self.draw.choice(("MaxPool", "AveragePool", "GlobalAveragePool"))
        if kind == "GlobalAveragePool":
            self._add(self._node(kind, [value.name]), (*value.shape[:2], 1, 1))
            return
        if min(value.shape[2:]) < 2:
            return
        stride = self.draw.choice((1, 2))
        name = self._node(kind, [value.name], kernel_shape=[2, 2], strides=[stride] * 2)
        self._add(name, (*value.shape[:2], *((n - 2) // stride + 1 for n in value.shape[2:])))

    def _product(self, value: Value) -> None:
        count, made = value.shape[-1], self.draw.choice((3, 4, 8))
        shape = (*value.shape[:-1], made)
        if len(value.shape) == 2 and self.draw.random() < 0.6:
            turned = self.draw.randrange(2)
            weight = self._weight((made, count) if turned else (count, made), 0 if turned else 1)
            name = self._node("Gemm", [value.name, weight, *self._bias(made)], transB=turned)
        else:
            name = self._node("MatMul", [value.name, self._weight((count, made), 1)])
        self._add(name, shape)

    def _movement(self, value: Value) -> None:
        shape, rank, first = value.shape, len(value.shape), int(self.dynamic)
        kind = self.draw.choice(("Transpose", "Reshape", "Flatten", "Unsqueeze", "Pad", "Tile"))
        if rank < 2 or (kind == "Unsqueeze" and rank > 3):
            return
        if kind == "Transpose":
            order = [*range(first), *self.draw.sample(range(first, rank), rank - first)]
            self._add(self._node(kind, [value.name], perm=order), [shape[i] for i in order])
        elif kind == "Reshape":
            target = [0, -1] if self.draw.random() < 0.5 else [0, *reversed(shape[1:])]
            made = (shape[0], prod(shape[1:])) if target[1:] == [-1] else (shape[0], *target[1:])
            self._add(self._node(kind, [value.name, self._constant(np.array(target))]), made)
        elif kind == "Flatten":
            self._add(self._node(kind, [value.name], axis=1), (shape[0], prod(shape[1:])))
        elif kind == "Unsqueeze":
            name = self._node(kind, [value.name, self._constant(np.array([1]))])
            self._add(name, (shape[0], 1, *shape[1:]))
        elif kind == "Pad":
            pads = [0] * (rank - 1) + [1] + [0] * (rank - 1) + [self.draw.choice((0, 1))]
            inputs = [value.name, self._constant(np.array(pads))]
            name = self._node(kind, inputs, mode=self.draw.choice(("constant", "edge")))
            self._add(name, (*shape[:-1], shape[-1] + pads[rank - 1] + pads[-1]))
        elif prod(shape) * 2 < LARGEST:
            repeats = np.array([1] * (rank - 1) + [2])
            name = self._node(kind, [value.name, self._constant(repeats)])
            self._add(name, (*shape[:-1], shape[-1] * 2))

    def _slice(self, value: Value) -> None:
        axis = len(value.shape) - 1
        if axis < 1 or value.shape[axis] < 2:
            return
        end = self.draw.randrange(1, value.shape[axis])
        if self.draw.random() < 0.5:
            bounds = [self._constant(np.array([n])) for n in (0, end, axis)]
            self._add(self._node("Slice", [value.name, *bounds]), (*value.shape[:axis], end))
            return
        sizes = [end, value.shape[axis] - end]
        inputs = [value.name, self._constant(np.array(sizes))]
        for name, size in zip(self._node("Split", inputs, 2, axis=axis), sizes, strict=True):
            self._add(name, (*value.shape[:axis], size))

    def _join(self, value: Value) -> None:
        if len(value.shape) < 2:
            return
        alike = [v for v in self.values if v.shape[:-1] == value.shape[:-1]]
        alike = [v for v in alike if len(v.shape) == len(value.shape)]
        others = [self.draw.choice(alike) for _ in range(self.draw.choice((1, 2)))]
        if prod(value.shape) * 3 > LARGEST:
            return
        name = self._node("Concat", [value.name, *(v.name for v in others)], axis=-1)
        last = value.shape[-1] + sum(v.shape[-1] for v in others)
        self._add(name, (*value.shape[:-1], last))

    def _branch(self, value: Value) -> None:
        """Two graphs that read values from outside; which runs is an input."""
        if self.draw.random() < 0.6:
            return
        if not self._choice:
            self._choice = "choice"
            self.inputs.append(helper.make_tensor_value_info("choice", TensorProto.BOOL, []))
        scale, zero = self._constant(np.float32(0.05)), self._constant(np.int8(3))
        graphs = []
        for kind in ("Relu", "Neg"):
            names = [f"b{self._count}_{kind}_{i}" for i in range(3)]
            nodes = [
                helper.make_node("QuantizeLinear", [value.name, scale, zero], names[:1]),
                helper.make_node("DequantizeLinear", [names[0], scale, zero], names[1:2]),
                helper.make_node(kind, names[1:2], names[2:]),
            ]
            output = _result(names[2], len(value.shape))
            graphs.append(helper.make_graph(nodes, kind, [], [output]))
        name = self._node("If", ["choice"], then_branch=graphs[0], else_branch=graphs[1])
        self._add(name, value.shape)

    def _foreign(self, value: Value) -> None:
        """Ops of another domain, which we know nothing of."""
        if self.draw.random() < 0.5:
            return
        kind = self.draw.choice(("QuickGelu", "FastGelu", "Gelu"))
        self._add(self._node(kind, [value.name], domain="com.microsoft"), value.shape)


def _result(name: str, rank: int) -> onnx.ValueInfoProto:
    """A float output of unknown extents."""
    dims = [f"{name}_{i}" for i in range(rank)]
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)


def random_model(seed: int, ops: int = 14) -> onnx.ModelProto:
    """The model of a seed."""
    return ModelMaker(seed, ops).model()


def random_feeds(model: onnx.ModelProto, seed: int) -> dict[str, np.ndarray]:
    """Inputs for a model; unknown extents are `BATCH`."""
    rng, feeds = np.random.default_rng(seed), dict[str, np.ndarray]()
    constants = {tensor.name for tensor in model.graph.initializer}
    for value in model.graph.input:
        if value.name in constants:
            continue
        kind = value.type.tensor_type
        shape = [dim.dim_value or BATCH for dim in kind.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
        if dtype == np.bool_:
            feeds[value.name] = rng.integers(0, 2, shape).astype(np.bool_)
        elif np.issubdtype(dtype, np.integer):
            limits = np.iinfo(dtype)
            low, high = max(limits.min, -128), min(limits.max, 127)
            feeds[value.name] = rng.integers(low, high, shape).astype(dtype)
        else:
            feeds[value.name] = (rng.normal(size=shape) * 2).astype(dtype)
        feeds[value.name] = np.asarray(feeds[value.name])
    return feeds


def main(arguments: Sequence[str] | None = None) -> None:
    """Write one model."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("seed", type=int)
    parser.add_argument("--ops", type=int, default=14)
    parser.add_argument("-o", dest="output", type=Path, required=True)
    options = parser.parse_args(arguments)
    onnx.save(random_model(options.seed, options.ops), options.output)


if __name__ == "__main__":
    main()
