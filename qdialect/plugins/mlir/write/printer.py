"""The printer of MLIR text: writes what mlir-opt writes, with exact literals.

Float literals read back as the same bits, a dense attribute is a splat only if its bits are,
and large dense attributes are hexadecimal. `layout.LayoutPrinter`, the base, has the layout.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Container, Mapping, Sequence
from functools import lru_cache
from io import StringIO
from typing import IO, TYPE_CHECKING, Any, NamedTuple, cast

from typing_extensions import override
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    ArrayAttr,
    BytesAttr,
    ComplexType,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FloatAttr,
    FunctionType,
    FusedLoc,
    IndexType,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    NameLoc,
    NoneAttr,
    TensorType,
    UnitAttr,
    UnregisteredOp,
    f64,
    i1,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.traits import IsolatedFromAbove, IsTerminator

from qdialect.algebra.float_text import FORMATS, float_text
from qdialect.errors import QError
from qdialect.ir.context import QContext
from qdialect.ir.dialects.verbatim import range_of
from qdialect.ir.ops.locations import op_where
from qdialect.plugins.mlir.upstream import OTHER_DIALECTS, is_written, print_op
from qdialect.plugins.mlir.write.resources import ResourcePrinter
from qdialect.plugins.mlir.write.style import PLAIN, Style

if TYPE_CHECKING:
    from xdsl.dialects.arith import ConstantOp
    from xdsl.dialects.linalg.ops import GenericOp

    from qdialect.ir.ops.constants import BlobAttr
    from qdialect.ir.quant.types import UniformType

# The layout of MLIR text: xDSL's printer, changed to write what mlir-opt writes.
#
# `module {` and, in functions, `return` and `call` without the dialect; attributes in
# the order of their names; integers of lists without the type i64; results of an op of
# several as `%0:2`; the predecessors of a block as a comment.

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


# Names of values as mlir-opt gives them when it prints.
#
# Arguments of an entry block are `%arg0`, `%arg1`, ..; results of some ops have a name of
# their own (`%cst`, `%c3_i32`, `%expanded`), which is made unique with `_0`, `_1`, ..;
# all other values are numbered.  All ops of a region are numbered before the regions in
# them.  In the custom form numbers go on from those of the region around; in the generic
# form no number occurs twice, and regions are numbered last first.


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


#: the name of `nn.constants.BlobAttr`
BLOB = "nn.blob"

#: the name of `ir.quant.types.UniformType`
UNIFORM = "quant.uniform"


class MLIRPrinter(LayoutPrinter):
    """Prints to `stream`.

    With `external`, weights whose key is not in it are written out as `dense`, with data from
    the store of `ctx`.
    """

    def __init__(
        self,
        stream: IO[str] | None = None,
        *,
        ctx: QContext | None = None,
        external: Container[str] | None = None,
        style: Style = PLAIN,
        print_generic_format: bool = False,
        print_debuginfo: bool = False,
    ) -> None:
        super().__init__(
            stream, print_generic_format=print_generic_format, print_debuginfo=print_debuginfo
        )
        self.style = style
        self.ctx = ctx
        self.external = external
        #: texts of types by `id` of the type, which the entry refers to so that the `id` stays
        #: unique
        self._types: dict[int, tuple[Attribute, str]] = {}

    @override
    def print_string(self, text: str, *, indent: int | None = None) -> None:
        if self.stream is None or "\n" in text:
            super().print_string(text, indent=indent)
        else:
            self._current_column += len(text)
            self.stream.write(text)

    @override
    def _print_new_line(self, indent: int | None = None, print_message: bool = True) -> None:
        if self.stream is None or self._next_line_callback:
            super()._print_new_line(indent, print_message)
        else:
            self._current_line += 1
            self._current_column = self.indent_num_spaces * (
                self._indent if indent is None else indent
            )
            self.stream.write("\n" + " " * self._current_column)

    def _captured(self, write: Callable[[], object]) -> str:
        """What `write` prints."""
        stream, column = self.stream, self._current_column
        self.stream = StringIO()
        try:
            write()
            return self.stream.getvalue()
        finally:
            self.stream, self._current_column = stream, column

    def _type_text(self, kind: Attribute) -> str:
        known = self._types.get(id(kind))
        if known is not None:
            return known[1]
        if type(kind) is TensorType:
            text = self._tensor_text(kind)
        elif kind.name == UNIFORM:
            text = f"!{UNIFORM}{cast('UniformType', kind).text}"
        else:
            text = self._captured(lambda: super(MLIRPrinter, self).print_attribute(kind))
        self._types[id(kind)] = kind, text
        return text

    def _tensor_text(self, kind: TensorType[Attribute]) -> str:
        dimensions = [
            "?x" if extent.data == DYNAMIC_INDEX else f"{extent.data}x" for extent in kind.shape
        ]
        encoding = ""
        if type(kind.encoding) is not NoneAttr:
            encoding = ", " + self._captured(lambda: self.print_attribute(kind.encoding))
        return f"tensor<{''.join(dimensions)}{self._type_text(kind.element_type)}{encoding}>"

    # -- attributes ----------------------------------------------------------

    @override
    def print_attribute(self, attribute: Attribute) -> None:
        """Write an attribute, spelled as MLIR reads it."""
        plain: Attribute = attribute
        if self.stream is not None and isinstance(attribute, TensorType):
            # The texts are cached, as models repeat a few types.
            self.print_string(self._type_text(cast("TensorType[Any]", attribute)))
        elif isinstance(attribute, DenseIntOrFPElementsAttr):
            self.print_string(self._dense_text(cast("DenseIntOrFPElementsAttr[Any]", attribute)))
        elif attribute.name == BLOB and self._is_inline(cast("BlobAttr", plain).key.data):
            assert self.ctx is not None
            data = self.ctx.blobs.get(cast("BlobAttr", plain).key.data).data
            kind = cast("TensorType[Any]", cast("BlobAttr", plain).type)
            dense = DenseIntOrFPElementsAttr(kind, BytesAttr(cast("bytes", data)))
            self.print_string(self._dense_text(dense))
        else:
            super().print_attribute(plain)

    @override
    def print_float(self, value: float, type: AnyFloat) -> None:
        """Write the shortest text that reads back to the same number."""
        if type.name in FORMATS:
            self.print_string(_float_text(value, type))
        else:
            super().print_float(value, type)

    @override
    def print_operation_type(self, op: Operation) -> None:
        """Write the function type of an op."""
        # xDSL's method adds the location, and `print_op` does so again when an op's custom
        # form asks for the type.
        self.print_function_type(op.operand_types, op.result_types)

    @override
    def print_op_with_default_format(self, op: Operation) -> None:
        """Write an op in the generic form."""
        super().print_op_with_default_format(op)
        if self.print_debuginfo:
            self.print_string(" ")
            self.print_attribute(op.location)

    def _is_inline(self, key: str) -> bool:
        return self.external is not None and key not in self.external

    def _dense_text(self, attribute: DenseIntOrFPElementsAttr[Any]) -> str:
        """`dense<[1, 2]> : tensor<2xi8>`."""
        data = memoryview(attribute.data.data)
        element = attribute.get_element_type()
        shape = attribute.get_shape()
        count = math.prod(shape)
        width = data.nbytes // count if count else 0
        text = ""
        if count > 1 and data[width:] == data[: data.nbytes - width]:
            text = self._element_texts(data[:width], 1, element)[0]
        elif self.style.elide_above is not None and count > self.style.elide_above:
            return f"dense_resource<__elided__> : {self._type_text(attribute.get_type())}"
        elif self.style.hex_above is not None and count > self.style.hex_above and element != i1:
            text = f'"0x{data.hex().upper()}"'
        elif count:
            text = _brackets(shape) % self._element_texts(data, count, element)
        return f"dense<{text}> : {self._type_text(attribute.get_type())}"

    def _element_texts(self, data: memoryview, count: int, element: Any) -> tuple[str, ...]:
        values = element.unpack(data, count)
        if isinstance(element, IntegerType):
            if element == i1:
                return tuple("true" if value else "false" for value in values)
            return tuple(map(str, values))
        if isinstance(element, AnyFloat) and element.name in FORMATS:
            return tuple(_float_text(value, element) for value in values)
        return tuple(self._captured(lambda v=v: self._print_element(v, element)) for v in values)

    def _print_element(self, value: Any, element: Any) -> None:
        if isinstance(element, ComplexType):
            self.print_complex(value, cast("ComplexType[Any]", element))
        elif isinstance(element, AnyFloat):
            self.print_float(value, element)
        else:
            self.print_int(value, element)


def _float_text(value: float, kind: AnyFloat) -> str:
    """Infinities and NaNs are written as their bits."""
    text = float_text(value, kind.name)
    if text.startswith("0x"):
        return f"0x{kind.pack((value,))[::-1].hex().upper()}"
    return text


@lru_cache(maxsize=64)
def _brackets(shape: tuple[int, ...]) -> str:
    """A format of nested brackets, one level for each dimension, with `%s` for each element."""
    text = "%s"
    for extent in reversed(shape):
        text = f"[{', '.join([text] * extent)}]"
    return text
