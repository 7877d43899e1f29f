"""Ops whose results are copies of elements of their operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import BoolAttr, IndexType, IntegerAttr, IntegerType, StringAttr, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from qdialect.ops.base import (
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
from qdialect.ops.shapes import DYNAMIC, Shape, ShapeError, normalize_axis, reshape, slice_extent


@irdl_op_definition
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


def _is_ambiguous(shape: Shape) -> bool:
    """Whether the number of elements does not tell the dynamic extents."""
    unknown = shape.count(DYNAMIC)
    return unknown > 1 or (unknown == 1 and 0 in shape)


@irdl_op_definition
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
        element = tensor_type(self.shape).element_type
        if not isinstance(element, IntegerType | IndexType):
            raise VerifyException(
                f"'{self.name}' op expects a shape of integers, but got {element}"
            )
        super().verify_()


@irdl_op_definition
class FlattenOp(UnaryOp):
    """Two dimensions: those before `axis` and those from `axis` on."""

    name = "nn.flatten"
    axis = prop_def(IntegerAttr.constr(i64), IntegerAttr(1, i64))

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        x = operands[0]
        axis = normalize_axis(values["axis"], len(x), past_end=True)
        return [(_count(x[:axis]), _count(x[axis:]))]


@irdl_op_definition
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


@irdl_op_definition
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


@irdl_op_definition
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


@irdl_op_definition
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


def _count(shape: Shape) -> int:
    total = 1
    for extent in shape:
        if extent == DYNAMIC:
            return DYNAMIC
        total *= extent
    return total


OPS = [
    ReshapeOp,
    ReshapeToOp,
    FlattenOp,
    TransposeOp,
    SliceOp,
    PadOp,
    ConcatOp,
]
