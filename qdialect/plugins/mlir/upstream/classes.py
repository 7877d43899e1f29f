"""The class of an op that has a row: xDSL's where it has one, else one made from the row.

xDSL's verifiers refuse some ops that upstream's accept (other element types, scalable vectors,
attributes that came later). For what is read, the class is therefore a subclass of xDSL's that
checks what the row says instead; `isinstance` and the names of operands are xDSL's. The ops of
`upstream.EXACT` keep xDSL's verifier, which is as upstream's there.
"""

from __future__ import annotations

import keyword
from functools import cache
from typing import Any, cast

from xdsl.dialects.builtin import UnregisteredOp
from xdsl.ir import Operation
from xdsl.irdl import (
    AnyAttr,
    AttrSizedOperandSegments,
    AttrSizedResultSegments,
    IRDLOperation,
    SameVariadicOperandSize,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    opt_result_def,
    prop_def,
    region_def,
    result_def,
    successor_def,
    traits_def,
    var_operand_def,
    var_region_def,
    var_result_def,
    var_successor_def,
)
from xdsl.traits import (
    ConstantLike,
    IsolatedFromAbove,
    IsTerminator,
    NoTerminator,
    Pure,
    RecursiveMemoryEffect,
    SymbolOpInterface,
    SymbolTable,
)
from xdsl.utils.exceptions import VerifyException

from qdialect.plugins.mlir.upstream.inference import check as infer
from qdialect.plugins.mlir.upstream.names import OTHER_DIALECTS
from qdialect.plugins.mlir.upstream.operand_types import check_types
from qdialect.plugins.mlir.upstream.states import inherent_as_attribute
from qdialect.plugins.mlir.upstream.table import Row, Value, find_row
from qdialect.plugins.mlir.upstream.verifiers import check

_TRAITS = {
    "terminator": IsTerminator,
    "isolated": IsolatedFromAbove,
    "symbol": SymbolOpInterface,
    "symbol-table": SymbolTable,
    "no-terminator": NoTerminator,
    "pure": Pure,
    "constant": ConstantLike,
    "recursive-effects": RecursiveMemoryEffect,
}
_OPERANDS = {"": operand_def, "?": opt_operand_def, "*": var_operand_def}
_RESULTS = {"": result_def, "?": opt_result_def, "*": var_result_def}


@cache
def op_class(name: str, base: type[Operation] | None) -> type[Operation] | None:
    """The class of an op; `base` is xDSL's class of this name, if it has one."""
    row = find_row(name)
    if row is None:
        return _unverified(name, base) if name.partition(".")[0] in OTHER_DIALECTS else base
    if base is None:
        return _made(row)
    inherent_as_attribute(base)
    return type(base.__name__, (base,), {"verify_": _verify, "__module__": base.__module__})


def _unverified(name: str, base: type[Operation] | None) -> type[Operation]:
    """The class of an op of upstream without a row, about which nobody here knows rules."""
    if base is None:
        return UnregisteredOp.with_name(name)
    return type(base.__name__, (base,), {"verify_": _accept, "__module__": base.__module__})


def _accept(op: Operation) -> None:
    """Any op is right."""


def _made(row: Row) -> type[Operation]:
    fields: dict[str, Any] = {"name": row.name, "__module__": __name__}
    for value in row.operands:
        fields[_field(value.name)] = _OPERANDS[value.repeat](AnyAttr())
    for value in row.results:
        fields[_field(value.name)] = _RESULTS[value.repeat](AnyAttr())
    for entry in row.properties.values():
        make = prop_def if entry.presence == "required" else opt_prop_def
        fields[_field(entry.name)] = make(AnyAttr(), prop_name=entry.name)
    for value in row.regions:
        fields[_field(value.name)] = (var_region_def if value.repeat else region_def)()
    for value in row.successors:
        fields[_field(value.name)] = (var_successor_def if value.repeat else successor_def)()
    options: list[Any] = []
    if "operand-segments" in row.traits:
        options.append(AttrSizedOperandSegments(as_property=True))
    elif sum(bool(value.repeat) for value in row.operands) > 1:
        options.append(SameVariadicOperandSize())
    if "result-segments" in row.traits:
        options.append(AttrSizedResultSegments(as_property=True))
    fields["irdl_options"] = tuple(options)
    fields["traits"] = traits_def(
        *(trait() for word, trait in _TRAITS.items() if word in row.traits)
    )
    title = "".join(part.capitalize() for part in row.name.split(".", 1)[1].split("_"))
    made: Any = irdl_op_definition(cast("Any", type(f"{title}Op", (IRDLOperation,), fields)))
    made.verify_ = _verify
    return made


def _field(name: str) -> str:
    """The name of an accessor, which must not be one of an op."""
    taken = hasattr(IRDLOperation, name) or keyword.iskeyword(name) or name in ("name", "traits")
    return f"{name}_" if taken else name


def _verify(op: Operation) -> None:
    """VerifyException unless `op` has as many parts as its row says, of the right types."""
    row = find_row(op.name)
    assert row is not None
    _verify_count(row.regions, len(op.regions), "region")
    _verify_count(row.results, len(op.results), "result")
    _verify_count(row.successors, len(op.successors), "successor")
    _verify_count(row.operands, len(op.operands), "operand")
    for entry in row.properties.values():
        if entry.presence != "required":
            continue
        if entry.name not in op.properties and entry.name not in op.attributes:
            raise VerifyException(f"requires attribute '{entry.name}'")
    named = check_types(op, row)
    check(op)
    infer(op, named)


def _verify_count(values: tuple[Value, ...], count: int, word: str) -> None:
    if count == len(values):
        return
    least = sum(not value.repeat for value in values)
    exact = least == len(values)
    if count < least or (exact and count > least):
        more = "" if exact else " or more"
        raise VerifyException(f"expected {least}{more} {word}s, but found {count}")
