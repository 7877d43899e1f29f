"""The class of an op that has a row: xDSL's where it has one, else one made from the row.

xDSL's verifiers refuse some ops that upstream's accept (other element types, scalable vectors,
attributes that came later). For what is read, the class is therefore a subclass of xDSL's that
checks what the row says instead; `isinstance` and the names of operands are xDSL's. The ops of
`upstream.EXACT` keep xDSL's verifier, which is as upstream's there.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Mapping
from functools import cache
from math import prod
from typing import Any, cast

from xdsl.dialects.builtin import AnyFloat, IndexType, IntegerType, UnregisteredOp
from xdsl.ir import Attribute, Operation
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
from qdialect.plugins.mlir.upstream.shapes import element_or_self, fit, shape_of
from qdialect.plugins.mlir.upstream.states import inherent_as_attribute
from qdialect.plugins.mlir.upstream.table import Row, Value, find_row

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


# Rules of upstream's ops that ODS does not have: those its C++ verifiers check, in its words.
#
# 'arith.extsi' op operand type 'i32' and result type 'i16' are cast incompatible
# 'memref.load' op incorrect number of indices for load, expected 1 but got 2


def check(op: Operation) -> None:
    """VerifyException unless the rules of the op hold; there are some for few ops."""
    rule = _RULES.get(op.name)
    if rule is not None:
        rule(op)


def _width(kind: Attribute) -> int | None:
    """The bits of a number; None for an index or what is no number."""
    if isinstance(kind, IntegerType):
        return cast("IntegerType", kind).width.data
    return kind.bitwidth if isinstance(kind, AnyFloat) else None


def _cast(is_allowed: Callable[[Attribute, Attribute], bool]) -> Callable[[Operation], None]:
    def rule(op: Operation) -> None:
        source, result = op.operand_types[0], op.result_types[0]
        if not is_allowed(element_or_self(source), element_or_self(result)):
            raise VerifyException(
                f"operand type '{source}' and result type '{result}' are cast incompatible"
            )

    return rule


def _widens(source: Attribute, result: Attribute) -> bool:
    a, b = _width(source), _width(result)
    return a is None or b is None or a < b


def _narrows(source: Attribute, result: Attribute) -> bool:
    a, b = _width(source), _width(result)
    return a is None or b is None or a > b


def _keeps_bits(source: Attribute, result: Attribute) -> bool:
    a, b = _width(source), _width(result)
    if a is None or b is None:
        return isinstance(source, IndexType) == isinstance(result, IndexType)
    return a == b


def _has_one_index(source: Attribute, result: Attribute) -> bool:
    return isinstance(source, IndexType) != isinstance(result, IndexType)


def _reshapes(op: Operation) -> None:
    kinds = op.operand_types[0], op.result_types[0]
    _cast(lambda a, b: a == b and fit(*map(shape_of, kinds)))(op)


def _indices(operand: int, message: str) -> Callable[[Operation], None]:
    """As many indices behind an operand as it has dimensions."""

    def rule(op: Operation) -> None:
        shape = shape_of(op.operand_types[operand])
        count = len(op.operands) - operand - 1
        if shape is not None and count != len(shape):
            raise VerifyException(message.format(len(shape), count))

    return rule


def _sizes(before: int) -> Callable[[Operation], None]:
    """As many sizes as the result has dynamic dimensions, behind `before` operands."""

    def rule(op: Operation) -> None:
        shape = shape_of(op.result_types[0])
        count = len(op.operands) - before
        dynamic = None if shape is None else sum(extent < 0 for extent in shape)
        segments: Any = op.properties.get("operandSegmentSizes")
        if segments is not None:
            count = segments.get_values()[0]
        if dynamic is not None and count != dynamic:
            raise VerifyException(
                f"incorrect number of dynamic sizes, has {count}, expected {dynamic}"
            )

    return rule


def _same_elements(op: Operation) -> None:
    a, b = shape_of(op.operand_types[0]), shape_of(op.result_types[0])
    known = a is not None and b is not None and all(n >= 0 for n in (*a, *b))
    if known and prod(a or ()) != prod(b or ()):
        raise VerifyException(
            "source and destination tensor should have the same number of elements"
        )


def _concat(op: Operation) -> None:
    dimension = cast("Any", op.properties.get("dim"))
    shape = shape_of(op.result_types[0])
    if shape is not None and dimension is not None and dimension.value.data >= len(shape):
        raise VerifyException("concatenation dim must be less than the tensor rank")


def _generic(op: Operation) -> None:
    """Maps, operands and the body of `linalg.generic` agree."""
    listed: Any = op.properties["indexing_maps"]
    maps = [entry.data for entry in listed.data]
    count = len(op.operands)
    if len(maps) != count:
        raise VerifyException(
            f"expected the number of indexing_map ({len(maps)}) to be equal to the number of "
            f"input/output operands ({count})"
        )
    shapes = [shape_of(kind) or () for kind in op.operand_types]
    for index, (entry, shape) in enumerate(zip(maps, shapes, strict=True)):
        if len(entry.results) != len(shape):
            raise VerifyException(
                f"expected operand #{index} rank ({len(shape)}) to match the result rank of "
                f"indexing_map ({len(entry.results)})"
            )
    first = op.regions[0].first_block if op.regions else None
    if first is not None and len(first.args) != count:
        raise VerifyException(
            "expected as many non-induction variable region arguments as the number of "
            "input/output operands"
        )


_RULES: Mapping[str, Callable[[Operation], None]] = {
    **dict.fromkeys(("arith.extsi", "arith.extui", "arith.extf"), _cast(_widens)),
    **dict.fromkeys(("arith.trunci", "arith.truncf"), _cast(_narrows)),
    **dict.fromkeys(("arith.index_cast", "arith.index_castui"), _cast(_has_one_index)),
    "arith.bitcast": _cast(_keeps_bits),
    "tensor.cast": _reshapes,
    "memref.load": _indices(0, "incorrect number of indices for load, expected {0} but got {1}"),
    "memref.store": _indices(1, "store index operand count not equal to memref rank"),
    "tensor.extract": _indices(0, "incorrect number of indices for extract_element"),
    "tensor.insert": _indices(1, "incorrect number of indices"),
    "tensor.empty": _sizes(0),
    "tensor.splat": _sizes(1),
    "memref.alloc": _sizes(0),
    "memref.alloca": _sizes(0),
    "tensor.reshape": _same_elements,
    "tensor.concat": _concat,
    "linalg.generic": _generic,
}
