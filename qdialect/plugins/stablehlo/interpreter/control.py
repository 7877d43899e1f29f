"""Branches, loops, tuples and tokens of StableHLO.

A token is an array of nothing; a tuple is an array of objects.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import StringAttr, SymbolRefAttr

from qdialect.errors import UnsupportedError
from qdialect.interpreter.values import Array
from qdialect.plugins.stablehlo.interpreter.call import Call, Function
from qdialect.plugins.stablehlo.interpreter.checks import FUNCTIONS as CHECKS
from qdialect.plugins.stablehlo.interpreter.checks import is_near

_MOST_STEPS = 10_000_000
"""Steps after which a loop is taken for one that does not end."""


def _if(call: Call, operands: Sequence[Array]) -> Sequence[Array]:
    return call.run(call.op.regions[0 if operands[0] else 1], [])


def _case(call: Call, operands: Sequence[Array]) -> Sequence[Array]:
    index, count = int(operands[0]), len(call.op.regions)
    return call.run(call.op.regions[index if 0 <= index < count else count - 1], [])


def _while(call: Call, operands: Sequence[Array]) -> Sequence[Array]:
    condition, body = call.op.regions
    values: Sequence[Array] = operands
    for _ in range(_MOST_STEPS):
        if not call.run(condition, values)[0]:
            return values
        values = call.run(body, values)
    raise UnsupportedError(f"'{call.name}' does not end within {_MOST_STEPS} steps")


def _same(call: Call, operands: Sequence[Array]) -> Sequence[Array]:
    return list(operands)


def _token(call: Call, operands: Sequence[Array]) -> list[Array]:
    return [np.zeros(0, np.bool_)]


def _tuple(call: Call, operands: Sequence[Array]) -> list[Array]:
    members = np.empty(len(operands), object)
    for place, value in enumerate(operands):
        members[place] = value
    return [members]


def _member(call: Call, operands: Sequence[Array]) -> list[Array]:
    return [operands[0][call.integer("index")]]


def _custom(call: Call, operands: Sequence[Array]) -> Sequence[Array]:
    """The calls that StableHLO's tests check results with; `check.eq` gives whether it holds."""
    target = call.attribute("call_target_name")
    name = target.data if isinstance(target, StringAttr) else str(target).strip('@"')
    if name == "check.eq":
        return [np.array(is_near(call, operands))]
    check = CHECKS.get(name.removeprefix("check.")) if name.startswith("check.") else None
    if check is None:
        raise UnsupportedError(f"'{call.name}' calls {name}, which only its target knows")
    return check(call, operands)


def _identity(call: Call, operands: Sequence[Array]) -> list[Array]:
    return [np.zeros((), call.dtype)]


def _composite(call: Call, operands: Sequence[Array]) -> Sequence[Array]:
    name = call.require("decomposition")
    if not isinstance(name, SymbolRefAttr):
        raise UnsupportedError(f"'{call.name}' has no decomposition")
    return call.runner.call(name.string_value(), operands)


FUNCTIONS: dict[str, Function] = {
    "after_all": _token,
    "case": _case,
    "composite": _composite,
    "create_token": _token,
    "custom_call": _custom,
    "get_tuple_element": _member,
    "if": _if,
    "optimization_barrier": _same,
    "partition_id": _identity,
    "replica_id": _identity,
    "tuple": _tuple,
    "while": _while,
}
"""By name, without the dialect."""
