"""Names of values as mlir-opt gives them when it prints.

Arguments of an entry block are `%arg0`, `%arg1`, ..; results of some ops have a name of
their own (`%cst`, `%c3_i32`, `%expanded`), which is made unique with `_0`, `_1`, ..;
all other values are numbered.  All ops of a region are numbered before the regions in
them.  In the custom form numbers go on from those of the region around; in the generic
form no number occurs twice, and regions are numbered last first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, cast

from xdsl.dialects.builtin import ArrayAttr, FusedLoc, IndexType, IntegerAttr, NameLoc
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from qdialect.plugins.mlir.write.style import PLAIN, Style

if TYPE_CHECKING:
    from xdsl.dialects.arith import ConstantOp
    from xdsl.dialects.linalg.ops import GenericOp


def _constant(op: Operation) -> str:
    value = cast("ConstantOp", op).value
    if not isinstance(value, IntegerAttr):
        return "cst"
    if isinstance(value.type, IndexType):
        return f"c{value.value.data}"
    if value.type.width.data == 1:
        return "true" if value.value.data else "false"
    return f"c{value.value.data}_{value.type}"


def _fixed(name: str) -> Callable[[Operation], str]:
    return lambda op: name


RESULT_NAMES: Mapping[str, Callable[[Operation], str]] = {
    "arith.constant": _constant,
    "func.constant": _fixed("f"),
    **{
        f"tensor.{op}": _fixed(name)
        for op, name in {
            "cast": "cast",
            "collapse_shape": "collapsed",
            "concat": "concat",
            "dim": "dim",
            "expand_shape": "expanded",
            "extract": "extracted",
            "extract_slice": "extracted_slice",
            "from_elements": "from_elements",
            "gather": "gather",
            "generate": "generated",
            "insert": "inserted",
            "insert_slice": "inserted_slice",
            "pad": "padded",
            "rank": "rank",
            "reshape": "reshape",
            "scatter": "scatter",
            "splat": "splat",
        }.items()
    },
    **{
        f"memref.{op}": _fixed(name)
        for op, name in {
            "alloc": "alloc",
            "alloca": "alloca",
            "cast": "cast",
            "collapse_shape": "collapse_shape",
            "dim": "dim",
            "expand_shape": "expand_shape",
            "reinterpret_cast": "reinterpret_cast",
            "reshape": "reshape",
            "subview": "subview",
        }.items()
    },
}
"""What upstream calls the result of an op, where it does not number it."""


class _Frame(NamedTuple):
    """A region to number next: the counters and names of the region around it."""

    region: Region
    values: int
    arguments: int
    conflicts: int
    used: frozenset[str]


def value_names(
    top: Operation,
    *,
    generic: bool,
    style: Style = PLAIN,
    ops: dict[Operation, str] | None = None,
) -> dict[SSAValue, str]:
    """The name of every value in `top`, without the percent sign.

    The second result of an op of two is `0#1`: a use, the definition being `%0:2`.  Where the
    style shows users, ops without results have numbers, too: these are put into `ops`.
    """
    numbering = _Numbering(generic, style, ops if style.value_users else None)
    if top.results or generic:
        numbering.operation(top)
    pending = numbering.inside(top)
    while pending:
        numbering.enter(pending.pop())
        region = numbering.number()
        for block in region.blocks:
            for op in block.ops:
                pending += numbering.inside(op)
    return numbering.names


class _Numbering:
    def __init__(self, generic: bool, style: Style, numbers: dict[Operation, str] | None) -> None:
        self.generic = generic
        self.style = style
        self.numbers = numbers
        self.names: dict[SSAValue, str] = {}
        self.values = self.arguments = self.conflicts = 0
        self.used: set[str] = set()
        self.region: Region | None = None

    def inside(self, op: Operation) -> list[_Frame]:
        """The regions of `op`, to be numbered from here."""
        if not op.regions:
            return []
        used = frozenset(self.used)
        return [
            _Frame(region, self.values, self.arguments, self.conflicts, used)
            for region in op.regions
        ]

    def enter(self, frame: _Frame) -> None:
        """Go on where the region around `frame` stopped."""
        self.region = frame.region
        self.used = set(frame.used)
        if not self.generic and not self.style.unique_names:
            self.values, self.arguments = frame.values, frame.arguments
            self.conflicts = frame.conflicts

    def number(self) -> Region:
        """Name the arguments of all blocks, and the results of their ops."""
        region = self.region
        assert region is not None
        parent = region.parent
        if parent is not None and parent.name == "linalg.generic" and not self.generic:
            inputs = len(cast("GenericOp", parent).inputs)
            for index, argument in enumerate(region.block.args):
                self._name(argument, "in" if index < inputs else "out")
        for index, block in enumerate(region.blocks):
            for argument in block.args:
                if argument in self.names:
                    continue
                located = self._located(argument.location)
                if located is not None:
                    self._name(argument, located)
                    self.arguments += index == 0
                elif index == 0:
                    self._name(argument, f"arg{self.arguments}")
                    self.arguments += 1
                else:
                    self._number([argument])
            for op in block.ops:
                self.operation(op)
        return region

    def operation(self, op: Operation) -> None:
        """Name the results of `op`."""
        if not op.results:
            if self.numbers is not None:
                self.numbers[op] = str(self.values)
                self.values += 1
            return
        located = self._located(op.location)
        if located is not None:
            self._name(op.results[0], located)
            if len(op.results) > 1:
                group = self.names[op.results[0]]
                self.names.update((r, f"{group}#{i}") for i, r in enumerate(op.results))
            return
        named = None if self.generic else RESULT_NAMES.get(op.name)
        if named is not None:
            self._name(op.results[0], named(op))
        else:
            self._number(op.results)

    def _located(self, location: Attribute) -> str | None:
        """The name that a location gives to a value, if the style asks for it."""
        if not self.style.names_by_location:
            return None
        pending: list[Attribute] = [location]
        while pending:
            current = pending.pop()
            if isinstance(current, NameLoc):
                return current.desc.data
            if isinstance(current, FusedLoc) and isinstance(current.locations, ArrayAttr):
                pending += reversed(cast("ArrayAttr[Attribute]", current.locations).data)
        return None

    def _number(self, values: list[SSAValue] | tuple[SSAValue, ...]) -> None:
        first = str(self.values)
        self.values += 1
        for index, value in enumerate(values):
            self.names[value] = f"{first}#{index}" if len(values) > 1 else first

    def _name(self, value: SSAValue, base: str) -> None:
        name = re.sub(r"[^\w$.-]", "_", base)
        while name in self.used:
            name = f"{base}_{self.conflicts}"
            self.conflicts += 1
        self.used.add(name)
        self.names[value] = name


class Users:
    """Comments that name the ops that use a value, as `--mlir-print-value-users` writes them."""

    def __init__(self, names: Mapping[SSAValue, str], numbers: Mapping[Operation, str]) -> None:
        self._names = names
        self._numbers = numbers

    def of_arguments(self, block: Block) -> list[str]:
        """A comment for each argument of a block."""
        lines: list[str] = []
        for argument in block.args:
            users = self._users(argument)
            what = f"is used by {', '.join(users)}" if users else "is unused"
            lines.append(f"// %{self._names[argument]} {what}")
        return lines

    def behind(self, op: Operation) -> str:
        """The comment behind an op."""
        results = op.results
        if not results:
            return f" // id: %{self._numbers[op]}" if op.operands else ""
        users = [self._users(result) for result in results]
        if not any(users):
            return " // unused"
        if len(results) == 1:
            plural = "s" if len(users[0]) > 1 else ""
            return f" // user{plural}: {', '.join(users[0])}"
        groups = [f"({', '.join(group) or 'unused'})" for group in users]
        return f" // users: {', '.join(groups)}"

    def _users(self, value: SSAValue) -> list[str]:
        """The names of the ops that use a value, the last first."""
        users = dict.fromkeys(use.operation for use in value.uses)
        return [f"%{self._of(user)}" for user in users]

    def _of(self, op: Operation) -> str:
        return self._names[op.results[0]].partition("#")[0] if op.results else self._numbers[op]
