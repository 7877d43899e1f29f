"""What each op of a quantized model makes of the float model's own values: what it loses alone.

The error of a value is what is lost at its op, and what came in with its operands. To tell them
apart every value that both models have is an argument of a clone of the second, which takes it as
the first has it, in the type that the second gives it, and returns what its ops make of these:

    %0 = nn.conv2d(%x, %w)                      (%x, %a)
    %1 = quant.qcast %0                  ->     %0 = nn.conv2d(%x, %w)
    %2 = nn.relu(%1)                            %1 = quant.qcast %a
                                                %2 = nn.relu(%1)          return %0, %2

So the rounding of a value counts where it is read: it is that of the relu here, and twice where
two ops read it. One run gives all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.errors import UsageError
from qdialect.interpreter import Interpreter, argument_names
from qdialect.interpreter.machine import ARGUMENT_NAME
from qdialect.interpreter.values import runtime_dtype
from qdialect.ir.dialects.interface import DIMS
from qdialect.ir.quant import DCastOp, QCastOp, expressed_type, quant_element, with_element
from qdialect.workflows.compare_values import (
    Inputs,
    KeyedValue,
    Returned,
    keyed_value,
    pairs_of,
    returning,
)
from qdialect.workflows.model import Model
from qdialect.workflows.run import open_engine

if TYPE_CHECKING:
    from qdialect.workflows.run import Run


_Place = tuple[tuple[str, ...], int]
"""Of a value: the keys of its op, and which result it is."""

ENGINES = ("numpy", "onnxruntime")
"""Those that take casts between floats and codes anywhere."""


@dataclass
class Alone:
    """The ops of `model`, each on what another model's values are."""

    model: Model
    engine: str
    _opened: _Opened | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """UsageError for an engine that cannot do it."""
        if self.engine not in ENGINES:
            raise UsageError(f"ops run alone in {' or '.join(ENGINES)}, not in {self.engine}")

    def values(
        self, first: Sequence[KeyedValue], second: Sequence[KeyedValue], inputs: Inputs
    ) -> list[KeyedValue]:
        """What the ops of the model, whose values on `inputs` are `second`, make of `first`."""
        pairs = {(other.keys, other.index): one for _, one, other in pairs_of(first, second)}
        if self._opened is None:
            self._opened = _open(self.model, self.engine, pairs)
        opened = self._opened
        given = {
            name: pairs[place].reals.astype(opened.kinds[place])
            for place, name in opened.arguments.items()
        }
        results = list(opened.run({**inputs, **given}).values())
        found = results[len(results) - len(opened.returned) :]
        return [
            keyed_value(entry.keys, entry.index, entry.kind, array.astype("f8"))
            for entry, array in zip(opened.returned, found, strict=True)
        ]


@dataclass(frozen=True)
class _Opened:
    """A clone that takes values: by place of a value its argument, and type of its numbers."""

    run: Run
    returned: Sequence[Returned]
    arguments: dict[_Place, str]
    kinds: dict[_Place, np.dtype[Any]]


def _open(model: Model, engine: str, requested: Collection[_Place]) -> _Opened:
    """A clone of `model` that takes the values at these places instead of its own."""
    module, returned = returning(model, with_casts=True)
    function = Interpreter(model.ctx, module).function()
    block = function.body.block
    first = block.first_op
    assert first is not None
    names = argument_names(function)
    arguments: dict[_Place, str] = {}
    kinds: dict[_Place, np.dtype[Any]] = {}
    # Of several that an op became the last is the op's.
    places = {(entry.keys, entry.index): entry for entry in returned}
    for number, (place, entry) in enumerate(places.items()):
        value: SSAValue = entry.op.results[entry.index]
        readers = [use for use in value.uses if not _is_answer(use.operation)]
        if place not in requested or not readers or entry.kind != value.type:
            continue
        kind = _float_type(value.type)
        taken: SSAValue = block.insert_arg(kind, len(block.args))
        if kind != value.type:
            cast = QCastOp(taken, value.type)
            block.insert_op_before(cast, first)
            taken = cast.result
        for use in readers:
            use.operation.operands[use.index] = taken
        name = f"read {number}"
        arguments[place], kinds[place] = name, runtime_dtype(kind)
        names.append(name)
    function.update_function_type()
    notes = [DictionaryAttr({ARGUMENT_NAME: StringAttr(name)}) for name in names]
    function.arg_attrs = ArrayAttr(notes)
    function.attributes.pop(DIMS, None)
    return _Opened(open_engine(Model(module, model.ctx), engine), returned, arguments, kinds)


def _is_answer(op: Operation) -> bool:
    """Whether an op only returns its operand, at most as floats."""
    if isinstance(op, DCastOp):
        return all(isinstance(use.operation, ReturnOp) for use in op.result.uses)
    return isinstance(op, ReturnOp)


def _float_type(kind: Attribute) -> Attribute:
    """The type of the numbers that a value of `kind` means."""
    element = quant_element(kind)
    return kind if element is None else with_element(kind, expressed_type(element.qparams))
