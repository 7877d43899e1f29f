"""Building loops of linalg over tensors, and what moves elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import (
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    BytesAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    TensorType,
    i1,
    i32,
    i64,
)
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.dialects.linalg.ops import FillOp, GenericOp, IndexOp, YieldOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.context import QContext
from qdialect.passes.lowering.pointwise import Body
from qdialect.plugins.common.lowering.emitter import BaseEmitter, element_of, integer_type
from qdialect.plugins.common.lowering.laid_out import LaidOut, reordered

if TYPE_CHECKING:
    from numpy.typing import NDArray

Compute = Callable[[Body, Sequence[SSAValue]], SSAValue]
"""Appends what is computed of one element of each operand, the result so far last."""
Read = tuple[SSAValue, AffineMap]
"""An operand, and which of its elements an iteration reads."""


class Emitter(BaseEmitter):
    """Collects operations of linalg, arith and tensor."""

    def __init__(self, session: QContext) -> None:
        super().__init__(session)
        self._scalars: dict[tuple[float, Attribute], SSAValue] = {}

    def constant_op(self, array: NDArray[Any], kind: TensorType[Any]) -> Operation:
        # arith.constant takes no reference into the weight store.
        """`arith.constant`."""
        values = DenseIntOrFPElementsAttr(kind, BytesAttr(array.tobytes()))
        return arith.ConstantOp.create(result_types=[kind], properties={"value": values})

    def add(self, op: Operation) -> SSAValue:
        """Append `op`; its only result."""
        self.append(op)
        return op.results[0]

    def scalar(self, number: int, width: int) -> SSAValue:
        """One integer."""
        return self.number(number, IntegerType(width))

    def number(self, number: float, element: Attribute) -> SSAValue:
        """One integer or float."""
        key = number, element
        if key not in self._scalars:
            if (integer := integer_type(element)) is not None:
                constant = arith.ConstantOp(IntegerAttr(int(number), integer))
            else:
                constant = arith.ConstantOp(FloatAttr(number, cast("AnyFloat", element)))
            self.constants.append(constant)
            self._scalars[key] = constant.result
        return self._scalars[key]

    def typed_value(self, x: LaidOut, kind: Attribute) -> SSAValue:
        """The value of `x` for an op that is not lowered: a truth value as i1, which
        lowered ops store as i8."""
        value = self.value_of(x)
        is_bit = isinstance(kind, TensorType) and cast("TensorType[Any]", kind).element_type == i1
        if not is_bit or element_of(value) == i1:
            return value
        return self.elementwise(
            [value], shape_of(value), i1, lambda body, v: body.add(arith.TruncIOp(v[0], i1))
        )

    # -- loops --------------------------------------------------------------------

    def empty(self, shape: Sequence[int], element: Attribute) -> SSAValue:
        """A tensor of which nothing is read."""
        return self.add(tensor.EmptyOp((), TensorType(element, list(shape))))

    def filled(self, shape: Sequence[int], width: int, number: int) -> SSAValue:
        """A tensor of one integer everywhere."""
        return self.filled_with(shape, number, IntegerType(width))

    def filled_with(self, shape: Sequence[int], number: float, element: Attribute) -> SSAValue:
        """A tensor of one number everywhere."""
        scalar = self.number(number, element)
        return self.add(FillOp([scalar], [self.empty(shape, element)]))

    def loops(
        self,
        inputs: Sequence[Read],
        result: Read,
        kinds: str,
        compute: Compute,
    ) -> SSAValue:
        """`linalg.generic` onto `result`; `kinds` has a p (parallel) or r (reduction) for
        each loop."""
        values = [value for value, _ in (*inputs, result)]
        block = Block(arg_types=[element_of(value) for value in values])
        body = Body(block, 1)
        block.add_op(YieldOp(compute(body, block.args)))
        return self.add(
            GenericOp(
                values[:-1],
                values[-1:],
                Region(block),
                [AffineMapAttr(map_) for _, map_ in (*inputs, result)],
                ArrayAttr(
                    [
                        IteratorTypeAttr.parallel() if kind == "p" else IteratorTypeAttr.reduction()
                        for kind in kinds
                    ]
                ),
                [values[-1].type],
            )
        )

    def elementwise(
        self,
        inputs: Sequence[SSAValue],
        shape: Sequence[int],
        element: Attribute,
        compute: Compute,
    ) -> SSAValue:
        """What is computed of inputs that broadcast to `shape`."""
        rank = len(shape)
        reads = [self.broadcast(value, shape) for value in inputs]
        result = self.empty(shape, element), AffineMap.identity(rank)
        return self.loops(reads, result, "p" * rank, compute)

    def broadcast(self, value: SSAValue, shape: Sequence[int]) -> Read:
        """`value` without the dimensions that repeat, and how it is read."""
        extents, rank = shape_of(value), len(shape)
        offset = rank - len(extents)
        dimensions = [d for d, n in enumerate(extents) if n == shape[d + offset]]
        dims = tuple(AffineExpr.dimension(d + offset) for d in dimensions)
        value = self.reshaped(value, [extents[d] for d in dimensions])
        return value, AffineMap(rank, 0, dims)

    # -- movement -----------------------------------------------------------------

    def permuted(self, value: SSAValue, perms: Sequence[int]) -> SSAValue:
        """A `linalg.generic` that copies each element."""
        dims = tuple(AffineExpr.dimension(list(perms).index(d)) for d in range(len(perms)))
        return self._copied(value, dims, reordered(shape_of(value), perms))

    def _copied(
        self, value: SSAValue, dims: tuple[AffineExpr, ...], shape: Sequence[int]
    ) -> SSAValue:
        """A tensor of `shape`, each element of which is that of `value` at `dims`."""
        rank, empty = len(shape), self.empty(shape, element_of(value))
        source = value, AffineMap(rank, 0, dims)
        return self.loops(
            [source], (empty, AffineMap.identity(rank)), "p" * rank, lambda _, x: x[0]
        )

    def reversed_along(self, value: SSAValue, dimensions: Sequence[int]) -> SSAValue:
        """`value` read from the end along some dimensions."""
        shape, element = shape_of(value), element_of(value)

        def read(body: Body, _: Sequence[SSAValue]) -> SSAValue:
            places = [body.add(IndexOp(d)) for d in range(len(shape))]
            for d in dimensions:
                last = body.constant(shape[d] - 1, IndexType())
                places[d] = body.add(arith.SubiOp(last, places[d]))
            return body.add(tensor.ExtractOp(value, places, element))

        result = self.empty(shape, element), AffineMap.identity(len(shape))
        return self.loops([], result, "p" * len(shape), read)

    def reshaped(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """`tensor.collapse_shape` and `tensor.expand_shape`."""
        old, new, element = shape_of(value), tuple(shape), element_of(value)
        if old == new:
            return value
        if not old:  # xDSL accepts no `tensor.expand_shape` of a scalar
            return self._copied(value, (), new)
        groups = _groups(old, new)
        between = tuple(prod(old[d] for d in left) for left, _ in groups)
        if between != old:
            indices = _reassociation([left for left, _ in groups])
            value = self.add(
                tensor.CollapseShapeOp.create(
                    operands=[value],
                    result_types=[TensorType(element, list(between))],
                    properties={"reassociation": indices},
                )
            )
        if between != new:
            indices = _reassociation([right for _, right in groups])
            value = self.add(
                tensor.ExpandShapeOp.create(
                    operands=[value],
                    result_types=[TensorType(element, list(new))],
                    properties={
                        "reassociation": indices,
                        "static_output_shape": DenseArrayBase.from_list(i64, list(new)),
                    },
                )
            )
        return value

    def padded(self, value: SSAValue, pads: Sequence[tuple[int, int]], number: float) -> SSAValue:
        """`value` with so many of `number` before and after along each dimension."""
        if not any(any(pair) for pair in pads):
            return value
        extents, element = shape_of(value), element_of(value)
        block = Block(arg_types=[IndexType()] * len(extents))
        block.add_op(tensor.YieldOp(self.number(number, element)))
        shape = [n + a + b for n, (a, b) in zip(extents, pads, strict=True)]
        low, high = ([pair[end] for pair in pads] for end in (0, 1))
        return self.add(
            tensor.PadOp(value, [], [], Region(block), low, high, TensorType(element, shape))
        )

    def box(
        self,
        value: SSAValue,
        starts: Sequence[int],
        shape: Sequence[int],
        steps: Sequence[int] | None = None,
    ) -> SSAValue:
        """Every `steps`-th element from `starts` on."""
        steps = [1] * len(shape) if steps is None else steps
        if tuple(shape) == shape_of(value) and set(steps) <= {1}:
            return value
        kind = TensorType(element_of(value), list(shape))
        return self.add(
            tensor.ExtractSliceOp.create(
                operands=[value],
                result_types=[kind],
                properties=_window(starts, shape, steps, [1, 0, 0, 0]),
            )
        )

    def joined(self, parts: Sequence[SSAValue], dimension: int) -> SSAValue:
        """Values side by side along a dimension."""
        if len(parts) == 1:
            return parts[0]
        shape = list(shape_of(parts[0]))
        shape[dimension] = sum(shape_of(part)[dimension] for part in parts)
        whole, start = self.empty(shape, element_of(parts[0])), 0
        for part in parts:
            extents = shape_of(part)
            starts = [start if d == dimension else 0 for d in range(len(shape))]
            whole = self.add(
                tensor.InsertSliceOp.create(
                    operands=[part, whole],
                    result_types=[whole.type],
                    properties=_window(starts, extents, [1] * len(shape), [1, 1, 0, 0, 0]),
                )
            )
            start += extents[dimension]
        return whole


def over_windows(
    e: Emitter,
    value: SSAValue,
    init: SSAValue,
    kernel: Sequence[int],
    loops: tuple[dict[str, list[AffineExpr]], int],
    compute: Compute,
) -> SSAValue:
    """`compute` over the elements of each window of `value`, `init` first; `loops` are the
    dimensions by letter and how many there are (`contraction.window_maps`)."""
    dims, count = loops
    outer = (*dims["n"], *dims["c"])
    # Of this tensor only the extents are used: those of the window.
    window = e.empty(kernel, element_of(value))
    reads = [
        (value, AffineMap(count, 0, (*outer, *dims["i"]))),
        (window, AffineMap(count, 0, tuple(dims["k"]))),
    ]
    result = init, AffineMap(count, 0, (*outer, *dims["o"]))
    spatial = len(kernel)
    return e.loops(reads, result, "p" * (2 + spatial) + "r" * spatial, compute)


def _window(
    starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int], operands: Sequence[int]
) -> dict[str, Attribute]:
    return {
        "static_offsets": DenseArrayBase.from_list(i64, list(starts)),
        "static_sizes": DenseArrayBase.from_list(i64, list(sizes)),
        "static_strides": DenseArrayBase.from_list(i64, list(steps)),
        "operandSegmentSizes": DenseArrayBase.from_list(i32, list(operands)),
    }


def _reassociation(groups: Sequence[Sequence[int]]) -> ArrayAttr[ArrayAttr[IntegerAttr]]:
    return ArrayAttr([ArrayAttr([IntegerAttr(d, i64) for d in group]) for group in groups])


def _groups(old: Sequence[int], new: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """The finest split of both shapes into runs of dimensions with equal products."""
    if prod(old) == 0 or not old or not new:
        return [(list(range(len(old))), list(range(len(new))))] if old and new else []
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) and j < len(new):
        left, right = [i], [j]
        a, b = old[i], new[j]
        i, j = i + 1, j + 1
        while a != b:
            if a < b:
                a, i = a * old[i], i + 1
                left.append(i - 1)
            else:
                b, j = b * new[j], j + 1
                right.append(j - 1)
        groups.append((left, right))
    # What is left has an extent of 1.
    groups[-1][0].extend(range(i, len(old)))
    groups[-1][1].extend(range(j, len(new)))
    return groups
