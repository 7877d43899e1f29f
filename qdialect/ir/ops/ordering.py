"""Ops whose results say how elements compare: compare, arg_max, arg_min, top_k.

    %y = nn.arg_max %x axis 1 : (tensor<1x10xf32>) -> tensor<1x1xi64>

On quantized tensors of one parameter field they compare codes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import BoolAttr, IntegerAttr, StringAttr, i1, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from qdialect.ir import behaviors
from qdialect.ir.ops.base import (
    FLAG,
    TENSOR,
    NNOp,
    Values,
    boolean,
    integer,
    ranked,
    shape_of,
    tensor_type,
)
from qdialect.ir.ops.declare import broadcasts, nn_op, values
from qdialect.ir.ops.shapes import DYNAMIC, Shape, ShapeError, broadcast, normalize_axis

if TYPE_CHECKING:
    from qdialect.algebra.qparams.maps import IndexMap
    from qdialect.ir.behaviors import Behavior

MODES = ("eq", "ne", "lt", "le", "gt", "ge")


def _axis(op: Operation) -> int:
    return normalize_axis(values(op)["axis"], len(shape_of(op.operands[0])))


def _others(op: Operation) -> frozenset[int]:
    return frozenset(range(len(shape_of(op.operands[0])))) - {_axis(op)}


def _expect(op: NNOp, index: int, element: Attribute) -> None:
    given = tensor_type(op.results[index]).element_type
    if given != element:
        raise VerifyException(f"'{op.name}' op gives {element}, not {given}")


def _declare_compare(name: str) -> Behavior:
    tied = behaviors.PortKind.TIED
    return behaviors.Comparison(
        name,
        (behaviors.Port("lhs", tied, axes=None), behaviors.Port("rhs", tied, axes=None)),
        (behaviors.Port("result", behaviors.PortKind.PLAIN),),
        operand_maps=broadcasts,
    )


@nn_op(_declare_compare)
class CompareOp(NNOp):
    """`lhs mode rhs`, broadcast as in numpy. A NaN equals nothing, itself included.

    Codes of equal qparams compare as the numbers they name.
    """

    name = "nn.compare"
    lhs = operand_def(TENSOR)
    rhs = operand_def(TENSOR)
    result = result_def(TENSOR)
    mode = prop_def(StringAttr)
    traits = traits_def(Pure())

    def __init__(
        self,
        lhs: SSAValue | Operation,
        rhs: SSAValue | Operation,
        mode: str,
        *,
        result_types: Sequence[Attribute] | None = None,
        attributes: Mapping[str, Attribute] | None = None,
    ):
        super().__init__(
            lhs, rhs, element=i1, result_types=result_types, attributes=attributes, mode=mode
        )

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        if values["mode"] not in MODES:
            raise ShapeError(f"unknown mode '{values['mode']}' (one of {', '.join(MODES)})")
        return [broadcast(operands)]

    def verify_(self) -> None:
        """Check what shapes and types alone do not say; VerifyException."""
        _expect(self, 0, i1)
        super().verify_()


def _rows(op: Operation) -> list[IndexMap]:
    from qdialect.algebra.qparams.maps import First

    return [First((_axis(op),), values(op)["keepdims"])]


def _declare_place(name: str) -> Behavior:
    return behaviors.Comparison(
        name,
        (behaviors.Port("input", behaviors.PortKind.TIED, axes=_others),),
        (behaviors.Port("result", behaviors.PortKind.PLAIN),),
        operand_maps=_rows,
    )


class ArgOp(NNOp):
    """Where along `axis` the extreme element is: the first of equal ones, or with `last` the
    last. The dimension stays with extent 1 or, without `keepdims`, is removed."""

    input = operand_def(TENSOR)
    result = result_def(TENSOR)
    axis = prop_def(IntegerAttr.constr(i64), integer(0))
    keepdims: BoolAttr = prop_def(FLAG, boolean(True))
    last: BoolAttr = prop_def(FLAG, boolean(False))
    traits = traits_def(Pure())

    def __init__(
        self,
        input: SSAValue | Operation,
        axis: int = 0,
        keepdims: bool = True,
        last: bool = False,
        *,
        result_types: Sequence[Attribute] | None = None,
        attributes: Mapping[str, Attribute] | None = None,
    ):
        super().__init__(
            input,
            element=i64,
            result_types=result_types,
            attributes=attributes,
            axis=axis,
            keepdims=keepdims,
            last=last,
        )

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        x = operands[0]
        axis = normalize_axis(values["axis"], len(x))
        if x[axis] == 0:
            raise ShapeError(f"cannot pick of dimension {axis} of extent 0")
        return [(*x[:axis], *((1,) if values["keepdims"] else ()), *x[axis + 1 :])]

    def verify_(self) -> None:
        """Check what shapes and types alone do not say; VerifyException."""
        _expect(self, 0, i64)
        super().verify_()


@nn_op(_declare_place)
class ArgMaxOp(ArgOp):
    """Where the largest element is."""

    name = "nn.arg_max"


@nn_op(_declare_place)
class ArgMinOp(ArgOp):
    """Where the smallest element is."""

    name = "nn.arg_min"


def _first_k(op: Operation) -> list[IndexMap]:
    from qdialect.algebra.qparams.maps import Slice

    return [Slice.along(len(shape_of(op.operands[0])), _axis(op), 0, values(op)["k"])]


def _declare_top_k(name: str) -> Behavior:
    return behaviors.Comparison(
        name,
        (behaviors.Port("input", behaviors.PortKind.TIED, axes=_others),),
        (
            behaviors.Port("result", behaviors.PortKind.TIED, axes=None),
            behaviors.Port("indices", behaviors.PortKind.PLAIN),
        ),
        operand_maps=_first_k,
    )


@nn_op(_declare_top_k)
class TopKOp(NNOp):
    """The `k` largest (or smallest) elements along `axis`, and where they are.

    Extreme ones come first, and of equal ones the first; without `sorted` a runtime may
    give them in another order.
    """

    name = "nn.top_k"
    input = operand_def(TENSOR)
    result = result_def(TENSOR)
    indices = result_def(TENSOR)
    k = prop_def(IntegerAttr.constr(i64))
    axis = prop_def(IntegerAttr.constr(i64), integer(-1))
    largest: BoolAttr = prop_def(FLAG, boolean(True))
    sorted: BoolAttr = prop_def(FLAG, boolean(True))
    traits = traits_def(Pure())

    def __init__(
        self,
        input: SSAValue | Operation,
        k: int,
        axis: int = -1,
        largest: bool = True,
        sorted: bool = True,
        *,
        result_types: Sequence[Attribute] | None = None,
        attributes: Mapping[str, Attribute] | None = None,
    ):
        value = SSAValue.get(input)
        if result_types is None:
            try:
                (shape, _) = self.infer([shape_of(value)], {"k": k, "axis": axis})
            except ShapeError as error:
                raise VerifyException(f"'{self.name}' op {error}") from None
            result_types = [ranked(tensor_type(value).element_type, shape), ranked(i64, shape)]
        super().__init__(
            value,
            result_types=result_types,
            attributes=attributes,
            k=k,
            axis=axis,
            largest=largest,
            sorted=sorted,
        )

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        x, k = operands[0], values["k"]
        axis = normalize_axis(values["axis"], len(x))
        if k < 0 or (x[axis] != DYNAMIC and k > x[axis]):
            raise ShapeError(f"cannot pick {k} of dimension {axis} of extent {x[axis]}")
        shape = (*x[:axis], k, *x[axis + 1 :])
        return [shape, shape]

    def verify_(self) -> None:
        """Check what shapes and types alone do not say; VerifyException."""
        _expect(self, 1, i64)
        super().verify_()
