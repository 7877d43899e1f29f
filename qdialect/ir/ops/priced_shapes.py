"""The shapes with which values of unknown extents are priced.

A price needs numbers where a type says `?`.  The arguments of a function get them: an unknown
extent counts as 1 in the first dimension (a batch) and as 128 in any other, and a symbolic name
(`onnx.dims`) as one number wherever it stands; `nn.priced_as` on an argument lists other numbers.
The ops' own shape inference takes them to all other values:

    func.func @f(%x: tensor<?x?x64xf32> {onnx.dims = ["batch", "sequence", 64]})
    %y = nn.reshape %x shape [0, 0, 4, 16] : ...     // priced as 1x128x4x16

Nothing but prices may depend on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from xdsl.dialects.builtin import (
    DenseArrayBase,
    StringAttr,
    TensorType,
    UnrealizedConversionCastOp,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from qdialect.ir.behaviors.shapes import DYNAMIC, Shape, shape_of
from qdialect.ir.dialects.interface import DIMS
from qdialect.ir.ops.base import NNOp, ranked
from qdialect.ir.ops.shapes import ShapeError
from qdialect.ir.quant import DCastOp, QCastOp, RescaleOp, SCastOp

#: extents of an argument to price with, on the argument: one number for each dimension
PRICED_AS = "nn.priced_as"
FIRST = 1
"""What an unknown extent of a first dimension is priced as."""
OTHER = 128
"""What any other unknown extent is priced as."""

SAME_SHAPE = (QCastOp, DCastOp, SCastOp, RescaleOp, UnrealizedConversionCastOp)
"""Ops whose result has the shape of their operand."""

_KEPT = "qdialect priced shape"


def priced_shape(value: SSAValue) -> Shape:
    """The extents of a tensor value, with numbers for unknown ones (see above)."""
    shape = shape_of(value)
    if DYNAMIC not in shape:
        return shape
    # Kept with the value: its shape at run time stays the same, whatever is rewritten.
    kept = vars(value)
    if _KEPT not in kept:
        _find(value)
    return cast("Shape", kept[_KEPT])


def priced_like(op: Operation) -> Operation:
    """An op like `op` on values of the shapes it is priced with; nothing reads or makes them."""
    operands = [_stand_in(v) for v in op.operands]
    results = [_stand_in(v).type for v in op.results]
    return type(op).create(
        operands=operands,
        result_types=results,
        properties=dict(op.properties),
        attributes=dict(op.attributes),
    )


def _stand_in(value: SSAValue) -> SSAValue:
    kind = value.type
    if DYNAMIC in shape_of(value):
        kind = ranked(cast("Any", kind).element_type, priced_shape(value))
    return Block(arg_types=[kind]).args[0]


def _find(value: SSAValue) -> None:
    """Infer the shape of `value`, of what it is made of first."""
    stack = [value]
    while stack:
        last = stack[-1]
        if not _is_open(last):
            stack.pop()
            continue
        owner = last.owner
        if isinstance(owner, Operation):
            above = [v for v in _sources(owner) if _is_open(v)]
            if above:
                stack.extend(above)
                continue
            for result, shape in zip(owner.results, _inferred(owner), strict=True):
                _keep(result, shape)
        else:
            for argument, shape in zip(owner.args, argument_shapes(owner), strict=True):
                _keep(argument, shape)


def _is_open(value: SSAValue) -> bool:
    return _has_shape(value) and DYNAMIC in shape_of(value) and _KEPT not in vars(value)


def _has_shape(value: SSAValue) -> bool:
    return isinstance(value.type, TensorType)


def _sources(op: Operation) -> list[SSAValue]:
    if isinstance(op, NNOp) and all(map(_has_shape, op.operands)):
        return list(op.operands)
    same = isinstance(op, SAME_SHAPE) and len(op.operands) == 1
    return list(op.operands) if same and _has_shape(op.operands[0]) else []


def _inferred(op: Operation) -> list[Shape | None]:
    sources = [priced_shape(v) for v in _sources(op)]
    nothing: list[Shape | None] = [None] * len(op.results)
    if not sources:
        return nothing
    if not isinstance(op, NNOp):
        return [sources[0]]
    try:
        found = op.infer_from(sources)
    except ShapeError:  # these numbers do not suit the op
        return nothing
    return list(found) if len(found) == len(op.results) else nothing


def _keep(value: SSAValue, inferred: Shape | None) -> None:
    if not _is_open(value):
        return
    shape = shape_of(value)
    if inferred is None or len(inferred) != len(shape):
        inferred = (DYNAMIC,) * len(shape)
    vars(value)[_KEPT] = tuple(
        n if n != DYNAMIC else m if m != DYNAMIC else usual(d)
        for d, (n, m) in enumerate(zip(shape, inferred, strict=True))
    )


def usual(dimension: int) -> int:
    """What an unknown extent of a dimension is priced as where nothing else tells."""
    return OTHER if dimension else FIRST


def argument_shapes(block: Block) -> list[Shape]:
    """The shapes that the arguments of a block are priced with; () where no rank is known."""
    named: dict[str, int] = {}
    stated = zip(argument_dims(block), _entries(block), strict=True)
    shapes = [_priced(dims, entry) for dims, entry in stated]
    for dims in shapes:
        for d, n in enumerate(dims):
            if isinstance(n, str):
                named[n] = max(named.get(n, 0), usual(d))
    return [
        tuple(named[n] if isinstance(n, str) else usual(d) if n == DYNAMIC else n for d, n in each)
        for each in map(enumerate, shapes)
    ]


def _entries(block: Block) -> list[Mapping[str, Any]]:
    function = block.parent_op()
    nothing: list[Mapping[str, Any]] = [{} for _ in block.args]
    if not isinstance(function, FuncOp) or function.arg_attrs is None:
        return nothing
    if block is not function.body.first_block or len(function.arg_attrs) != len(nothing):
        return nothing
    return [entry.data for entry in function.arg_attrs]


def argument_dims(block: Block) -> list[list[int | str]]:
    """The extents of each argument of a block: numbers, names, and `DYNAMIC` for what has
    neither; none where no rank is known."""
    return [_named(a, entry) for a, entry in zip(block.args, _entries(block), strict=True)]


def _priced(dims: list[int | str], entry: Mapping[str, Any]) -> list[int | str]:
    stated = entry.get(PRICED_AS)
    if isinstance(stated, DenseArrayBase):
        numbers = stated.get_values()
        if len(numbers) == len(dims) and min((1, *numbers)) > 0:
            return list(numbers)
    return dims


def _named(argument: SSAValue, entry: Mapping[str, Any]) -> list[int | str]:
    shape = shape_of(argument) if _has_shape(argument) else ()
    declared: tuple[Any, ...] = getattr(entry.get(DIMS), "data", ())
    if len(declared) != len(shape):
        return list(shape)
    return [
        name.data if n == DYNAMIC and isinstance(name, StringAttr) else n
        for n, name in zip(shape, declared, strict=True)
    ]
