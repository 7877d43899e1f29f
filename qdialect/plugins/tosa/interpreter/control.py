"""Ops of TOSA that run regions or keep state: they need more than their operands.

A variable has its initial value when a function is run from outside, and what was written last
until that run ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Protocol

import numpy as np
from xdsl.ir import Operation, Region

from qdialect.errors import InputError
from qdialect.interpreter.values import Array, Evaluation, place
from qdialect.ir.dialects.attributes import attribute, required
from qdialect.plugins.tosa.interpreter.values import elements


class Machine(Protocol):
    """What runs the ops around."""

    @property
    def evaluation(self) -> Evaluation:
        """What kernels may use."""
        ...

    @property
    def variables(self) -> MutableMapping[str, Array]:
        """What was written to variables, by name."""
        ...

    def region(self, region: Region, arguments: Sequence[Array]) -> list[Array]:
        """What the one block of a region yields."""
        ...

    def symbol(self, name: str) -> Operation | None:
        """The op of the module with this symbol name."""
        ...


Structured = Callable[[Operation, Sequence[Array], Machine], Sequence[Array]]


def _cond_if(op: Operation, operands: Sequence[Array], machine: Machine) -> Sequence[Array]:
    """The first region if the condition holds, else the second, with the other operands."""
    condition, *arguments = operands
    chosen = op.regions[0 if condition.reshape(-1)[0] else 1]
    return machine.region(chosen, arguments)


def _while_loop(op: Operation, operands: Sequence[Array], machine: Machine) -> Sequence[Array]:
    """The second region on its own results, as long as the first yields true."""
    values = list(operands)
    condition, body = op.regions
    while machine.region(condition, values)[0].reshape(-1)[0]:
        values = machine.region(body, values)
    return values


def _name(op: Operation) -> str:
    found = required(op, "name")
    data: object = getattr(found, "data", None)
    return data if isinstance(data, str) else str(found).strip('@"')


def _read(op: Operation, operands: Sequence[Array], machine: Machine) -> Sequence[Array]:
    name = _name(op)
    if name not in machine.variables:
        variable = machine.symbol(name)
        if variable is None:
            raise InputError(f"no variable '{name}'", where=place(op), code="no-variable")
        kind = op.results[0].type
        if attribute(variable, "initial_value") is None:
            return [
                np.zeros(
                    [int(n) for n in _shape(variable, machine)], machine.evaluation.dtype(kind)
                )
            ]
        return [elements(variable, "initial_value", machine.evaluation)]
    return [machine.variables[name]]


def _shape(variable: Operation, machine: Machine) -> Sequence[int]:
    """The extents of a variable without an initial value, which is all zeros; one of -1 (a
    scalar's are none)."""
    return elements(variable, "var_shape", machine.evaluation).reshape(-1).tolist()


def _write(op: Operation, operands: Sequence[Array], machine: Machine) -> Sequence[Array]:
    name = _name(op)
    if machine.symbol(name) is None:
        raise InputError(f"no variable '{name}'", where=place(op), code="no-variable")
    machine.variables[name] = operands[0]
    return []


STRUCTURED: Mapping[str, Structured] = {
    "tosa.cond_if": _cond_if,
    "tosa.while_loop": _while_loop,
    "tosa.variable_read": _read,
    "tosa.variable_write": _write,
}

YIELD = "tosa.yield"
