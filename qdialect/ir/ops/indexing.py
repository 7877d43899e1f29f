"""Movement ops that pick or place elements: split, gather, select, insert.

%y = nn.gather %x, %i axis 0 : (tensor<100x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import operand_def, prop_def, result_def, traits_def, var_result_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from qdialect.ir import behaviors
from qdialect.ir.ops.base import INTS, TENSOR, NNOp, Values, integer, shape_of, tensor_type
from qdialect.ir.ops.constants import inline_array
from qdialect.ir.ops.declare import nn_op, values
from qdialect.ir.ops.movement import axis_of, has_same_type, join, plain, tied
from qdialect.ir.ops.shapes import DYNAMIC, Shape, ShapeError, broadcast, normalize_axis

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.algebra.qparams.maps import IndexMap
    from qdialect.ir.behaviors import Behavior


def _split(op: Operation) -> Sequence[IndexMap]:
    from qdialect.algebra.qparams.maps import split

    return split(len(shape_of(op.operands[0])), axis_of(op), values(op)["sizes"])


def _is_only_part(op: Operation) -> bool:
    return len(op.results) == 1 and has_same_type(op)


def _declare_split(name: str) -> Behavior:
    return behaviors.Movement(
        name,
        (tied("input"),),
        (tied("parts"),),
        movement=_split,
        inverse_map=join,
        is_identity=_is_only_part,
    )


@nn_op(_declare_split)
class SplitOp(NNOp):
    """Result k holds `sizes[k]` indices of dimension `axis`, one part after the other."""

    name = "nn.split"
    input = operand_def(TENSOR)
    parts = var_result_def(TENSOR)
    axis = prop_def(IntegerAttr.constr(i64), integer(0))
    sizes = prop_def(INTS)
    traits = traits_def(Pure())

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        x, sizes = operands[0], values["sizes"]
        axis = normalize_axis(values["axis"], len(x))
        if not sizes or min(sizes) < 0:
            raise ShapeError(f"cannot split into sizes {list(sizes)}")
        if x[axis] not in (DYNAMIC, sum(sizes)):
            raise ShapeError(f"sizes {list(sizes)} do not add up to extent {x[axis]}")
        return [(*x[:axis], size, *x[axis + 1 :]) for size in sizes]


def _gather(op: Operation) -> IndexMap:
    from qdialect.algebra.qparams.maps import GatherDynamic

    indices = inline_array(op.operands[1])
    if indices is None:
        return GatherDynamic(axis_of(op), shape_of(op.operands[1]))
    return _gather_of(op, [indices])


def _gather_of(op: Operation, plain: Sequence[NDArray[Any]]) -> IndexMap:
    from qdialect.algebra.qparams.maps import Gather

    return Gather.of(axis_of(op), plain[0])


def _declare_gather(name: str) -> Behavior:
    return behaviors.Movement(
        name,
        (tied("input"), plain("indices")),
        (tied("result"),),
        movement=_gather,
        movement_of_values=_gather_of,
    )


@nn_op(_declare_gather)
class GatherOp(NNOp):
    """`numpy.take(input, indices, axis)`: the dimensions of `indices` replace `axis`.

    Negative indices count from the end; indices outside are an error at run time.
    """

    #: the verifier reads constant indices: they must be inside
    VERIFIES_TYPES_ONLY: ClassVar[bool] = False

    name = "nn.gather"
    input = operand_def(TENSOR)
    indices = operand_def(TENSOR)
    result = result_def(TENSOR)
    axis = prop_def(IntegerAttr.constr(i64), integer(0))
    traits = traits_def(Pure())

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        x, indices = operands
        axis = normalize_axis(values["axis"], len(x))
        return [(*x[:axis], *indices, *x[axis + 1 :])]

    def verify_(self) -> None:
        """Check what shapes and types alone do not say; VerifyException."""
        element = tensor_type(self.indices).element_type
        if not isinstance(element, IntegerType | IndexType):
            raise VerifyException(f"'{self.name}' op expects integer indices, but got {element}")
        super().verify_()
        self._verify_range()

    def _verify_range(self) -> None:
        known, shape = inline_array(self.indices), shape_of(self.input)
        axis = normalize_axis(self.values["axis"], len(shape)) if shape else 0
        size = shape[axis] if shape else DYNAMIC
        if known is None or known.size == 0 or size == DYNAMIC:
            return
        if not -size <= int(known.min()) <= int(known.max()) < size:
            raise VerifyException(
                f"'{self.name}' op has an index outside dimension {axis} of extent {size}"
            )


def _select(op: Operation) -> IndexMap:
    from qdialect.algebra.qparams.maps import Select

    return Select(shape_of(op.results[0]))


def _select_of(op: Operation, plain: Sequence[NDArray[Any]]) -> IndexMap:
    import numpy as np

    from qdialect.algebra.qparams.maps import Select

    shape = shape_of(op.results[0])
    return Select(shape, tuple(np.broadcast_to(plain[0], shape).reshape(-1).tolist()))


def _declare_select(name: str) -> Behavior:
    return behaviors.Movement(
        name,
        (plain("condition"), tied("lhs"), tied("rhs")),
        (tied("result"),),
        movement=_select,
        movement_of_values=_select_of,
    )


@nn_op(_declare_select)
class SelectOp(NNOp):
    """`condition ? lhs : rhs`, all three broadcast as in numpy (ONNX Where)."""

    name = "nn.select"
    condition = operand_def(TENSOR)
    lhs = operand_def(TENSOR)
    rhs = operand_def(TENSOR)
    result = result_def(TENSOR)
    traits = traits_def(Pure())

    def __init__(
        self,
        condition: SSAValue | Operation,
        lhs: SSAValue | Operation,
        rhs: SSAValue | Operation,
        *,
        result_types: Sequence[Attribute] | None = None,
        attributes: Mapping[str, Attribute] | None = None,
    ):
        element = tensor_type(SSAValue.get(lhs)).element_type
        super().__init__(
            condition,
            lhs,
            rhs,
            element=element,
            result_types=result_types,
            attributes=attributes,
        )

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        return [broadcast(operands)]

    def verify_(self) -> None:
        """Check what shapes and types alone do not say; VerifyException."""
        element = tensor_type(self.condition).element_type
        width = cast("IntegerType", element).width.data if isinstance(element, IntegerType) else 0
        if width != 1:
            raise VerifyException(f"'{self.name}' op expects an i1 condition, but got {element}")
        super().verify_()


def _insert(op: Operation) -> IndexMap:
    from qdialect.algebra.qparams.maps import Insert

    v = values(op)
    return Insert(v["starts"], v["steps"])


def _declare_insert(name: str) -> Behavior:
    return behaviors.Movement(
        name, (tied("input"), tied("update")), (tied("result"),), movement=_insert
    )


@nn_op(_declare_insert)
class InsertOp(NNOp):
    """`input` with `update` in place of input[starts + k * steps] (k < extent of `update`)
    in every dimension. Starts count from the front, steps are 1 or more."""

    name = "nn.insert"
    input = operand_def(TENSOR)
    update = operand_def(TENSOR)
    result = result_def(TENSOR)
    starts = prop_def(INTS)
    steps = prop_def(INTS)
    traits = traits_def(Pure())

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        x, update = operands
        starts, steps = values["starts"], values["steps"]
        if not len(x) == len(update) == len(starts) == len(steps):
            raise ShapeError(f"expects an update of rank {len(x)}, and as many starts and steps")
        if min((0, *starts)) < 0 or min((1, *steps)) < 1:
            raise ShapeError("expects starts from 0 and steps from 1")
        for d, (size, count, start, step) in enumerate(zip(x, update, starts, steps, strict=True)):
            end = start + (max(count, 1) - 1) * step + (count != 0)
            if size != DYNAMIC and end > size:
                raise ShapeError(f"the update ends at {end} of dimension {d} of extent {size}")
        return [x]
