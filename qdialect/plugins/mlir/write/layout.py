"""The layout of MLIR text: xDSL's printer, changed to write what mlir-opt writes.

`module {` and, in functions, `return` and `call` without the dialect; attributes in
the order of their names; integers of lists without the type i64; results of an op of
several as `%0:2`; the predecessors of a block as a comment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from typing_extensions import override
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FloatAttr,
    FunctionType,
    FusedLoc,
    IntegerAttr,
    ModuleOp,
    NoneAttr,
    UnitAttr,
    UnregisteredOp,
    f64,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.traits import IsolatedFromAbove, IsTerminator

from qdialect.errors import QError
from qdialect.ir.dialects.verbatim import range_of
from qdialect.ir.ops.locations import op_where
from qdialect.plugins.mlir.upstream import OTHER_DIALECTS, is_written, print_op
from qdialect.plugins.mlir.write.names import Users, value_names
from qdialect.plugins.mlir.write.resources import ResourcePrinter
from qdialect.plugins.mlir.write.style import PLAIN, Style

_FUNC_PROPERTIES = ("sym_name", "function_type", "sym_visibility", "arg_attrs", "res_attrs")


class LayoutPrinter(ResourcePrinter):
    """Prints in the layout of mlir-opt; values keep their names unless `name_values` is called."""

    style: Style = PLAIN

    def name_values(self, top: Operation) -> None:
        """Give the values in `top` the names that mlir-opt gives them."""
        numbers: dict[Operation, str] = {}
        names = value_names(top, generic=self.print_generic_format, style=self.style, ops=numbers)
        self.take_names(names, top)
        if self.style.value_users:
            self._users = Users(names, numbers)

    _users: Users | None = None

    def take_names(self, names: Mapping[SSAValue, str], top: Operation) -> None:
        """Use these names of values; the blocks in `top` are numbered in each region."""
        self._ssa_values.update(names)
        for op in top.walk():
            for region in op.regions:
                if region.first_block is not region.last_block:
                    for index, block in enumerate(region.blocks):
                        self._blocks[block] = f"bb{index}"

    # -- ops -----------------------------------------------------------------

    @override
    def print_op(self, op: Operation) -> None:
        """Write one op with its regions."""
        try:
            self._print_op(op)
        except QError as error:
            error.where = error.where or op_where(op)
            raise

    def _print_op(self, op: Operation) -> None:
        self._print_results(op)
        scope = op.has_trait(IsolatedFromAbove)
        if scope:
            self.enter_scope()
        if isinstance(op, UnregisteredOp):
            self._print_unregistered(op)
        elif self.print_generic_format or not self._has_custom_form(op):
            self.print_string(f'"{op.name}"')
            self.print_op_with_default_format(op)
        else:
            self.print_string(_elided(op))
            if isinstance(op, FuncOp):
                self._print_func(op)
            elif not print_op(op, self):
                op.print(self)
            if self.print_debuginfo:
                self.print_string(" ")
                self.print_attribute(op.location)
        if scope:
            self.exit_scope()

    def _has_custom_form(self, op: Operation) -> bool:
        if op.name.partition(".")[0] in OTHER_DIALECTS:
            return False  # what xDSL writes for them mlir-opt often refuses
        if isinstance(op, FuncOp):
            kinds = op.function_type
            return _annotate(op.properties.get("arg_attrs"), len(kinds.inputs)) and _annotate(
                op.properties.get("res_attrs"), len(kinds.outputs)
            )
        return Operation.print is not type(op).print or is_written(op)

    def _print_unregistered(self, op: UnregisteredOp) -> None:
        name = op.attributes.pop("op_name__")
        try:
            self.print_string(f'"{cast(Any, name).data}"')
            self.print_op_with_default_format(op)
        finally:
            op.attributes["op_name__"] = name

    @override
    def print_successors(self, successors: Sequence[Block]) -> None:
        """Write the blocks that an op in the generic form may go on with."""
        if successors:
            with self.in_square_brackets():
                self.print_list(successors, self.print_block_name)

    @override
    def _print_results(self, op: Operation) -> None:
        results = op.results
        if len(results) > 1 and "#" in self._ssa_values.get(results[0], ""):
            group = self._ssa_values[results[0]].partition("#")[0]
            self.print_string(f"%{group}:{len(results)} = ")
        else:
            super()._print_results(op)

    def _print_func(self, func: FuncOp) -> None:
        if func.sym_visibility:
            self.print_string(f" {func.sym_visibility.data}")
        self.print_string(" ")
        self.print_symbol_name(func.sym_name.data)
        kinds = func.function_type
        inputs = func.arg_attrs.data if func.arg_attrs else (None,) * len(kinds.inputs)
        outputs = func.res_attrs.data if func.res_attrs else (None,) * len(kinds.outputs)
        first = func.body.first_block
        with self.in_parens():
            if first is None:
                self.print_list(zip(kinds.inputs, inputs, strict=True), self._print_annotated)
            else:
                for index, argument in enumerate(first.args):
                    self.print_string(", " if index else "")
                    self.print_ssa_value(argument)
                    self.print_string(": ")
                    self._print_annotated((argument.type, inputs[index]))
                    if self.print_debuginfo:
                        self.print_string(" ")
                        self.print_attribute(argument.location)
        if outputs:
            self.print_string(" -> ")
            alone = len(outputs) == 1 and not outputs[0]
            bare = alone and not isinstance(kinds.outputs.data[0], FunctionType)
            self.print_string("" if bare else "(")
            self.print_list(zip(kinds.outputs, outputs, strict=True), self._print_annotated)
            self.print_string("" if bare else ")")
        self.print_op_attributes(
            {**func.properties, **func.attributes},
            reserved_attr_names=_FUNC_PROPERTIES,
            print_keyword=True,
        )
        if first is not None:
            self.print_string(" ")
            self.print_region(func.body, False, False)

    def _print_annotated(self, entry: tuple[Attribute, DictionaryAttr | None]) -> None:
        kind, attributes = entry
        self.print_attribute(kind)
        if attributes is not None:
            self.print_op_attributes(attributes.data)

    @override
    def print_block(
        self,
        block: Block,
        print_block_args: bool = True,
        print_block_terminator: bool = True,
    ) -> None:
        if print_block_args:
            self._print_new_line()
            if block not in self._blocks:
                self._populate_block_name(block)
            self.print_block_name(block)
            if block.args:
                with self.in_parens():
                    self.print_list(block.args, self.print_block_argument)
            self.print_string(":")
            self._print_predecessors(block)
        with self.indented():
            if self._users is not None:
                for line in self._users.of_arguments(block):
                    self._print_new_line()
                    self.print_string(line)
            for op in block.ops:
                if print_block_terminator or not op.has_trait(
                    IsTerminator, value_if_unregistered=False
                ):
                    self._print_new_line()
                    self.print_op(op)
                    if self._users is not None:
                        self.print_string(self._users.behind(op))

    @override
    def print_region(
        self,
        region: Region,
        print_entry_block_args: bool = True,
        print_empty_block: bool = True,
        print_block_terminators: bool = True,
    ) -> None:
        if self.style.skip_regions:
            self.print_string("{...}")
        else:
            super().print_region(
                region, print_entry_block_args, print_empty_block, print_block_terminators
            )

    def _print_predecessors(self, block: Block) -> None:
        region = block.parent
        if region is None or region.first_block is region.last_block:
            return
        before = [
            other
            for other in region.blocks
            if other.last_op is not None
            for successor in other.last_op.successors
            if successor is block
        ]
        if not before:
            if block is not region.first_block:
                self.print_string("  // no predecessors")
            return
        count = "pred" if len(before) == 1 else f"{len(before)} preds"
        self.print_string(f"  // {count}: ")
        self.print_list(before, self.print_block_name)

    # -- attributes ----------------------------------------------------------

    @override
    def print_attr_dict(self, attr_dict: Mapping[str, Attribute]) -> None:
        """Write an attribute dictionary."""
        with self.in_braces():
            self.print_list(sorted(attr_dict.items()), self._print_entry)

    def _print_entry(self, entry: tuple[str, Attribute]) -> None:
        self.print_identifier_or_string_literal(entry[0])
        if not isinstance(entry[1], UnitAttr):
            self.print_string(" = ")
            self.print_attribute(entry[1])

    @override
    def print_attribute(self, attribute: Attribute) -> None:
        """Write an attribute, spelled as MLIR reads it."""
        if isinstance(attribute, ArrayAttr):
            with self.in_square_brackets():
                self.print_list(
                    cast("ArrayAttr[Attribute]", attribute).data, self._print_element_of_list
                )
        elif isinstance(attribute, FusedLoc) and not isinstance(attribute.metadata, NoneAttr):
            self._print_fused(attribute)
        else:
            super().print_attribute(attribute)

    def _print_fused(self, location: FusedLoc) -> None:
        """`loc(fused<"metadata">["a", "b"])`, or a range, `loc("a.py":1:2 to 3:4)`; a location in
        the metadata has its own `loc`."""
        with self.in_location():
            ends = range_of(location)
            if ends is not None:
                start, end = ends
                self.print_attribute(start)
                line = "" if end.line == start.line else end.line.data
                self.print_string(f" to {line}:{end.column.data}")
                return
            self.print_string("fused<")
            self.printing_location = False
            self.print_attribute(location.metadata)
            self.printing_location = True
            self.print_string(">")
            self.print_attribute(location.locations)

    def _print_element_of_list(self, attribute: Attribute) -> None:
        if isinstance(attribute, IntegerAttr) and _type_of(attribute) == i64:
            self.print_int(cast("IntegerAttr[Any]", attribute).value.data)
        elif isinstance(attribute, FloatAttr) and _type_of(attribute) == f64:
            self.print_float(cast("FloatAttr[Any]", attribute).value.data, f64)
        else:
            self.print_attribute(cast(Attribute, attribute))


def _annotate(attributes: Attribute | None, count: int) -> bool:
    """Whether these are the attributes of so many arguments or results, or none."""
    if attributes is None:
        return True
    entries = (
        cast("ArrayAttr[Attribute]", attributes).data if isinstance(attributes, ArrayAttr) else ()
    )
    return len(entries) == count and all(isinstance(entry, DictionaryAttr) for entry in entries)


def _type_of(attribute: Any) -> Attribute:
    return attribute.type


def _elided(op: Operation) -> str:
    """The name of an op, without the dialect that is the default in its region."""
    parent = op.parent_op()
    dialect, _, rest = op.name.partition(".")
    if parent is None or isinstance(parent, ModuleOp):
        default = "builtin"
    else:
        default = "func" if isinstance(parent, FuncOp) else ""
    return rest if dialect == default and "." not in rest else op.name
