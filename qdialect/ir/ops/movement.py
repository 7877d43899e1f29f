"""Ops whose results are copies of elements of their operands, by index maps (law 2.2):
reshapes, transposes, slices, pads, joins, repeats.

    %y = nn.transpose %x perm [0, 2, 3, 1] : (tensor<1x3x8x8xf32>) -> tensor<1x8x8x3xf32>

Each op declares its index map; passes move casts and rescales, and the channel axis, by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import BoolAttr, IndexType, IntegerAttr, IntegerType, StringAttr, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import operand_def, opt_prop_def, prop_def, result_def, traits_def, var_operand_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from qdialect.ir import behaviors
from qdialect.ir.ops.base import (
    FLAG,
    INTS,
    REAL,
    TENSOR,
    NNOp,
    UnaryOp,
    Values,
    boolean,
    ranked,
    real,
    shape_of,
    tensor_type,
)
from qdialect.ir.ops.declare import Declaration, nn_op, onnx, values
from qdialect.ir.ops.shapes import (
    DYNAMIC,
    Shape,
    ShapeError,
    broadcast,
    normalize_axes,
    normalize_axis,
    reshape,
    slice_extent,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from qdialect.algebra.qparams.maps import IndexMap
    from qdialect.ir.behaviors import Behavior, Port
    from qdialect.ir.behaviors.declaration import MapsOf


def tied(role: str) -> Port:
    """A port whose parameters follow the index map, along any dimension."""
    return behaviors.Port(role, behaviors.PortKind.TIED, axes=None)


def plain(role: str) -> Port:
    """A port for numbers that say what moves where."""
    return behaviors.Port(role, behaviors.PortKind.PLAIN, axes=behaviors.no_axes)


def moves(movement: MapsOf, is_identity: Callable[[Operation], bool] | None = None) -> Declaration:
    """The declaration of a movement of one operand."""

    def declare(name: str) -> Behavior:
        return behaviors.Movement(
            name, (tied("input"),), (tied("result"),), movement=movement, is_identity=is_identity
        )

    return declare


def has_same_type(op: Operation) -> bool:
    """Whether the result has the type of the operand."""
    return op.operands[0].type == op.results[0].type


def _same_static_type(op: Operation) -> bool:
    return has_same_type(op) and DYNAMIC not in shape_of(op.results[0])


def _count(shape: Shape) -> int:
    total = 1
    for extent in shape:
        if extent == DYNAMIC:
            return DYNAMIC
        total *= extent
    return total


# -- reshapes ----------------------------------------------------------------------


def _reshape(op: Operation) -> IndexMap:
    from qdialect.algebra.qparams.maps import Reshape

    shape = values(op).get("shape")
    if shape is None:
        return Reshape(shape_of(op.results[0]))
    return Reshape.onnx(shape_of(op.operands[0]), shape)


def _flatten(op: Operation) -> IndexMap:
    from qdialect.algebra.qparams.maps import Reshape

    rank = len(shape_of(op.operands[0]))
    axis = normalize_axis(values(op)["axis"], rank, past_end=True)
    return Reshape(shape_of(op.results[0]), ((axis, 1), (rank - axis, 1)))


def _reshape_to(op: Operation) -> IndexMap:
    from qdialect.algebra.qparams.maps import Reshape

    return Reshape(shape_of(op.results[0]))


def _is_reshape_to_same(op: Operation) -> bool:
    shape = shape_of(op.results[0])
    # The number of elements, if it is not 0, tells one unknown extent.
    return has_same_type(op) and shape.count(DYNAMIC) <= (0 not in shape)


def _is_ambiguous(shape: Shape) -> bool:
    """Whether the number of elements does not tell the dynamic extents."""
    unknown = shape.count(DYNAMIC)
    return unknown > 1 or (unknown == 1 and 0 in shape)


@nn_op(moves(_reshape, _is_reshape_to_same))
class ReshapeOp(UnaryOp):
    """Same elements in row-major order under another shape.

    The result type tells the shape as long as it has at most one dynamic extent, and none
    of 0 beside it; beyond that `shape` does, as in ONNX: 0 copies an extent, one -1 is inferred.
    """

    name = "nn.reshape"
    shape = opt_prop_def(INTS)

    def __init__(
        self,
        input: SSAValue | Operation,
        shape: Sequence[int],
        *,
        attributes: Mapping[str, Attribute] | None = None,
    ):
        value = SSAValue.get(input)
        try:
            result = reshape(shape_of(value), shape)
        except ShapeError as error:
            raise VerifyException(f"'{self.name}' op {error}") from None
        super().__init__(
            value,
            result_types=[ranked(tensor_type(value).element_type, result)],
            attributes=attributes,
            shape=tuple(shape) if _is_ambiguous(result) else None,
        )

    def verify_(self) -> None:
        """Check what shapes and types alone do not say; VerifyException."""
        declared = shape_of(self.result)
        if self.shape is None and _is_ambiguous(declared):
            raise VerifyException(
                f"'{self.name}' op needs `shape` for a result with several dynamic extents"
                if 0 not in declared
                else f"'{self.name}' op needs `shape` for an empty result with a dynamic extent"
            )
        super().verify_()

    def infer_from(self, operands: Sequence[Shape]) -> list[Shape]:
        source, declared = operands[0], shape_of(self.result)
        if self.shape is not None:
            return [reshape(source, self.values["shape"])]
        if DYNAMIC in declared and DYNAMIC not in source and 0 not in declared:
            return [reshape(source, declared)]
        if DYNAMIC in source or DYNAMIC in declared:
            return [declared]
        # A static extent of 0 must not be read as "copy".
        if _count(source) != _count(declared):
            raise ShapeError(f"cannot reshape {list(source)} to {list(declared)}")
        return [declared]


def _declare_reshape_to(name: str) -> Behavior:
    return behaviors.Movement(
        name, (tied("input"), plain("shape")), (tied("result"),), movement=_reshape_to
    )


@nn_op(_declare_reshape_to)
class ReshapeToOp(NNOp):
    """`nn.reshape` to extents that are computed: `shape` holds one number for each dimension, as
    in ONNX. One -1 is inferred, and 0 copies an extent unless `allowzero`."""

    name = "nn.reshape_to"
    input = operand_def(TENSOR)
    shape = operand_def(TENSOR)
    result = result_def(TENSOR)
    allowzero: BoolAttr = prop_def(FLAG, boolean(False))
    traits = traits_def(Pure())

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        shape = operands[1]
        if len(shape) != 1 or shape[0] == DYNAMIC:
            raise ShapeError(f"expects a vector of known length as shape, but got {list(shape)}")
        return [(DYNAMIC,) * shape[0]]

    def verify_(self) -> None:
        """Check what shapes and types alone do not say; VerifyException."""
        element = tensor_type(self.shape).element_type
        if not isinstance(element, IntegerType | IndexType):
            raise VerifyException(
                f"'{self.name}' op expects a shape of integers, but got {element}"
            )
        super().verify_()


@nn_op(moves(_flatten, _is_reshape_to_same), onnx=onnx("Flatten", reads=False, axis=1))
class FlattenOp(UnaryOp):
    """Two dimensions: those before `axis` and those from `axis` on."""

    name = "nn.flatten"
    axis = prop_def(IntegerAttr.constr(i64), IntegerAttr(1, i64))

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        x = operands[0]
        axis = normalize_axis(values["axis"], len(x), past_end=True)
        return [(_count(x[:axis]), _count(x[axis:]))]


def _squeeze(op: Operation) -> IndexMap:
    from qdialect.algebra.qparams.maps import Squeeze

    return Squeeze(normalize_axes(values(op)["axes"], len(shape_of(op.operands[0]))))


@nn_op(moves(_squeeze, has_same_type))
class SqueezeOp(UnaryOp):
    """Without the dimensions `axes`, which have extent 1."""

    name = "nn.squeeze"
    axes = prop_def(INTS)

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        x = operands[0]
        axes = normalize_axes(values["axes"], len(x))
        for axis in axes:
            if x[axis] not in (1, DYNAMIC):
                raise ShapeError(f"cannot squeeze dimension {axis} of extent {x[axis]}")
        return [tuple(n for d, n in enumerate(x) if d not in axes)]


def _unsqueeze(op: Operation) -> IndexMap:
    from qdialect.algebra.qparams.maps import Unsqueeze

    return Unsqueeze(normalize_axes(values(op)["axes"], len(shape_of(op.results[0]))))


@nn_op(moves(_unsqueeze, has_same_type))
class UnsqueezeOp(UnaryOp):
    """With dimensions of extent 1 inserted such that they are `axes` of the result."""

    name = "nn.unsqueeze"
    axes = prop_def(INTS)

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        x, added = operands[0], values["axes"]
        rank = len(x) + len(added)
        axes = normalize_axes(added, rank)
        rest = iter(x)
        return [tuple(1 if d in axes else next(rest) for d in range(rank))]


# -- orders and parts --------------------------------------------------------------


def _transpose(op: Operation) -> IndexMap:
    from qdialect.algebra.qparams.maps import Transpose

    return Transpose(values(op)["perm"])


def _keeps_order(op: Operation) -> bool:
    perm = values(op)["perm"]
    return perm == tuple(sorted(perm))


@nn_op(moves(_transpose, _keeps_order), onnx=onnx("Transpose", reads=False, perm=()))
class TransposeOp(UnaryOp):
    """Result dimension k is input dimension perm[k]."""

    name = "nn.transpose"
    perm = prop_def(INTS)

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        x, perm = operands[0], tuple[int, ...](values["perm"])
        if sorted(perm) != list(range(len(x))):
            raise ShapeError(f"{list(perm)} is not a permutation of {len(x)} dimensions")
        return [tuple(x[p] for p in perm)]


def _flip(op: Operation) -> IndexMap:
    from qdialect.algebra.qparams.maps import Flip

    return Flip(normalize_axes(values(op)["axes"], len(shape_of(op.operands[0]))))


def _flips_nothing(op: Operation) -> bool:
    shape = shape_of(op.operands[0])
    return all(shape[axis] in (0, 1) for axis in values(op)["axes"])


@nn_op(moves(_flip, _flips_nothing))
class FlipOp(UnaryOp):
    """Dimensions `axes` read from their end."""

    name = "nn.flip"
    axes = prop_def(INTS)

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        normalize_axes(values["axes"], len(operands[0]))
        return [operands[0]]


def _slice(op: Operation) -> IndexMap:
    from qdialect.algebra.qparams.maps import Slice

    v = values(op)
    return Slice(v["starts"], v["stops"], v["steps"])


def _takes_all(op: Operation) -> bool:
    return _same_static_type(op) and set(values(op)["steps"]) <= {1}


@nn_op(moves(_slice, _takes_all))
class SliceOp(UnaryOp):
    """x[starts:stops:steps] in every dimension, numpy rules (negative values count
    from the end, values past an end are clamped)."""

    name = "nn.slice"
    starts = prop_def(INTS)
    stops = prop_def(INTS)
    steps = prop_def(INTS)

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        x = operands[0]
        lists = [values["starts"], values["stops"], values["steps"]]
        if any(len(entry) != len(x) for entry in lists):
            raise ShapeError(f"expects {len(x)} starts, stops and steps")
        return [tuple(slice_extent(*bounds) for bounds in zip(x, *lists, strict=True))]


def _pad(op: Operation) -> IndexMap:
    from qdialect.algebra.qparams.maps import Pad

    v = values(op)
    return Pad(v["low"], v["high"], v["mode"], v["value"])


def _adds_nothing(op: Operation) -> bool:
    v = values(op)
    return not any((*v["low"], *v["high"]))


@nn_op(moves(_pad, _adds_nothing))
class PadOp(UnaryOp):
    """Adds `low` and `high` elements around each dimension.

    `mode`: constant (`value`, in real units), edge, reflect (border not repeated)
    or wrap.
    """

    name = "nn.pad"
    low = prop_def(INTS)
    high = prop_def(INTS)
    mode = prop_def(StringAttr, StringAttr("constant"))
    value = prop_def(REAL, real(0.0))

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        x, low, high = operands[0], values["low"], values["high"]
        if values["mode"] not in ("constant", "edge", "reflect", "wrap"):
            raise ShapeError(f"unknown mode '{values['mode']}'")
        if len(low) != len(x) or len(high) != len(x):
            raise ShapeError(f"expects {len(x)} paddings on each side")
        if min((0, *low, *high)) < 0:
            raise ShapeError("negative padding (use nn.slice)")
        if values["mode"] == "reflect" and any(
            n != DYNAMIC and max(a, b) >= max(n, 1) for n, a, b in zip(x, low, high, strict=True)
        ):
            raise ShapeError("reflection needs more elements than it adds")
        return [
            tuple(n if n == DYNAMIC else n + a + b for n, a, b in zip(x, low, high, strict=True))
        ]


# -- joins and repeats -------------------------------------------------------------


def join(op: Operation) -> IndexMap:
    """The index map of operands one after another along `axis`."""
    from qdialect.algebra.qparams.maps import Concat

    return Concat(axis_of(op))


def axis_of(op: Operation) -> int:
    """The property `axis`, counted from the first dimension of the first operand."""
    return values(op)["axis"] % max(len(shape_of(op.operands[0])), 1)


def _declare_concat(name: str) -> Behavior:
    return behaviors.Movement(
        name,
        (tied("inputs"),),
        (tied("result"),),
        variadic=True,
        movement=join,
        is_identity=lambda op: len(op.operands) == 1 and has_same_type(op),
        requantizes_inputs=True,
    )


@nn_op(_declare_concat, onnx=onnx("Concat", reads=False, axis=0))
class ConcatOp(NNOp):
    """Operands one after another along `axis`.

    On operands of unequal qparams: dequantize, concatenate, quantize half even.
    """

    name = "nn.concat"
    inputs = var_operand_def(TENSOR)
    result = result_def(TENSOR)
    axis = prop_def(IntegerAttr.constr(i64))
    traits = traits_def(Pure())

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        if not operands:
            raise ShapeError("expects at least one operand")
        first = operands[0]
        axis = normalize_axis(values["axis"], len(first))
        merged = list(first)
        for other in operands[1:]:
            if len(other) != len(first):
                raise ShapeError("operands differ in rank")
            for d, (a, b) in enumerate(zip(merged, other, strict=True)):
                if d == axis:
                    merged[d] = DYNAMIC if DYNAMIC in (a, b) else a + b
                elif DYNAMIC not in (a, b) and a != b:
                    raise ShapeError(f"operands differ in dimension {d}: {a} against {b}")
                else:
                    merged[d] = max(a, b)
        return [tuple(merged)]


def _expand(op: Operation) -> IndexMap:
    from qdialect.algebra.qparams.maps import Broadcast

    return Broadcast(shape_of(op.results[0]))


@nn_op(moves(_expand, _same_static_type))
class ExpandOp(UnaryOp):
    """Broadcast with `shape` as numpy does, aligned at the last dimension; an extent 1
    of `shape` keeps that of the input."""

    name = "nn.expand"
    shape = prop_def(INTS)

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        shape = tuple[int, ...](values["shape"])
        if min((0, *shape)) < 0:
            raise ShapeError(f"cannot expand to {list(shape)}")
        return [broadcast([operands[0], shape])]


class _Repeated(UnaryOp):
    """`repeats` lists one factor per dimension."""

    repeats = prop_def(INTS)

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        x, repeats = operands[0], values["repeats"]
        if len(repeats) != len(x):
            raise ShapeError(f"expects {len(x)} repeats, but got {len(repeats)}")
        if min((0, *repeats)) < 0:
            raise ShapeError(f"repeats must not be negative, but are {list(repeats)}")
        return [tuple(n if n == DYNAMIC else n * r for n, r in zip(x, repeats, strict=True))]


def _repeats_nothing(op: Operation) -> bool:
    return set(values(op)["repeats"]) <= {1}


def _tile(op: Operation) -> IndexMap:
    from qdialect.algebra.qparams.maps import Tile

    return Tile(values(op)["repeats"])


@nn_op(moves(_tile, _repeats_nothing))
class TileOp(_Repeated):
    """`repeats[d]` copies of the tensor along dimension d, one after the other."""

    name = "nn.tile"


def _repeat(op: Operation) -> IndexMap:
    from qdialect.algebra.qparams.maps import RepeatInterleave

    return RepeatInterleave(values(op)["repeats"])


@nn_op(moves(_repeat, _repeats_nothing))
class RepeatOp(_Repeated):
    """Every index of dimension d `repeats[d]` times in a row."""

    name = "nn.repeat"
