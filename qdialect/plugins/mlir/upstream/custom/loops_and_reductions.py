"""Ops whose regions share their arguments with the op: loops and reductions, and constants.

%r:2 = stablehlo.while(%i = %0, %x = %1) : tensor<i32>, tensor<f32> cond {..} do {..}
%r = stablehlo.reduce(%x init: %0) applies stablehlo.add across dimensions = [1] : ..
%r = stablehlo.reduce(%x init: %0) across dimensions = [1] : .. reducer(%a: .., %b: ..) {..}
"""

# Names of values are the printer's own.
# pyright: reportPrivateUsage=false
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import DenseArrayBase, TensorType, i64
from xdsl.ir import Attribute, Block, Operation, Region
from xdsl.parser import Parser, UnresolvedOperand

from qdialect.plugins.mlir.upstream.directives import (
    CustomSyntax,
    Directive,
    Operands,
    PropertyValue,
    Types,
    assign_types,
)
from qdialect.plugins.mlir.upstream.region_directives import RegionValue
from qdialect.plugins.mlir.upstream.states import Reading, Writing

Arguments = Sequence[Directive | str]

_COMPACT = ("add", "and", "maximum", "minimum", "multiply", "or", "xor")
"""The commutative ops of two operands."""


def _attributes(state: Reading) -> None:
    for name, value in state.parser.parse_optional_attr_dict().items():
        inherent = name in state.row.properties
        (state.properties if inherent else state.attributes)[name] = value


class WhileLoop(CustomSyntax):
    """Operands, condition and body of a loop; results have the types of the operands."""

    def parse(self, state: Reading, arguments: Arguments) -> None:
        parser = state.parser
        operands, result = self._names(state, arguments)
        pairs = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: self._pair(parser)
        )
        kinds: list[Attribute] = []
        if pairs:
            parser.parse_punctuation(":")
            kinds = list(
                parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
            )
        if len(kinds) != len(pairs):
            parser.raise_error(f"expected {len(pairs)} types but found {len(kinds)}")
        found = parser.parse_optional_attr_dict_with_keyword()
        state.attributes.update({} if found is None else found.data)
        state.operands[operands] = [operand for _, operand in pairs]
        state.types[operands] = state.types[result] = kinds
        inner = [name.resolve(kind) for (name, _), kind in zip(pairs, kinds, strict=True)]
        for word, region in zip(("cond", "do"), self._regions(arguments), strict=True):
            parser.parse_keyword(word)
            state.regions[region] = [parser.parse_region(inner)]

    def can_write(self, op: Operation) -> bool:
        """Whether the types of operands, results and arguments are the same."""
        kinds = [v.type for v in op.operands]
        blocks = [region.first_block for region in op.regions]
        inner = [[a.type for a in block.args] if block else [] for block in blocks]
        return all(part == kinds for part in (*inner, [v.type for v in op.results]))

    def _pair(self, parser: Parser) -> tuple[Parser.UnresolvedArgument, UnresolvedOperand]:
        name = parser.parse_argument(expect_type=False)
        parser.parse_punctuation("=")
        return name, parser.parse_unresolved_operand()

    def _names(self, state: Reading | Writing, arguments: Arguments) -> tuple[str, str]:
        (operands,) = (part for part in arguments if isinstance(part, Operands))
        return operands.names[0], state.row.results[0].name

    def _regions(self, arguments: Arguments) -> list[str]:
        return [part.names[0] for part in arguments if isinstance(part, RegionValue)]

    def print(self, state: Writing, arguments: Arguments) -> None:
        printer = state.printer
        condition, body = (state.regions[name][0] for name in self._regions(arguments))
        operands = state.values(self._names(state, arguments)[0])
        printer.print_string("(")
        for place, (inner, operand) in enumerate(zip(body.block.args, operands, strict=True)):
            printer.print_string(", " if place else "")
            printer.print_ssa_value(inner)
            printer.print_string(" = ")
            printer.print_ssa_value(operand)
        printer.print_string(")")
        # Both regions name their arguments alike.
        for there, here in zip(condition.block.args, body.block.args, strict=True):
            printer._ssa_values[there] = printer._ssa_values[here]
        if operands:
            printer.print_string(" : ")
            printer.print_list([v.type for v in operands], printer.print_attribute)
        if state.op.attributes:
            printer.print_string(" attributes ")
            printer.print_attr_dict(state.op.attributes)
            state.written.update(state.op.attributes)
        for word, region in ((" cond ", condition), (" do ", body)):
            printer.print_string(word)
            printer.print_region(region, print_entry_block_args=False)


class Reduction(CustomSyntax):
    """Operands with their initial values, dimensions, types and the body of a reduction."""

    def parse(self, state: Reading, arguments: Arguments) -> None:
        parser = state.parser
        inputs, inits, dimensions, body, result = self._names(state, arguments)
        pairs = parser.parse_comma_separated_list(parser.Delimiter.NONE, lambda: self._pair(parser))
        state.operands[inputs] = [x for x, _ in pairs]
        state.operands[inits] = [init for _, init in pairs]
        combine = None
        if parser.parse_optional_keyword("applies") is not None:
            combine = parser.parse_identifier()
        parser.parse_keyword("across")
        parser.parse_keyword("dimensions")
        parser.parse_punctuation("=")
        square = parser.Delimiter.SQUARE
        dims = parser.parse_comma_separated_list(square, parser.parse_integer)
        state.properties[dimensions] = DenseArrayBase.from_list(i64, dims)
        _attributes(state)
        parser.parse_punctuation(":")
        kind = parser.parse_function_type()
        assign_types(state, [inputs, inits], list(kind.inputs.data))
        state.types[result] = list(kind.outputs.data)
        if combine is not None:
            state.regions[body] = [self._compact(state, combine, kind.inputs.data[0])]
            return
        parser.parse_keyword("reducer")
        elements: list[Parser.Argument] = []
        accumulated: list[Parser.Argument] = []
        while parser.parse_optional_punctuation("(") is not None:
            elements.append(parser.parse_argument())
            parser.parse_punctuation(",")
            accumulated.append(parser.parse_argument())
            parser.parse_punctuation(")")
        state.regions[body] = [parser.parse_region([*elements, *accumulated])]

    def _pair(self, parser: Parser) -> tuple[UnresolvedOperand, UnresolvedOperand]:
        parser.parse_punctuation("(")
        operand = parser.parse_unresolved_operand()
        parser.parse_keyword("init")
        parser.parse_punctuation(":")
        init = parser.parse_unresolved_operand()
        parser.parse_punctuation(")")
        return operand, init

    def _compact(self, state: Reading, name: str, operand: Attribute) -> Region:
        dialect, _, short = name.partition(".")
        if dialect != state.dialect or short not in _COMPACT:
            state.parser.raise_error(
                "expected the inner-op to be a commutative binary-op from the "
                f"{state.dialect} dialect, with zero region, producing single result"
            )
        element = cast("TensorType[Any]", operand).element_type
        scalar = TensorType(element, [])
        block = Block(arg_types=[scalar, scalar])
        context = state.parser.ctx
        op = context.get_op(name).create(operands=block.args, result_types=[scalar])
        last = context.get_op(f"{state.dialect}.return").create(operands=op.results)
        block.add_ops([op, last])
        return Region(block)

    def _names(
        self, state: Reading | Writing, arguments: Arguments
    ) -> tuple[str, str, str, str, str]:
        inputs, inits = (p.names[0] for p in arguments if isinstance(p, Operands))
        (dimensions,) = (p.kind.name for p in arguments if isinstance(p, PropertyValue))
        (body,) = (p.names[0] for p in arguments if isinstance(p, RegionValue))
        return inputs, inits, dimensions, body, state.row.results[0].name

    def print(self, state: Writing, arguments: Arguments) -> None:
        printer = state.printer
        inputs, inits, dimensions, body, _ = self._names(state, arguments)
        pairs = zip(state.values(inputs), state.values(inits), strict=True)
        for place, (operand, init) in enumerate(pairs):
            printer.print_string(", (" if place else "(")
            printer.print_ssa_value(operand)
            printer.print_string(" init: ")
            printer.print_ssa_value(init)
            printer.print_string(")")
        (region,) = state.regions[body]
        combine = _combining(state, region)
        if combine is not None:
            printer.print_string(f" applies {combine.name}")
        dims = cast("DenseArrayBase[Any]", state.property(dimensions)).get_values()
        printer.print_string(f" across dimensions = [{', '.join(str(d) for d in dims)}]")
        shown = {k: v for k, v in state.properties.items() if k not in state.written}
        if shown:
            printer.print_string(" ")
            printer.print_attr_dict(shown)
        printer.print_string(" : ")
        printer.print_operation_type(state.op)
        if combine is None:
            self._print_region(state, region)

    def _print_region(self, state: Writing, region: Region) -> None:
        printer, block = state.printer, region.block
        count = len(block.args) // 2
        printer.print_string(" reducer")
        for element, accumulated in zip(block.args[:count], block.args[count:], strict=True):
            printer.print_string("(")
            printer.print_block_argument(element)
            printer.print_string(", ")
            printer.print_block_argument(accumulated)
            printer.print_string(") ")
        printer.print_region(region, print_entry_block_args=False)


def _combining(state: Writing, region: Region) -> Operation | None:
    """The one op of a body that the short form can name."""
    block = region.block
    ops = list(block.ops)
    if len(ops) != 2 or not state.op.operands:
        return None
    op, last = ops
    dialect, _, short = op.name.partition(".")
    if dialect != state.dialect or short not in _COMPACT or last.name != f"{dialect}.return":
        return None
    element = getattr(state.op.operands[0].type, "element_type", None)
    if element is None:
        return None
    scalar = TensorType(element, [])
    kinds = {v.type for v in (*op.operands, *op.results)}
    plain = not op.properties and not op.attributes
    same = tuple(op.operands) == tuple(block.args) and tuple(last.operands) == tuple(op.results)
    return op if plain and same and kinds == {scalar} else None


class ConstantValue(CustomSyntax):
    """The elements of a constant; the generic form where the result has another type."""

    def parse(self, state: Reading, arguments: Arguments) -> None:
        parser = state.parser
        value, output = self._names(arguments)
        if parser.parse_optional_punctuation("(") is not None:
            parser.parse_punctuation(")")
            state.properties.update(parser.parse_optional_properties_dict())
            _attributes(state)
            parser.parse_punctuation(":")
            state.types[output] = list(parser.parse_function_type().outputs.data)
            return
        _attributes(state)
        elements = parser.parse_attribute()
        kind = getattr(elements, "type", None) or cast("Any", elements).get_type()
        state.properties[value] = elements
        state.types[output] = [kind]

    def _names(self, arguments: Arguments) -> tuple[str, str]:
        (value,) = (p.kind.name for p in arguments if isinstance(p, PropertyValue))
        (output,) = (p.names[0] for p in arguments if isinstance(p, Types))
        return value, output

    def print(self, state: Writing, arguments: Arguments) -> None:
        printer = state.printer
        value, output = self._names(arguments)
        elements = state.property(value)
        assert elements is not None
        kind = getattr(elements, "type", None) or cast("Any", elements).get_type()
        shown = {k: v for k, v in state.properties.items() if k not in state.written}
        if [kind] == state.types(output):
            printer.print_string(" ")
            if shown:
                printer.print_attr_dict(shown)
                printer.print_string(" ")
            printer.print_attribute(elements)
            return
        printer.print_string("() <")
        printer.print_attr_dict({value: elements})
        printer.print_string(">")
        if shown:
            printer.print_string(" ")
            printer.print_attr_dict(shown)
        printer.print_string(" : ")
        printer.print_operation_type(state.op)


DIRECTIVES = {
    "ConstantValue": ConstantValue(),
    "Reduction": Reduction(),
    "WhileLoop": WhileLoop(),
}
