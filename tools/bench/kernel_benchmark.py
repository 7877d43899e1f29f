"""What the kernels of the installed ONNX Runtime take, by what they have to do.

Every case is one op of some shape as we write it, on floats and on codes; the runtime's profiler
says what its nodes take, and the faster half of some runs counts. Between two runs of a case with
large tensors other memory is read, as weights are not in the caches when a network needs them
again; results stay in the runtime's memory, as those of nodes do. Of all cases of a kernel in a
state a linear function is fitted: so many nanoseconds for each product, element read, ...
(`Work.terms`), none of them below zero, so that more work never takes less time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any, NamedTuple, cast

from qdialect.errors import QError
from qdialect.ir.context import new_context
from qdialect.ir.ops.base import NNOp
from qdialect.packages import package
from qdialect.plugins.mlir.read import read_module
from qdialect.plugins.onnx.target_kernels import (
    CODES,
    DEQUANTIZE,
    DYNAMIC,
    FLOAT,
    FROM_LAYOUT,
    FUSED,
    IN_CONVOLUTION,
    ON_CODES,
    QUANTIZE,
    TO_LAYOUT,
    VIEW,
    WARM,
    WARM_WEIGHTS,
    Work,
    cast_work,
    contraction,
    elementwise,
    works,
)
from qdialect.plugins.onnx.write.engine import OrtEngine
from qdialect.plugins.onnx.write.model import write_model
from qdialect.plugins.onnx.write.node_times import executions
from qdialect.targets.price_table import Kernels

Shape = tuple[int, ...]
Watch = Callable[[Sequence[Any], str], Iterable[Any]]
"""Passes what is gone through on, with what it is."""


def unwatched(items: Sequence[Any], what: str) -> Iterable[Any]:
    """Watches nothing."""
    return items


STATES = (FLOAT, "u8 i8", "u8 u8", "i8 i8")
"""Of contractions with weights; other ops are measured on floats and on codes."""

_CONVOLUTIONS = frozenset({"Conv", "QLinearConv"})
_LAYOUTS = frozenset({"ReorderInput", "ReorderOutput"})
_CASTS = {"QuantizeLinear": QUANTIZE, "DequantizeLinear": DEQUANTIZE}
_OTHER_MEMORY = 1 << 26
"""Bytes read between two runs of large tensors: more than the caches of all cores hold."""


@dataclass(frozen=True)
class Case:
    """One op, or two where the second is part of the kernel of the first: how it is called, on
    what (`%0`, `%1`, ...), and what of it is constant."""

    call: str
    operands: tuple[Shape, ...]
    result: Shape
    #: how many of the last operands are constants
    constants: int = 0
    #: whether operands and result have the same qparams
    same: bool = False
    #: whether the other operands come from convolutions, and have the layout of those
    image: bool = False
    #: whether the first operand is a sum of two
    sum: bool = False

    @property
    def name(self) -> str:
        """The op."""
        return self.call.split()[0]

    @property
    def varying(self) -> int:
        """Elements of the largest of what is no constant."""
        varying = self.operands[: len(self.operands) - self.constants]
        return max(map(prod, (*varying, self.result)))

    @property
    def weights(self) -> int:
        """Elements of constants."""
        return sum(map(prod, self.operands[len(self.operands) - self.constants :]))

    def text(self, state: str) -> str:
        """A module with the op in a state."""
        varying = len(self.operands) - self.constants
        kinds = [self._kind(n, state, n >= varying) for n in range(len(self.operands))]
        result = self._kind(-1, state, False)
        arguments = ", ".join(f"%{'abc'[n]}: {kinds[n]}" for n in range(varying))
        lines = list[str]()
        call = self.call
        for n in range(len(self.operands)):
            name = f"%{'abc'[n]}"
            if n >= varying:
                lines.append(f"  {name} = {self._constant(self.operands[n], state, kinds[n])}")
            elif self.image:
                channels = self.operands[n][1]
                shape = (channels, channels, 1, 1)
                weights = self._weights(shape, state)
                lines.append(f"  %w{n} = {self._constant(shape, state, weights)}")
                types = f"({kinds[n]}, {weights}) -> {kinds[n]}"
                lines.append(f"  %c{n} = nn.conv2d {name}, %w{n} : {types}")
                name = f"%c{n}"
            if self.sum and n == 0:
                lines.append(f"  %s = nn.add %z, {name} : ({kinds[0]}, {kinds[0]}) -> {kinds[0]}")
                arguments, name = f"%z: {kinds[0]}, {arguments}", "%s"
            call = call.replace(f"%{n}", name)
        lines.append(f"  %r = {call} : ({', '.join(kinds)}) -> {result}")
        body = "\n".join(lines)
        return (
            f"func.func @main({arguments}) -> {result} {{\n{body}\n  func.return %r : {result}\n}}"
        )

    @staticmethod
    def _constant(shape: Shape, state: str, kind: str) -> str:
        stored = _type(shape, "f32" if state == FLOAT else "i8")
        return f"nn.constant dense<{'0.01' if state == FLOAT else '3'}> : {stored} : {kind}"

    @staticmethod
    def _weights(shape: Shape, state: str) -> str:
        weights = state.partition(" ")[2] or "i8"
        zero = ":128" if weights == "u8" else ""
        kind = f"!quant.uniform<{weights}:f32, 0.01{zero}>"
        return _type(shape, "f32" if state == FLOAT else kind)

    def _kind(self, number: int, state: str, constant: bool) -> str:
        shape = self.operands[number] if number >= 0 else self.result
        if constant:
            return self._weights(shape, state)
        if state == FLOAT:
            return _type(shape, "f32")
        activations, _, second = state.partition(" ")
        storage = "u8" if state == CODES else activations
        if self.name == "nn.matmul" and number == 1:
            storage = second
        step = 0 if self.same else number + 1
        zero = 1 if storage == "u8" else 0
        return _type(shape, f"!quant.uniform<{storage}:f32, {0.02 + step / 512}:{zero}>")


def _type(shape: Shape, element: str) -> str:
    return f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"


# -- what is measured --------------------------------------------------------------------


def _conv(
    channels: int, count: int, side: int, taps: int, stride: int = 1, groups: int = 1
) -> Case:
    pad = taps // 2
    out = (side + 2 * pad - taps) // stride + 1
    call = f"nn.conv2d %0, %1 strides [{stride}, {stride}] pads [{pad}, {pad}, {pad}, {pad}]"
    return Case(
        f"{call} groups {groups}",
        ((1, channels, side, side), (count, channels // groups, taps, taps)),
        (1, count, out, out),
        constants=1,
    )


_POINT = (
    *((16, 96, 56), (96, 24, 28), (32, 64, 40), (64, 64, 28), (128, 128, 14), (256, 64, 14)),
    *((64, 256, 28), (512, 128, 7), (256, 512, 7), (32, 16, 80), (144, 24, 20), (512, 512, 7)),
    *((64, 384, 10), (160, 960, 5), (960, 160, 5), (256, 64, 1), (64, 256, 1), (48, 48, 32)),
    *((128, 32, 56), (1024, 256, 14)),
)
"""Channels, their number in the result, and the side of the image."""
_WINDOW = (
    *((16, 16, 64, 3, 1), (32, 32, 32, 3, 1), (64, 64, 28, 3, 1), (128, 128, 14, 3, 1)),
    *((64, 128, 28, 3, 2), (256, 256, 7, 3, 1), (32, 64, 40, 3, 2), (512, 512, 7, 3, 1)),
    *((48, 64, 16, 5, 1), (16, 64, 20, 5, 1), (32, 16, 12, 3, 1), (128, 32, 28, 3, 1)),
    *((64, 128, 8, 3, 1), (128, 128, 8, 3, 1), (64, 64, 4, 3, 1), (16, 32, 80, 3, 2)),
    *((128, 64, 8, 2, 1), (64, 64, 56, 3, 1)),
)
_IMAGE = (
    *((3, 16, 112, 3, 2), (3, 32, 160, 3, 2), (3, 64, 112, 7, 2), (1, 16, 28, 3, 1)),
    *((3, 32, 48, 3, 1), (3, 64, 96, 4, 4), (3, 16, 224, 3, 2), (1, 32, 64, 5, 1)),
)
_DEPTHWISE = (
    *((16, 80, 3, 1), (32, 80, 3, 2), (64, 40, 3, 1), (96, 56, 3, 2), (128, 20, 3, 1)),
    *((256, 10, 5, 1), (384, 10, 3, 1), (512, 7, 5, 1), (960, 5, 3, 1), (144, 20, 3, 2)),
    *((64, 24, 7, 1), (192, 14, 5, 2), (32, 112, 3, 1), (24, 28, 3, 1)),
)
_GROUPED = (
    *((64, 64, 28, 1, 4), (112, 112, 14, 1, 4), (128, 128, 14, 3, 4), (256, 256, 7, 3, 32)),
    *((32, 32, 56, 3, 2), (272, 272, 14, 1, 8), (64, 128, 14, 3, 8), (544, 136, 7, 1, 4)),
)
_PRODUCT = (
    *((64, 192, 192), (64, 192, 768), (64, 768, 192), (128, 384, 384), (128, 384, 1536)),
    *((576, 64, 256), (16, 512, 512), (256, 256, 64), (32, 64, 64), (196, 128, 512)),
    *((2, 256, 256), (4, 512, 1000), (8, 128, 384), (64, 64, 2048)),
)
"""Rows, what is summed, and columns."""
_ROW = ((256, 64), (512, 1000), (1280, 1000), (64, 10), (128, 128), (1024, 256), (2048, 512))
_VALUES = (
    *((4, 64, 48, 64), (4, 64, 64, 48), (12, 128, 32, 128), (12, 128, 128, 32)),
    *((8, 196, 64, 196), (8, 196, 196, 64), (1, 64, 64, 64), (6, 16, 32, 16)),
)
"""Batch, rows, what is summed, and columns."""
_SIDES = ((16, 6), (32, 14), (32, 28), (64, 40), (64, 80), (128, 80))
"""Channels and the side of the image of elementwise ops and movement."""

_UNARY = (
    *("relu", "neg", "abs", "exp", "log", "sqrt", "reciprocal", "erf", "gelu", "swish"),
    *("softplus", "floor", "ceil", "round", "sigmoid", "tanh", "hard_swish", "hard_sigmoid"),
    *("clip", "leaky_relu", "elu", "pow", "softmax"),
)
_ATTRIBUTES = {
    "hard_sigmoid": " alpha 0.2 beta 0.5",
    "clip": " min 0.2 max 0.7",
    "leaky_relu": " alpha 0.1",
    "elu": " alpha 1.0",
    "pow": " exponent 2.5",
}
_OF_POSITIVE = ("nn.log", "nn.sqrt", "nn.pow")
_BINARY = ("add", "sub", "mul", "div", "maximum", "minimum")


def cases() -> Iterator[Case]:
    """Everything that is measured."""
    for channels, count, side in _POINT:
        yield _conv(channels, count, side, 1)
    for each in (*_WINDOW, *_IMAGE):
        yield _conv(*each)
    for channels, side, taps, stride in _DEPTHWISE:
        yield _conv(channels, channels, side, taps, stride, channels)
    for channels, count, side, taps, groups in _GROUPED:
        yield _conv(channels, count, side, taps, 1, groups)
    for rows, depth, columns in (*_PRODUCT, *((1, *each) for each in _ROW)):
        shapes = ((rows, depth), (columns, depth))
        yield Case("nn.fully_connected %0, %1", shapes, (rows, columns), constants=1)
    for batch, rows, depth, columns in _VALUES:
        shapes = ((1, batch, rows, depth), (1, batch, depth, columns))
        yield Case("nn.matmul %0, %1", shapes, (1, batch, rows, columns))
    for channels, side in _SIDES:
        yield from _others(channels, side)


def _others(channels: int, side: int) -> Iterator[Case]:
    image = (1, channels, side, side)
    half = (1, channels, side // 2, side // 2)
    for name in _UNARY:
        yield Case(f"nn.{name} %0{_ATTRIBUTES.get(name, '')}", (image,), image)
    for name in sorted(IN_CONVOLUTION - {"nn.relu"}):
        call = f"{name} %0{_ATTRIBUTES.get(name[3:], '')}"
        yield Case(call, (image,), image, image=True)
    yield Case("nn.softmax %0 axis 1", (image,), image)
    for name in _BINARY:
        yield Case(f"nn.{name} %0, %1", (image, image), image)
    yield Case("nn.prelu %0, %1", (image, (channels, 1, 1)), image, constants=1)
    rows = (1, side * side, channels)
    yield Case("nn.layer_norm %0, %1, %2", (rows, (channels,), (channels,)), rows, constants=2)
    call = "nn.layer_norm %0, %1, %2"
    yield Case(call, (rows, (channels,), (channels,)), rows, constants=2, sum=True)
    for window, stride, result in ((2, 2, half), (3, 1, (1, channels, side - 2, side - 2))):
        for name in ("max_pool2d", "avg_pool2d"):
            call = f"nn.{name} %0 kernel [{window}, {window}] strides [{stride}, {stride}]"
            yield Case(call, (image,), result, same=True, image=True)
    yield Case("nn.global_avg_pool2d %0", (image,), (1, channels, 1, 1), image=True)
    yield Case("nn.add %0, %1", (image, image), image, image=True)
    turned = (1, side, side, channels)
    yield Case("nn.transpose %0 perm [0, 2, 3, 1]", (image,), turned, same=True)
    both = (1, 2 * channels, side, side)
    yield Case("nn.concat %0, %1 axis 1", (image, image), both, image=True)
    call = f"nn.slice %0 starts [0, 0, 0, 0] stops [1, {channels // 2}, 999, 999]"
    part = (1, channels // 2, side, side)
    yield Case(f"{call} steps [1, 1, 1, 1]", (image,), part, same=True)
    matrix = (side * side, channels)
    yield Case("nn.transpose %0 perm [1, 0]", (matrix,), matrix[::-1], same=True)
    large = (1, channels, 2 * side, 2 * side)
    call = "nn.resize_nearest %0 scales [1.0, 1.0, 2.0, 2.0] coordinates asymmetric nearest floor"
    yield Case(call, (image,), large, same=True, image=True)
    call = "nn.conv_transpose2d %0, %1 strides [2, 2]"
    weights = (channels, max(channels // 2, 8), 2, 2)
    large = (1, weights[1], 2 * side, 2 * side)
    yield Case(call, (image, weights), large, constants=1)


# -- measuring ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Sample:
    """What an execution took, in nanoseconds."""

    work: Work
    ns: float


@dataclass
class KernelBenchmark:
    """The measurements, of so many runs each."""

    runs: int = 10

    def measure(self, watch: Watch) -> Kernels:
        """What every kernel takes in every state; `watch` sees the cases go by."""
        chosen: Sequence[tuple[Case, str]]
        chosen = [(case, state) for case in cases() for state in states_of(case)]
        by_node = self.by_node()
        view = Sample(Work(VIEW, CODES, {"node": 1}), by_node.real)
        found = [view]
        for case, state in watch(chosen, "kernels"):
            found += self.samples(case, state, by_node)
        return fit(found)

    def by_node(self) -> ByNode:
        """What a node takes that does next to nothing, and what the profiler adds to it: measured
        on ops of one operand and of eight (with qparams)."""
        (real, few), (_, many) = (self._node(_chain(call, kind)) for call, kind in _TINY)
        each = max((many - few) / (_TINY_INPUTS[1] - _TINY_INPUTS[0]), 0.0)
        return ByNode(real, max(few - each * _TINY_INPUTS[0], 0.0), each)

    def _node(self, text: Callable[[int], str]) -> tuple[float, float]:
        """Nanoseconds of a node, and what the profiler says beyond that."""
        models = [self._model(text(copies)) for copies in _COPIES]
        plain = [shortest_run(model, 20 * self.runs) for model in models]
        nodes = profile(models[1], 2 * self.runs)
        real = max((plain[1] - plain[0]) / (_COPIES[1] - _COPIES[0]), 0.0)
        return real, sum(node.ns for node in nodes) / len(nodes) - real

    def samples(self, case: Case, state: str, by_node: ByNode) -> Iterator[Sample]:
        """What a case took in a state, and what stood around it."""
        module = read_module(case.text(FLOAT), new_context())
        op = _last_op(module)
        work = contraction(op, state)
        made = works(op, state) if work is None else (work,)
        assert made, f"{case.call} in {state}"
        model = _dynamic(case) if state == DYNAMIC else self._model(case.text(state))
        signed = case.name not in _OF_POSITIVE
        cold = case.varying > WARM or case.weights > WARM_WEIGHTS
        ran = profile(model, self.runs, signed=signed, cold=cold)
        nodes = [node._replace(ns=by_node.without(node)) for node in ran]
        own = 0.0
        for node in nodes:
            moves = node.kind == "Transpose" and case.name != "nn.transpose"
            if node.kind in _CASTS:
                yield Sample(cast_work(_CASTS[node.kind], node.elements), node.ns)
            elif moves or node.kind in _LAYOUTS:
                before = node.kind == "ReorderInput" or (moves and not own)
                kind = CODES if moves else FLOAT
                kernel = TO_LAYOUT if before else FROM_LAYOUT
                yield Sample(Work(kernel, kind, elementwise(node.elements)), node.ns)
            elif not case.image or node.kind not in _CONVOLUTIONS:
                own += node.ns
        if made[0].kernel.endswith(FUSED):
            times = [node.ns for node in nodes if node.kind in _CONVOLUTIONS]
            # Of two, one adds the result of the other.
            plain = min(times) if len(times) > 1 else self._with_relu(case, by_node)
            own = max(max(times) - plain, 0.0)
        yield Sample(made[0], own)

    def _with_relu(self, case: Case, by_node: ByNode) -> float:
        """What the convolution of a case takes with a ReLU, which costs nothing."""
        model = self._model(replace(case, call="nn.relu %0").text(FLOAT))
        ran = profile(model, self.runs, cold=case.varying > WARM)
        return max(by_node.without(node) for node in ran if node.kind in _CONVOLUTIONS)

    def _model(self, text: str) -> bytes:
        ctx = new_context()
        try:
            model = write_model(read_module(text, ctx), ctx).whole()
        except QError as error:
            error.notes = (*error.notes, f"the model to measure: {text}")
            raise
        return model.SerializeToString()


def _last_op(module: Any) -> NNOp:
    return [op for op in module.walk() if isinstance(op, NNOp) and op.name != "nn.constant"][-1]


class ByNode(NamedTuple):
    """Nanoseconds of a node that does nothing; and what the profiler adds to any, and for each
    operand."""

    real: float
    start: float
    operand: float

    def without(self, node: Node) -> float:
        """Nanoseconds of a node without what the profiler adds."""
        return max(node.ns - self.start - self.operand * node.operands, 0.0)


_COPIES = (8, 64)
_TINY = (("nn.neg %x", "f32"), ("nn.add %x, %x", "!quant.uniform<u8:f32, 0.1:1>"))
_TINY_INPUTS = (1, 8)


def _chain(call: str, element: str) -> Callable[[int], str]:
    """Writes a chain of so many copies of a call on 16 elements."""
    kind = _type((1, 16), element)

    def text(copies: int) -> str:
        lines: list[str] = []
        for n in range(copies):
            written = call.replace("%x", f"%{n}" if n else "%x")
            if n % 2 and written.startswith("nn.neg"):
                written = written.replace("neg", "abs")
            operands = ", ".join([kind] * call.count("%x"))
            lines.append(f"  %{n + 1} = {written} : ({operands}) -> {kind}")
        body = "\n".join(lines)
        return (
            f"func.func @main(%x: {kind}) -> {kind} {{\n{body}\n"
            f"  func.return %{copies} : {kind}\n}}"
        )

    return text


def _dynamic(case: Case) -> bytes:
    """A matrix product as DynamicQuantizeLinear and MatMulInteger, which the runtime fuses."""
    import numpy as np

    onnx = package("onnx")
    helper, floats = onnx.helper, onnx.TensorProto.FLOAT
    rows, columns = case.operands[0], case.result[-1]
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "step", "zero"]),
        helper.make_node("MatMulInteger", ["q", "w", "zero"], ["sums"]),
        helper.make_node("Cast", ["sums"], ["floats"], to=floats),
        helper.make_node("Mul", ["step", "weight_step"], ["scale"]),
        helper.make_node("Mul", ["floats", "scale"], ["y"]),
    ]
    weights = {
        "w": np.full((rows[-1], columns), 3, np.int8),
        "weight_step": np.full(columns, 0.01, np.float32),
    }
    graph = helper.make_graph(
        nodes,
        "dynamic",
        [helper.make_tensor_value_info("x", floats, rows)],
        [helper.make_tensor_value_info("y", floats, case.result)],
        [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return cast("bytes", model.SerializeToString())


class Node(NamedTuple):
    """A node that the runtime executed: its op, how many operands it has, how many elements it
    wrote, and its shortest time."""

    kind: str
    operands: int
    elements: int
    ns: float


def shortest_run(model: bytes, runs: int) -> float:
    """Nanoseconds of processor time that the shortest run of a model takes."""
    engine, inputs = _engine(model)
    return min(engine.nanoseconds(inputs, runs))


def profile(model: bytes, runs: int, *, signed: bool = True, cold: bool = False) -> list[Node]:
    """What the nodes take that the runtime executes of a model, by its profiler, on values of
    either sign or on positive ones; `cold`: with nothing in the caches."""
    with tempfile.TemporaryDirectory() as folder:
        engine, inputs = _engine(model, Path(folder) / "profile", signed=signed)
        engine.nanoseconds(inputs, runs, cold=_OTHER_MEMORY * cold)
        return [
            Node(
                arguments["op_name"],
                len(arguments["input_type_shape"]),
                sum(prod(s) for each in arguments["output_type_shape"] for s in each.values()),
                _shortest(times),
            )
            for arguments, times in executions(engine).values()
        ]


def _engine(
    model: bytes, profile_to: Path | None = None, *, signed: bool = True
) -> tuple[OrtEngine, Mapping[str, Any]]:
    """An engine of one thread that has run once, and random inputs of it."""
    import numpy as np

    engine = OrtEngine(model, optimize=True, profile=profile_to)
    rng, inputs = np.random.default_rng(0), dict[str, Any]()
    for port in engine.ports:
        floats = port["type"] == "float32"
        low, high = (-0.9 if signed else 0.1, 0.9) if floats else (0, 120)
        values = rng.uniform(low, high, tuple(port["shape"]))
        inputs[port["name"]] = values.astype(port["type"])
    engine.nanoseconds(inputs)
    return engine, inputs


def _shortest(times: list[float]) -> float:
    """The mean of the faster half: the profiler counts whole microseconds."""
    half = sorted(times)[: max(len(times) // 2, 1)]
    return sum(half) / len(half)


# -- fitting -----------------------------------------------------------------------------


_RESOLUTION = 500.0
"""Nanoseconds below which the profiler tells nothing."""


def fit(
    samples: Iterable[Sample], resolution: float = _RESOLUTION
) -> dict[str, dict[str, dict[str, float]]]:
    """By kernel and state the nanoseconds of each term, of least squares of relative errors."""
    groups: dict[tuple[str, str], list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.work[:2], []).append(sample)
    found: dict[str, dict[str, dict[str, float]]] = {}
    for (kernel, state), group in sorted(groups.items()):
        found.setdefault(kernel, {})[state] = _fitted(group, resolution)
    return found


def _fitted(group: Sequence[Sample], resolution: float) -> dict[str, float]:
    import numpy as np

    names = list(group[0].work.terms)
    times = np.array([max(s.ns, resolution) for s in group])
    rows = np.array([[s.work.terms[n] for n in names] for s in group]) / times[:, None]
    found = non_negative(rows, np.ones(len(group)))
    return {n: float(f"{v:.4g}") for n, v in zip(names, found, strict=True) if v > 0}


def non_negative(matrix: Any, expected: Any) -> Any:
    """The x >= 0 of least |matrix x - expected|, by Lawson and Hanson's active set method
    (Solving Least Squares Problems, 1974, chapter 23)."""
    import numpy as np

    norms = np.linalg.norm(matrix, axis=0)
    scaled = matrix / np.where(norms > 0, norms, 1)
    x = np.zeros(matrix.shape[1])
    free = np.zeros(len(x), bool)
    for _ in range(10 * len(x)):
        gradient = scaled.T @ (expected - scaled @ x)
        gradient[free | (norms == 0)] = -np.inf
        best = int(np.argmax(gradient))
        if gradient[best] <= 1e-9:
            break
        free[best] = True
        while True:
            trial = np.zeros(len(x))
            trial[free] = np.linalg.lstsq(scaled[:, free], expected, rcond=None)[0]
            below = free & (trial <= 0)
            if not below.any():
                x = trial
                break
            step = np.min(x[below] / (x[below] - trial[below]))
            x = x + step * (trial - x)
            free &= x > 1e-12
            x[~free] = 0
    return x / np.where(norms > 0, norms, 1)


def states_of(case: Case) -> tuple[str, ...]:
    """The states in which a case is measured."""
    if case.name == "nn.fully_connected":
        return (*STATES, DYNAMIC)
    if case.name == "nn.conv2d":
        return STATES
    if case.image and case.name in IN_CONVOLUTION:
        return (FLOAT,)
    if case.name == "nn.matmul":
        return STATES
    if case.name in ON_CODES:
        return (FLOAT, CODES)
    return (FLOAT,)
