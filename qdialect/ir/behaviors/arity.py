"""Whether a declaration has a port for everything its op takes and gives."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.irdl import OpDef, OptOperandDef, OptResultDef, VarOperandDef, VarResultDef

from qdialect.ir.behaviors.declaration import Behavior


def arity_problem(behavior: Behavior, definition: OpDef) -> str | None:
    """How `behavior` contradicts the definition of its op, or None."""
    operands = [d for _, d in definition.operands]
    many = any(isinstance(d, VarOperandDef) and not isinstance(d, OptOperandDef) for d in operands)
    ports = len(behavior.operands)
    if many and not behavior.variadic:
        return "the op takes any number of operands, but the declaration is not variadic"
    if behavior.variadic and not many:
        return f"the declaration is variadic, but the op takes {_counted(operands, 'operand')}"
    # The first of any number of operands may have ports of their own.
    if not many and ports != len(operands):
        return f"{_ports(ports)}, but the op takes {_counted(operands, 'operand')}"
    results = [d for _, d in definition.results]
    several = any(isinstance(d, VarResultDef) and not isinstance(d, OptResultDef) for d in results)
    given = len(behavior.results)
    if given > len(results) and not several:
        return f"{_ports(given, 'result ')}, but the op gives {_counted(results, 'result')}"
    return None


def _ports(count: int, side: str = "operand ") -> str:
    return f"{count} {side}port{'' if count == 1 else 's'}"


def _counted(definitions: Sequence[object], what: str) -> str:
    count = len(definitions)
    return f"{count} {what}{'' if count == 1 else 's'}"
