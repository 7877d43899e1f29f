"""The rules of modules, functions, returns and branches.

They stand in place of xDSL's verifiers of the same ops, which look up each called function in
the whole module and say less of what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from xdsl.dialects.builtin import DenseArrayBase, FunctionType, StringAttr, SymbolRefAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from qdialect.ir import quant
from qdialect.ir.verify.symbols import check_symbol


def _check_counts(op: Operation, regions: int) -> None:
    """VerifyException unless `op` has nothing but so many regions."""
    for word, parts, count in (
        ("operand", op.operands, 0),
        ("result", op.results, 0),
        ("successor", op.successors, 0),
        ("region", op.regions, regions),
    ):
        if len(parts) != count:
            raise VerifyException(f"expected {count} {word}s, but found {len(parts)}")


def _check_module(op: Operation) -> None:
    _check_counts(op, 1)
    region = op.regions[0]
    first = region.first_block
    if first is not region.last_block:
        raise VerifyException("expects one block in its region")
    if first is not None and first.args:
        raise VerifyException("region should have no arguments")
    name = op.properties.get("sym_name")
    if name is not None and not isinstance(name, StringAttr):
        raise VerifyException("attribute 'sym_name' failed to satisfy constraint: string attribute")
    if op.properties.get("sym_visibility") is not None:
        check_symbol(op)


def _check_function(op: Operation) -> None:
    _check_counts(op, 1)
    kind, name = op.properties.get("function_type"), op.properties.get("sym_name")
    if not isinstance(kind, FunctionType):
        raise VerifyException("requires a function type as attribute 'function_type'")
    if not isinstance(name, StringAttr):
        raise VerifyException("requires a string as attribute 'sym_name'")
    check_symbol(op)
    entry = op.regions[0].first_block
    if entry is None:
        visibility = op.properties.get("sym_visibility")
        if cast("StringAttr | None", visibility) is None or visibility == StringAttr("public"):
            raise VerifyException("symbol declaration cannot have public visibility")
        return
    inputs = kind.inputs.data
    if len(entry.args) != len(inputs):
        raise VerifyException(
            f"entry block must have {len(inputs)} arguments to match function signature"
        )
    for index, (argument, expected) in enumerate(zip(entry.args, inputs, strict=True)):
        if argument.type != expected:
            raise VerifyException(
                f"type of entry block argument #{index}('{argument.type}') must match the type of "
                f"the corresponding argument in function signature('{expected}')"
                f"{quant.difference(argument.type, expected)}"
            )


def _check_return(op: Operation) -> None:
    function = op.parent_op()
    if function is None or function.name != "func.func":
        raise VerifyException("expects parent op 'func.func'")
    kind = function.properties.get("function_type")
    if not isinstance(kind, FunctionType):
        return
    outputs, given = kind.outputs.data, op.operand_types
    name = cast("StringAttr", function.properties["sym_name"]).data
    if len(outputs) != len(given):
        raise VerifyException(
            f"has {len(given)} operands, but enclosing function (@{name}) returns {len(outputs)}"
        )
    for index, (operand, expected) in enumerate(zip(given, outputs, strict=True)):
        if operand != expected:
            raise VerifyException(
                f"operand #{index} has type '{operand}', but function @{name} returns '{expected}'"
                f"{quant.difference(operand, expected)}"
            )


def _check_call(op: Operation) -> None:
    callee = op.properties.get("callee")
    if not isinstance(callee, SymbolRefAttr) or callee.nested_references.data:
        raise VerifyException("requires the name of a function as attribute 'callee'")


def check_branch(op: Operation) -> None:
    """VerifyException unless what a branch hands on is what its blocks take."""
    for index, (block, values) in enumerate(_handed_on(op)):
        if len(block.args) != len(values):
            raise VerifyException(
                f"branch has {len(values)} operands for successor #{index}, but target block has "
                f"{len(block.args)}"
            )
        for number, (argument, value) in enumerate(zip(block.args, values, strict=True)):
            if argument.type != value.type:
                raise VerifyException(
                    f"type mismatch for bb argument #{number} of successor #{index}"
                    f"{quant.difference(argument.type, value.type)}"
                )


def _handed_on(op: Operation) -> list[tuple[Block, Sequence[SSAValue]]]:
    """Each successor of a branch of dialect cf, with the values that its arguments get."""
    operands, successors = list(op.operands), list(op.successors)
    if op.name == "cf.br":
        sizes = [len(operands)]
        first = 0
    else:
        segments = op.properties.get("operandSegmentSizes")
        if not isinstance(segments, DenseArrayBase):
            return []
        _, *sizes = cast("Sequence[int]", segments.get_values())
        first = 1
        if op.name == "cf.switch":
            cases = op.properties.get("case_operand_segments")
            if not isinstance(cases, DenseArrayBase):
                return []
            sizes = [sizes[0], *cast("Sequence[int]", cases.get_values())]
    found: list[tuple[Block, Sequence[SSAValue]]] = []
    for block, size in zip(successors, sizes, strict=False):
        found.append((block, operands[first : first + size]))
        first += size
    return found


IN_PLACE: Mapping[str, Callable[[Operation], None]] = {
    "builtin.module": _check_module,
    "func.func": _check_function,
    "func.return": _check_return,
    "func.call": _check_call,
}
"""By name of the op: what is checked in place of xDSL's verifier."""

BRANCHES = frozenset(("cf.br", "cf.cond_br", "cf.switch"))
"""Ops that `check_branch` knows."""
