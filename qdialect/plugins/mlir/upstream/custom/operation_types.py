"""Types of an op written once where all are the same: `: tensor<2xf32>`, or a function type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import ComplexType, FunctionType, TensorType, TupleType
from xdsl.ir import Attribute

from qdialect.plugins.mlir.upstream.directives import CustomSyntax, Directive, Types, assign_types
from qdialect.plugins.mlir.upstream.states import Reading, Writing

Arguments = Sequence[Directive | str]


def _names(arguments: Arguments) -> list[str]:
    return [part.names[0] for part in arguments if isinstance(part, Types)]


def _from_function(state: Reading, names: Sequence[str], kind: FunctionType) -> None:
    assign_types(state, names[:-1], list(kind.inputs.data))
    assign_types(state, names[-1:], list(kind.outputs.data))


def _print_function(state: Writing, names: Sequence[str]) -> None:
    inputs = [kind for name in names[:-1] for kind in state.types(name)]
    state.printer.print_function_type(inputs, state.types(names[-1]))


class SameOperandsAndResultType(CustomSyntax):
    """The last argument is the result; the others, operands of its type or a function type."""

    def parse(self, state: Reading, arguments: Arguments) -> None:
        names = _names(arguments)
        kind = state.parser.parse_type()
        if isinstance(kind, FunctionType):
            _from_function(state, names, kind)
            return
        for name in names[:-1]:
            state.types[name] = [kind] * len(state.operands[name])
        state.types[names[-1]] = [kind]

    def print(self, state: Writing, arguments: Arguments) -> None:
        names = _names(arguments)
        (result,) = state.types(names[-1])
        if all(kind == result for name in names[:-1] for kind in state.types(name)):
            state.printer.print_attribute(result)
        else:
            _print_function(state, names)


class ComplexOpType(CustomSyntax):
    """A complex result, whose parts have the type of operands."""

    def parse(self, state: Reading, arguments: Arguments) -> None:
        names = _names(arguments)
        kind = state.parser.parse_type()
        if isinstance(kind, FunctionType):
            _from_function(state, names, kind)
            return
        real = _real(kind)
        if real is None:
            state.parser.raise_error("expected tensor with complex element type")
        for name in names[:-1]:
            state.types[name] = [real]
        state.types[names[-1]] = [kind]

    def print(self, state: Writing, arguments: Arguments) -> None:
        names = _names(arguments)
        (result,) = state.types(names[-1])
        if all(kind == _real(result) for name in names[:-1] for kind in state.types(name)):
            state.printer.print_attribute(result)
        else:
            _print_function(state, names)


def _real(kind: Attribute) -> Attribute | None:
    """The type of the parts of a complex tensor."""
    if not isinstance(kind, TensorType):
        return None
    tensor = cast("TensorType[Any]", kind)
    complex_type: Attribute = tensor.element_type
    if not isinstance(complex_type, ComplexType):
        return None
    element = cast("ComplexType[Any]", complex_type).element_type
    return TensorType(element, tensor.get_shape(), tensor.encoding)


class PairwiseOpType(CustomSyntax):
    """Results have the types of the operands, which are listed."""

    def parse(self, state: Reading, arguments: Arguments) -> None:
        parser = state.parser
        kinds = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        for name in _names(arguments):
            state.types[name] = list(kinds)

    def print(self, state: Writing, arguments: Arguments) -> None:
        kinds = state.types(_names(arguments)[0])
        state.printer.print_list(kinds, state.printer.print_attribute)


class TupleOpType(CustomSyntax):
    """A tuple, whose members are the operands."""

    def parse(self, state: Reading, arguments: Arguments) -> None:
        operands, result = _names(arguments)
        kind = state.parser.parse_type()
        if not isinstance(kind, TupleType):
            state.parser.raise_error("expected tuple type")
        state.types[operands] = list(kind.types.data)
        state.types[result] = [kind]

    def print(self, state: Writing, arguments: Arguments) -> None:
        state.printer.print_attribute(state.types(_names(arguments)[1])[0])


class SelectOpType(CustomSyntax):
    """The type of the predicate and that of all others, or a function type."""

    def parse(self, state: Reading, arguments: Arguments) -> None:
        parser = state.parser
        names = _names(arguments)
        kinds = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        first = kinds[0]
        if len(kinds) == 1 and isinstance(first, FunctionType):
            _from_function(state, names, first)
            return
        if len(kinds) != 2:
            parser.raise_error("expected functional type or list of two types")
        for name, kind in zip(names, (first, *[kinds[1]] * 3), strict=True):
            state.types[name] = [kind]

    def print(self, state: Writing, arguments: Arguments) -> None:
        names = _names(arguments)
        kinds = [state.types(name)[0] for name in names]
        if kinds[1] == kinds[2] == kinds[3]:
            state.printer.print_list([kinds[0], kinds[3]], state.printer.print_attribute)
        else:
            _print_function(state, names)


DIRECTIVES = {
    "ComplexOpType": ComplexOpType(),
    "PairwiseOpType": PairwiseOpType(),
    "SameOperandsAndResultType": SameOperandsAndResultType(),
    "SelectOpType": SelectOpType(),
    "TupleOpType": TupleOpType(),
    "VariadicSameOperandsAndResultType": SameOperandsAndResultType(),
}
