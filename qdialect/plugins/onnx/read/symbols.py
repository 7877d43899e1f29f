"""The extents of tensors by symbol while a model is read, and what shape arithmetic makes of them.

    %q = nn.matmul %x, %w : (tensor<?x?x64xf32>, ..)     // batch x sequence x 64
    Reshape(q, Concat(Shape(ids)[0:1], Shape(ids)[1:2], [4, 16]))
                                                         // batch x sequence x 4 x 16

Names of a model's inputs are symbols.  The ops' own shape inference takes them on: extents are
set to large numbers, each symbol another, and an extent of the result that is one of them is
that symbol.  Of all other extents that are not known nothing is claimed but that they are equal
to themselves.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from qdialect.ir.ops import NNOp, shape_of
from qdialect.ir.ops.priced_shapes import SAME_SHAPE
from qdialect.ir.ops.shapes import DYNAMIC, Shape, ShapeError, normalize_axes
from qdialect.plugins.common.extents import (
    MOST,
    Extent,
    Numbers,
    broadcast,
    clamped,
    integers,
    numbers,
)
from qdialect.plugins.onnx.dialect import NodeOp
from qdialect.plugins.onnx.read.graph_tensors import GraphTensors, axes_of
from qdialect.plugins.onnx.read.inferred_extents import RULES, target_extents
from qdialect.plugins.onnx.read.node import Node

if TYPE_CHECKING:
    from onnx import TensorProto

Extents = tuple[Extent, ...]

_FOLLOWED = ("int64", "int32", "bool")

_LOWEST, _HIGHEST = 1 << 40, 1 << 41
"""Beyond what a file writes for "to the end"; sums of a few stay below 2^63."""


class Symbols:
    """The extents of the tensors of one import, and the values of small integer tensors."""

    def __init__(self, tensors: GraphTensors) -> None:
        self._tensors = tensors
        self._numbers: dict[str, Numbers] = {}
        self._extents: dict[SSAValue, Extents] = {}
        self._noted: dict[SSAValue, Sequence[Extent | None]] = {}
        self._names: dict[SSAValue, str] = {}
        self._nodes: dict[Operation, Node] = {}
        self._trials: list[dict[str, int]] = [{}, {}]
        self._random = random.Random(0)

    # -- values ------------------------------------------------------------------------

    def numbers(self, name: str) -> Numbers | None:
        """The value of an integer tensor, as far as it is followed."""
        if name not in self._numbers:
            array = self._tensors.static(name) if name else None
            if array is None or array.size > MOST or str(array.dtype) not in _FOLLOWED:
                return None
            self._numbers[name] = numbers(array)
        return self._numbers[name]

    def static(self, name: str) -> NDArray[np.int64] | None:
        """The value of an integer tensor where all of it are numbers."""
        found = self.numbers(name)
        return None if found is None else integers(found)

    def array_of(self, tensor: TensorProto) -> NDArray[Any] | None:
        """The value of a tensor that is an attribute."""
        return self._tensors.loaded.tensors.array(tensor)

    def axes(self, node: Node) -> tuple[int, ...] | None:
        """The axes of a node, an attribute or a second input; () for none."""
        return axes_of(self._tensors, node, 1)

    def slice_lists(self, node: Node) -> list[tuple[int, ...]] | None:
        """Starts, ends, axes and steps of a `Slice` where all of them are known."""
        if self._tensors.opset < 10:
            lists = [node.get(n, None) for n in ("starts", "ends", "axes")] + [None]
        else:
            arrays = [self.static(name) for name in node.inputs[1:]]
            if any(a is None and node.input(i) for i, a in enumerate(arrays, 1)):
                return None
            lists = [None if a is None else tuple(a.reshape(-1).tolist()) for a in arrays]
            lists += [None] * (4 - len(lists))
        starts, ends, axes, steps = lists
        if starts is None or ends is None:
            return None
        axes = tuple(range(len(starts))) if axes is None else axes
        found = [starts, ends, axes, steps or (1,) * len(starts)]
        return found if len({len(each) for each in found}) == 1 else None

    def note(self, name: str, found: Numbers) -> None:
        """Note what a tensor holds."""
        self._numbers[name] = found

    # -- extents -----------------------------------------------------------------------

    def name(self, node: Node | None, names: Sequence[str], values: Sequence[SSAValue]) -> None:
        """Note which tensors values are, and the node that makes them if that is kept."""
        for name, value in zip(names, values, strict=False):
            self._names.setdefault(value, name)
            if node is not None and isinstance(value.owner, NodeOp):
                self._nodes[value.owner] = node

    def tell(self, value: SSAValue, extents: Sequence[Extent | None]) -> None:
        """Note extents that the op of a value does not tell."""
        self._noted[value] = extents

    def extents(self, name: str) -> Extents | None:
        """The extents of a tensor; None where its rank is not known."""
        value = self._tensors.values.get(name)
        if value is not None:
            return self.of(value) if isinstance(value.type, TensorType) else None
        kind = self._tensors.type_of(name)
        if not isinstance(kind, TensorType):
            return None
        return tuple(map(Extent.of, cast("TensorType[Attribute]", kind).get_shape()))

    def of(self, value: SSAValue) -> Extents:
        """The extents of a value of a ranked tensor type."""
        stack = [value]
        while stack:
            last = stack[-1]
            if last in self._extents:
                stack.pop()
                continue
            above = [v for v in self._sources(last) if v not in self._extents]
            stack.extend(above)
            if not above:
                self._extents[last] = self._found(last)
        return self._extents[value]

    def _sources(self, value: SSAValue) -> list[SSAValue]:
        """What tells the extents of a value that its type does not tell."""
        op = value.owner
        if isinstance(op, Block) or DYNAMIC not in shape_of(value):
            return []
        if isinstance(op, NodeOp):
            names = self._nodes[op].inputs if op in self._nodes else []
            values = [self._tensors.values[name] for name in names if name in self._tensors.values]
        else:
            values = list(op.operands) if isinstance(op, (NNOp, *SAME_SHAPE)) else []
        return [v for v in values if isinstance(v.type, TensorType)]

    def _found(self, value: SSAValue) -> Extents:
        shape = shape_of(value)
        if DYNAMIC not in shape:
            return tuple(map(Extent.of, shape))
        inferred = self._noted.get(value) or self._inferred(value)
        declared = self._named(value, len(shape))
        if inferred is None or len(inferred) != len(shape):
            inferred = (None,) * len(shape)
        return tuple(
            Extent.of(n) if n != DYNAMIC else a or b or Extent.unknown()
            for n, a, b in zip(shape, inferred, declared, strict=True)
        )

    def _named(self, value: SSAValue, rank: int) -> Sequence[Extent | None]:
        """The extents that the model, or ONNX's inference, has a name for."""
        proto = self._tensors.loaded.types.get(self._names.get(value, ""))
        if proto is None or len(proto.tensor_type.shape.dim) != rank:
            return (None,) * rank
        dims = proto.tensor_type.shape.dim
        return [Extent.named(d.dim_param) if d.dim_param else None for d in dims]

    def _inferred(self, value: SSAValue) -> Sequence[Extent | None] | None:
        """The extents of a result by what its op says; None where that is not known."""
        op = value.owner
        if isinstance(op, Block):
            return None
        if isinstance(op, NodeOp):
            node = self._nodes.get(op)
            rule = SHAPES.get(node.op_type) if node is not None and not node.domain else None
            return None if rule is None or node is None else rule(self, node)
        if isinstance(op, SAME_SHAPE):
            return self._extents[op.operands[0]]
        if not isinstance(op, NNOp):
            return None
        operands = [self._extents[v] for v in op.operands]
        rule = next((rule for kinds, rule in RULES if isinstance(op, kinds)), None)
        if rule is not None:
            return rule(op, operands)
        return self._probed(op, operands, next(i for i, v in enumerate(op.results) if v is value))

    def _probed(
        self, op: NNOp, operands: Sequence[Extents], result: int
    ) -> list[Extent | None] | None:
        """The extents of a result that are extents of operands whatever those are."""
        found: list[list[Extent | None]] = []
        for trial in self._trials:
            shapes: list[Shape] = [tuple(self._at(e, trial) for e in x) for x in operands]
            known = {
                n: e
                for x, s in zip(operands, shapes, strict=True)
                for e, n in zip(x, s, strict=True)
            }
            try:
                made = op.infer_from(shapes)[result]
            except ShapeError:
                return None
            found.append([known.get(n) for n in made])
        first, second = found
        return [a if a == b else None for a, b in zip(first, second, strict=True)]

    def _at(self, extent: Extent, trial: dict[str, int]) -> int:
        for name in sorted(extent.names()):
            if name not in trial:
                trial[name] = self._random.randrange(_LOWEST, _HIGHEST)
        return extent.at(trial)


# -- nodes that stay nodes ----------------------------------------------------------------

Known = Sequence[Extent | None]
ShapeRule = Callable[[Symbols, Node], Known | None]

_ONE = Extent.of(1)


def _same(s: Symbols, node: Node) -> Known | None:
    return s.extents(node.input(0))


def _broadcast(s: Symbols, node: Node) -> Known | None:
    shapes = [s.extents(name) for name in node.inputs]
    known = [shape for shape in shapes if shape is not None]
    return broadcast(known) if len(known) == len(shapes) else None


def _range(s: Symbols, node: Node) -> Known | None:
    """From 0 in steps of 1."""
    start, limit, step = (s.numbers(name) for name in node.inputs)
    if (
        start is None
        or limit is None
        or step is None
        or any(n.size != 1 for n in (start, limit, step))
    ):
        return None
    first, last, by = (n.reshape(-1)[0] for n in (start, limit, step))
    whole = first.number == 0 and by.number == 1 and (last.least or 0) >= 0
    return [last] if whole and last.least is not None else None


def _filled(s: Symbols, node: Node) -> Known | None:
    shape = s.numbers(node.input(0))
    return None if shape is None else list(shape.reshape(-1))


def _resize(s: Symbols, node: Node) -> Known | None:
    sizes = None if node.get("axes", None) else s.numbers(node.input(3))
    keeps = node.get("keep_aspect_ratio_policy", "stretch") != "stretch"
    return None if sizes is None or keeps else list(sizes.reshape(-1))


def _expand(s: Symbols, node: Node) -> Known | None:
    x, shape = s.extents(node.input(0)), s.numbers(node.input(1))
    return None if x is None or shape is None else broadcast([x, list(shape.reshape(-1))])


def _unsqueeze(s: Symbols, node: Node) -> Known | None:
    x, axes = s.extents(node.input(0)), s.axes(node)
    if x is None or axes is None:
        return None
    rank = len(x) + len(axes)
    try:
        added = normalize_axes(axes, rank)
    except ShapeError:
        return None
    rest = iter(x)
    return [_ONE if d in added else next(rest) for d in range(rank)]


def _squeeze(s: Symbols, node: Node) -> Known | None:
    x, axes = s.extents(node.input(0)), s.axes(node)
    if x is None or not axes:
        return None
    try:
        gone = normalize_axes(axes, len(x))
    except ShapeError:
        return None
    return [e for d, e in enumerate(x) if d not in gone]


def _gather(s: Symbols, node: Node) -> Known | None:
    x, indices = s.extents(node.input(0)), s.extents(node.input(1))
    axis = node.get("axis", 0)
    if x is None or indices is None or not -len(x) <= axis < len(x):
        return None
    return [*x[: axis % len(x)], *indices, *x[axis % len(x) + 1 :]]


def _transpose(s: Symbols, node: Node) -> Known | None:
    x = s.extents(node.input(0))
    if x is None:
        return None
    perm: tuple[int, ...] = node.get("perm", tuple(reversed(range(len(x)))))
    return [x[p] for p in perm] if sorted(perm) == list(range(len(x))) else None


def _reshape(s: Symbols, node: Node) -> Known | None:
    x, shape = s.extents(node.input(0)), s.numbers(node.input(1))
    if x is None or shape is None:
        return None
    return target_extents(x, list(shape.reshape(-1)), bool(node.get("allowzero", 0)))


def _slice(s: Symbols, node: Node) -> Known | None:
    """Whole dimensions, and the first elements of dimensions of known extent."""
    x = s.extents(node.input(0))
    if x is None or len(node.inputs) < 3:
        return None
    starts, ends = (s.numbers(name) for name in node.inputs[1:3])
    axes, steps = (s.static(node.input(i)) for i in (3, 4))
    if starts is None or ends is None or (node.input(3) and axes is None):
        return None
    places = range(starts.size) if axes is None else axes.reshape(-1).tolist()
    if node.input(4) and (steps is None or (steps != 1).any()):
        return None
    if not len(places) == starts.size == ends.size or any(
        not -len(x) <= a < len(x) for a in places
    ):
        return None
    result: list[Extent | None] = list(x)
    for axis, start, end in zip(places, starts.reshape(-1), ends.reshape(-1), strict=True):
        result[axis] = _taken(x[axis], start, end)
    return result


def _taken(whole: Extent, start: Extent, end: Extent) -> Extent | None:
    """How many elements `[start:end]` takes."""
    least = end.least
    if start.number != 0 or least is None or least < 0:
        return None
    beyond = (end - whole).least
    if (beyond is not None and beyond >= 0) or end.number == 2**63 - 1:
        return whole
    return None if whole.number is None else clamped(end, whole.number)


SHAPES: Mapping[str, ShapeRule] = {
    **dict.fromkeys(
        (
            *(
                "Abs",
                "Cast",
                "Clip",
                "CumSum",
                "Neg",
                "Not",
                "ScatterElements",
                "ScatterND",
                "Sign",
            ),
            *("Trilu", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh"),
            *("Sign", "Acosh", "Atanh", "IsNaN", "LogSoftmax", "Mish", "Selu", "Celu", "Softsign"),
        ),
        _same,
    ),
    **dict.fromkeys(
        ("Add", "Sub", "Mul", "Div", "Mod", "And", "Or", "Xor", "Equal", "Less", "LessOrEqual"),
        _broadcast,
    ),
    **dict.fromkeys(("Greater", "GreaterOrEqual", "Where", "Pow", "Min", "Max"), _broadcast),
    "Range": _range,
    "ConstantOfShape": _filled,
    "Resize": _resize,
    "Expand": _expand,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Gather": _gather,
    "Transpose": _transpose,
    "Reshape": _reshape,
    "Slice": _slice,
}
"""The extents of the result of a node of ONNX's domain that stays a node, by op type."""
