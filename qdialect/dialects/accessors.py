"""Operands and results by name, read at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from xdsl.irdl import IRDLOperation, OperandDef, ResultDef

_Op = TypeVar("_Op", bound=IRDLOperation)


#: of a tuple, whatever its class makes of it
_item: Callable[[Any, int], Any] = cast("Any", tuple).__getitem__


def plain_accessors(cls: type[_Op]) -> type[_Op]:
    """An op definition whose operands and results are read where they are, if there is one
    of each: xDSL's own accessors look for the place each time, and passes ask for the operand
    of a cast more often than for anything else."""
    definition = cls.get_irdl_definition()
    if all(type(kind) is OperandDef for _, kind in definition.operands):
        for index, (name, _) in enumerate(definition.operands):
            setattr(cls, name, _operand(index))
    if all(type(kind) is ResultDef for _, kind in definition.results):
        for index, (name, _) in enumerate(definition.results):
            setattr(cls, name, _result(index))
    return cls


def _operand(index: int) -> Any:
    return property(lambda op: _item(op._operands, index))


def _result(index: int) -> Any:
    return property(lambda op: _item(op.results, index))
