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
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from qdialect.dialects.onnx import NodeOp
from qdialect.formats.onnx.read.extents import Extent
from qdialect.formats.onnx.read.inferred_extents import RULES
from qdialect.formats.onnx.read.kept_shapes import SHAPES
from qdialect.formats.onnx.read.movement import axes_of
from qdialect.formats.onnx.read.node import Node
from qdialect.formats.onnx.read.shape_values import MOST, Numbers, integers, numbers
from qdialect.ops import NNOp, shape_of
from qdialect.ops.priced_shapes import SAME_SHAPE
from qdialect.ops.shapes import DYNAMIC, Shape, ShapeError

if TYPE_CHECKING:
    from onnx import TensorProto

    from qdialect.formats.onnx.read.importer import Importer

Extents = tuple[Extent, ...]

_FOLLOWED = ("int64", "int32", "bool")

_LOWEST, _HIGHEST = 1 << 40, 1 << 41
"""Beyond what a file writes for "to the end"; sums of a few stay below 2^63."""


class Symbols:
    """Of one import."""

    def __init__(self, imp: Importer) -> None:
        self._imp = imp
        self._numbers: dict[str, Numbers] = {}
        self._extents: dict[SSAValue, Extents] = {}
        self._told: dict[SSAValue, Sequence[Extent | None]] = {}
        self._names: dict[SSAValue, str] = {}
        self._nodes: dict[Operation, Node] = {}
        self._trials: list[dict[str, int]] = [{}, {}]
        self._random = random.Random(0)

    # -- values ------------------------------------------------------------------------

    def numbers(self, name: str) -> Numbers | None:
        """The value of an integer tensor, as far as it is followed."""
        if name not in self._numbers:
            array = self._imp.static(name) if name else None
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
        return self._imp.loaded.tensors.array(tensor)

    def axes(self, node: Node) -> tuple[int, ...] | None:
        """The axes of a node, an attribute or a second input; () for none."""
        return axes_of(self._imp, node, 1)

    def slice_lists(self, node: Node) -> list[tuple[int, ...]] | None:
        """Starts, ends, axes and steps of a `Slice` where all of them are known."""
        if self._imp.opset < 10:
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
        self._told[value] = extents

    def extents(self, name: str) -> Extents | None:
        """The extents of a tensor; None where its rank is not known."""
        value = self._imp.values.get(name)
        if value is not None:
            return self.of(value) if isinstance(value.type, TensorType) else None
        kind = self._imp.type_of(name)
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
            values = [self._imp.values[name] for name in names if name in self._imp.values]
        else:
            values = list(op.operands) if isinstance(op, (NNOp, *SAME_SHAPE)) else []
        return [v for v in values if isinstance(v.type, TensorType)]

    def _found(self, value: SSAValue) -> Extents:
        shape = shape_of(value)
        if DYNAMIC not in shape:
            return tuple(map(Extent.of, shape))
        inferred = self._told.get(value) or self._inferred(value)
        declared = self._named(value, len(shape))
        if inferred is None or len(inferred) != len(shape):
            inferred = (None,) * len(shape)
        return tuple(
            Extent.of(n) if n != DYNAMIC else a or b or Extent.unknown()
            for n, a, b in zip(shape, inferred, declared, strict=True)
        )

    def _named(self, value: SSAValue, rank: int) -> Sequence[Extent | None]:
        """The extents that the model, or ONNX's inference, has a name for."""
        proto = self._imp.loaded.types.get(self._names.get(value, ""))
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
            rule = SHAPES.get(self._nodes[op].op_type) if op in self._nodes else None
            return None if rule is None else rule(self, self._nodes[op])
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
