"""Symbol tables: names are defined once, and what refers to one finds it.

A table is read once for all ops that refer to symbols in it:

    func.func private @f(i32)
    func.func private @f(i64)            redefinition of symbol named 'f'
    func.call @g() : () -> ()            'g' does not reference a valid function
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import cast

from xdsl.dialects.builtin import FunctionType, StringAttr, SymbolRefAttr
from xdsl.ir import Attribute, Operation
from xdsl.traits import SymbolTable
from xdsl.utils.exceptions import VerifyException

from qdialect.errors import InputError
from qdialect.ir import quant
from qdialect.ir.verify.reports import invalid, note

Symbols = Mapping[str, Operation]

_FUNCTIONS = frozenset(("func.func",))
_VISIBILITIES = ("public", "private", "nested")


def is_symbol_table(op: Operation) -> bool:
    """Whether `op` holds symbols."""
    return op.has_trait(SymbolTable, value_if_unregistered=False)


def symbol_errors(table: Operation) -> Iterator[InputError]:
    """What is wrong with the names in `table` and with the references to them."""
    if len(table.regions) != 1 or (block := table.regions[0].first_block) is None:
        return
    symbols: dict[str, Operation] = {}
    for op in block.ops:
        name = symbol_name(op)
        if name is None:
            continue
        if name in symbols:
            notes = (note(symbols[name], "see existing symbol definition here"),)
            yield invalid(op, f"redefinition of symbol named '{name}'", bare=True, notes=notes)
            return
        symbols[name] = op
    for user in _users(table):
        try:
            _USERS[user.name](user, symbols)
        except VerifyException as error:
            yield invalid(user, str(error))
            return


def symbol_name(op: Operation) -> str | None:
    """The name that `op` defines in the symbol table around it."""
    name = op.properties.get("sym_name") or op.attributes.get("sym_name")
    return name.data if isinstance(name, StringAttr) else None


def check_symbol(op: Operation) -> None:
    """VerifyException unless `op` may define a symbol where it is."""
    visibility = op.properties.get("sym_visibility")
    if visibility is not None:
        text = visibility.data if isinstance(visibility, StringAttr) else None
        if text is None:
            raise VerifyException(
                "attribute 'sym_visibility' failed to satisfy constraint: string attribute"
            )
        if text not in _VISIBILITIES:
            names = ", ".join(f'"{name}"' for name in _VISIBILITIES)
            raise VerifyException(f'visibility expected to be one of [{names}], but got "{text}"')
    parent = op.parent_op()
    if parent is not None and not parent.has_trait(SymbolTable):
        raise VerifyException("symbol's parent must have the SymbolTable trait")


def _users(table: Operation) -> Iterator[Operation]:
    """The ops in `table`, and in no table inside, that refer to symbols."""
    pending = [op for region in table.regions for block in region.blocks for op in block.ops]
    pending.reverse()
    while pending:
        op = pending.pop()
        if op.name in _USERS:
            yield op
        if op.regions and not is_symbol_table(op):
            inner = [op for region in op.regions for block in region.blocks for op in block.ops]
            pending.extend(reversed(inner))


def _reference(op: Operation, name: str) -> SymbolRefAttr | None:
    value = op.properties.get(name, op.attributes.get(name))
    return value if isinstance(value, SymbolRefAttr) else None


def _function(symbols: Symbols, reference: SymbolRefAttr) -> FunctionType | None:
    found = symbols.get(reference.string_value())
    if found is None or found.name not in _FUNCTIONS:
        return None
    kind = found.properties.get("function_type")
    return kind if isinstance(kind, FunctionType) else None


def _check_call(op: Operation, symbols: Symbols) -> None:
    callee = _reference(op, "callee")
    if callee is None:
        return
    name = callee.string_value()
    function = _function(symbols, callee)
    if function is None:
        raise VerifyException(f"'{name}' does not reference a valid function")
    for word, given, expected in (
        ("operand", op.operand_types, function.inputs.data),
        ("result", op.result_types, function.outputs.data),
    ):
        if len(given) != len(expected):
            raise VerifyException(
                f"has {len(given)} {word}s, but function @{name} has {len(expected)}"
            )
        for index, (kind, declared) in enumerate(zip(given, expected, strict=True)):
            if kind != declared:
                raise VerifyException(
                    f"{word} #{index} has type '{kind}', but function @{name} declares '{declared}'"
                    f"{quant.difference(kind, declared)}"
                )


def _check_constant(op: Operation, symbols: Symbols) -> None:
    reference = _reference(op, "value")
    if reference is None:
        return
    function = _function(symbols, reference)
    name = reference.string_value()
    if function is None:
        raise VerifyException(f"reference to undefined function '{name}'")
    if op.result_types and op.result_types[0] != cast("Attribute", function):
        raise VerifyException("reference to function with mismatched type")


def _check_global(op: Operation, symbols: Symbols) -> None:
    reference = _reference(op, "name")
    if reference is None:
        return
    name = reference.string_value()
    found = symbols.get(name)
    if found is None or found.name != "memref.global":
        raise VerifyException(f"'{name}' does not reference a valid global memref")
    kind = found.properties.get("type") or found.attributes.get("type")
    if op.result_types and kind is not None and op.result_types[0] != kind:
        raise VerifyException(
            f"result type '{op.result_types[0]}' does not match type '{kind}' of the global "
            f"memref @{name}"
        )


_USERS: Mapping[str, Callable[[Operation, Symbols], None]] = {
    "func.call": _check_call,
    "func.constant": _check_constant,
    "memref.get_global": _check_global,
}
