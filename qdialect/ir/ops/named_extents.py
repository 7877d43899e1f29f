"""Symbolic extents of a module: their names, binding one to a number, and a number to price it as.

    func.func @f(%x: tensor<?x?xi64> {onnx.dims = ["batch", "sequence"]})

With `batch` bound to 1, `%x` is a `tensor<1x?xi64>`, and the ops' own shape inference takes the
number to all other types.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FunctionType,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from qdialect.errors import UsageError
from qdialect.ir.behaviors.shapes import DYNAMIC, Shape, shape_of
from qdialect.ir.dialects.interface import DIMS
from qdialect.ir.ops.base import NNOp, ranked
from qdialect.ir.ops.priced_shapes import PRICED_AS, SAME_SHAPE, argument_dims, argument_shapes
from qdialect.ir.ops.shapes import ShapeError


def extent_names(module: ModuleOp) -> list[str]:
    """The names of symbolic extents of arguments, in order."""
    found = [n for _, dims in _arguments(module) for n in dims if isinstance(n, str)]
    return list(dict.fromkeys(found))


def check_names(names: Iterable[str], known: Iterable[str]) -> None:
    """UsageError unless every name is one of a symbolic extent."""
    known = list(known)
    for name in names:
        if name not in known:
            shown = f"named are: {', '.join(known)}" if known else "none has a name"
            raise UsageError(f"no extent of the inputs is named '{name}'; {shown}")


def bind_extents(module: ModuleOp, numbers: Mapping[str, int]) -> None:
    """Give symbolic extents numbers; UsageError for an unknown name, or where they do not fit."""
    check_names(numbers, extent_names(module))
    for argument, dims in _arguments(module):
        shape = tuple(numbers.get(n, DYNAMIC) if isinstance(n, str) else n for n in dims)
        _refine(argument, shape)
        entries = [numbers.get(n, n) if isinstance(n, str) else n for n in dims]
        if any(isinstance(n, str) for n in dims):
            _set(argument, DIMS, ArrayAttr(map(_entry, entries)))
    for function in _functions(module):
        for op in function.body.block.ops:
            if isinstance(op, NNOp):
                try:
                    shapes = op.infer_results()
                except ShapeError as error:
                    raise UsageError(f"the extents do not fit '{op.name}': {error}") from None
            elif isinstance(op, SAME_SHAPE) and all(_has_shape(v) for v in _values(op)):
                shapes = [shape_of(op.operands[0])]
            else:
                continue
            for result, shape in zip(op.results, shapes, strict=True):
                _refine(result, shape)
        last = function.body.block.last_op
        if isinstance(last, ReturnOp):
            inputs = [a.type for a in function.body.block.args]
            function.function_type = FunctionType.from_lists(
                inputs, [v.type for v in last.operands]
            )


def price_extents(module: ModuleOp, numbers: Mapping[str, int]) -> None:
    """State what symbolic extents are to be priced as; UsageError for an unknown name."""
    check_names(numbers, extent_names(module))
    for argument, dims in _arguments(module):
        if not any(n in numbers for n in dims):
            continue
        usual = argument_shapes(argument.block)[argument.index]
        stated = [
            numbers.get(n, usual[d]) if isinstance(n, str) else usual[d] for d, n in enumerate(dims)
        ]
        _set(argument, PRICED_AS, DenseArrayBase.from_list(i64, stated))


def _functions(module: ModuleOp) -> Iterator[FuncOp]:
    return (op for op in module.ops if isinstance(op, FuncOp) and not op.is_declaration)


def _arguments(module: ModuleOp) -> Iterator[tuple[BlockArgument, list[int | str]]]:
    """The arguments of known rank, with numbers, names, and `DYNAMIC` for what has neither."""
    for function in _functions(module):
        block = function.body.block
        for argument, dims in zip(block.args, argument_dims(block), strict=True):
            if _has_shape(argument):
                yield argument, dims


def _values(op: Operation) -> list[SSAValue]:
    return [*op.operands, *op.results]


def _has_shape(value: SSAValue) -> bool:
    return isinstance(value.type, TensorType)


def _entry(extent: int | str) -> Attribute:
    return StringAttr(extent) if isinstance(extent, str) else IntegerAttr(extent, i64)


def _set(argument: BlockArgument, name: str, value: Attribute) -> None:
    function = cast("FuncOp", argument.block.parent_op())
    assert function.arg_attrs is not None
    entries = list(function.arg_attrs.data)
    entries[argument.index] = DictionaryAttr({**entries[argument.index].data, name: value})
    function.arg_attrs = ArrayAttr(entries)


def _refine(value: SSAValue, shape: Shape) -> None:
    """Fill in extents of a value's type that `shape` knows."""
    known = shape_of(value)
    filled = [m if n == DYNAMIC else n for n, m in zip(known, shape, strict=True)]
    kind = cast("TensorType[Attribute]", value.type)
    value._type = ranked(kind.element_type, filled)  # pyright: ignore[reportPrivateUsage]
