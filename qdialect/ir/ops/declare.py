"""Registering an op of the `nn` dialect: one decorator gives it everything that is declared.

    @nn_op(function(_tanh, unit), onnx=onnx("Tanh"))
    class TanhOp(FunctionOp):
        name = "nn.tanh"

Passes read the behavior, the ONNX reader and writer the row, calibration and the lowering
of composites the pieces. All are made when somebody asks: an op that is only read and
printed imports none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation, irdl_op_definition

from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.dialects.construction import checked_construction

if TYPE_CHECKING:
    from qdialect.algebra.qparams.maps import IndexMap
    from qdialect.ir.behaviors import Behavior
    from qdialect.ir.behaviors.declaration import Gain
    from qdialect.ir.ops.components import Components

Declaration = Callable[[str], "Behavior"]
"""Makes the behavior of the op with a name."""

Op = TypeVar("Op", bound=type[IRDLOperation])


class OnnxRow(NamedTuple):
    """The ONNX op of the same meaning: operands in the same order, and attributes that have
    the names of properties, with ONNX's defaults.

    Without `reads` the importer has a function of its own for the ONNX op (it takes more
    forms than the op has), without `writes` the exporter has one for the op.
    """

    op_type: str
    operands: int = 1
    attributes: Mapping[str, Any] = MappingProxyType({})
    reads: bool = True
    writes: bool = True


def onnx(
    op_type: str, operands: int = 1, *, reads: bool = True, writes: bool = True, **attributes: Any
) -> OnnxRow:
    """A row; see `OnnxRow`."""
    return OnnxRow(op_type, operands, attributes, reads, writes)


class AtenRow(NamedTuple):
    """The PyTorch op of the same meaning: the names of the arguments that are its operands, in
    order, and by property the argument that says it and its default."""

    op: str
    operands: tuple[str, ...] = ("self",)
    attributes: Mapping[str, tuple[str, Any]] = MappingProxyType({})


def aten(op: str, *operands: str, **attributes: tuple[str, Any]) -> AtenRow:
    """A row; see `AtenRow`."""
    return AtenRow(op, operands or ("self",), attributes)


class Declared(NamedTuple):
    """What is declared of one op."""

    behavior: Declaration
    onnx: OnnxRow | None
    aten: AtenRow | None
    pieces: Callable[[], Components] | None


DECLARED: dict[str, Declared] = {}
"""By name, the ops whose files were imported."""


def nn_op(
    behavior: Declaration,
    *,
    onnx: OnnxRow | None = None,
    aten: AtenRow | None = None,
    pieces: Callable[[], Components] | None = None,
) -> Callable[[Op], Op]:
    """Define an op of the dialect: its behavior, the ops of ONNX and of PyTorch of the same
    meaning if there are such, and what it is made of if it is a composite."""

    def define(kind: Op) -> Op:
        DECLARED[kind.name] = Declared(behavior, onnx, aten, pieces)
        return checked_construction(irdl_op_definition(kind))

    return define


@cache
def behavior_of(name: str) -> Behavior:
    """The behavior of an `nn` op whose class exists."""
    return DECLARED[name].behavior(name)


@cache
def components_of(name: str) -> Components | None:
    """What an `nn` op whose class exists is made of, if it is a composite."""
    pieces = DECLARED[name].pieces
    return None if pieces is None else pieces()


def known_components() -> dict[str, Components]:
    """The composites among the ops whose files were imported, by name, and those that are
    pieces of these: to say what a composite is made of imports the ops of its pieces."""
    found: dict[str, Components | None] = {}
    while len(found) < len(DECLARED):
        found.update({name: components_of(name) for name in [*DECLARED] if name not in found})
    return {name: components for name, components in found.items() if components is not None}


# -- what declarations share -------------------------------------------------------------


def values(op: Operation) -> dict[str, Any]:
    """The properties of an `nn` op as Python values."""
    return cast("Any", op).values


def at_most(slope: float) -> Gain:
    """`Behavior.gain` of a function no steeper than `slope` anywhere."""
    return lambda op, operand, sizes: slope


unit = at_most(1.0)


def numbers_per_element(count: Callable[[Operation], int]) -> Callable[[Operation], int]:
    """`Behavior.work` of an op that takes `count` numbers for each element of its result."""
    return lambda op: prod(shape_of(op.results[0])) * count(op)


def broadcasts(op: Operation) -> Sequence[IndexMap]:
    """`Behavior.operand_maps` of an op that broadcasts as numpy does."""
    from qdialect.algebra.qparams.maps import Broadcast

    return [Broadcast(shape_of(op.results[0]))] * len(op.operands)
