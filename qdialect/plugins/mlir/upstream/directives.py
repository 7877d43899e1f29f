"""The directives of the assembly-format language: how each is read and written."""

# The readers of tokens are private methods of xDSL's parser.
# pyright: reportPrivateUsage=false
from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Attribute, Operation
from xdsl.parser import UnresolvedOperand
from xdsl.utils.mlir_lexer import MLIRTokenKind

from qdialect.plugins.mlir.upstream.attributes import (
    is_default,
    parse_optional_property,
    parse_property,
    print_property,
)
from qdialect.plugins.mlir.upstream.states import Reading, Writing
from qdialect.plugins.mlir.upstream.table import Property, Value


class Directive(ABC):
    """One element of a format."""

    space = False
    """Whether a space is written before it."""
    anchor = False
    """Whether the group around it is written when it is present."""

    @abstractmethod
    def parse(self, state: Reading) -> None:
        """Read it; ParseError if it is not there."""

    @abstractmethod
    def print(self, state: Writing) -> None:
        """Write it, without the space before it."""

    def parse_optional(self, state: Reading) -> bool:
        """Read it, if it is there."""
        raise TypeError(f"{type(self).__name__} cannot begin a group")

    def is_present(self, state: Writing) -> bool:
        """Whether there is something to write."""
        del state
        return True


class Literal(Directive):
    """A keyword or punctuation."""

    def __init__(self, text: str) -> None:
        self.text = text.strip()
        self._word = self.text[0].isalpha() or self.text[0] == "_"

    def parse(self, state: Reading) -> None:
        if self._word:
            state.parser.parse_keyword(self.text)
        else:
            state.parser.parse_punctuation(self.text)  # pyright: ignore[reportArgumentType]

    def parse_optional(self, state: Reading) -> bool:
        if self._word:
            return state.parser.parse_optional_keyword(self.text) is not None
        found = state.parser.parse_optional_punctuation(
            self.text  # pyright: ignore[reportArgumentType]
        )
        return found is not None

    def print(self, state: Writing) -> None:
        state.printer.print_string(self.text)


class Space(Directive):
    """A space, a new line, or (empty) the absence of a space."""

    def __init__(self, text: str) -> None:
        self.text = text

    def parse(self, state: Reading) -> None:
        del state

    def print(self, state: Writing) -> None:
        if self.text == "\\n":
            state.new_line()
        else:
            state.printer.print_string(self.text)


class PropertyValue(Directive):
    """`$name` of a property."""

    qualified = False

    def __init__(self, kind: Property) -> None:
        self.kind = kind

    def parse(self, state: Reading) -> None:
        if self.qualified:
            value = state.parser.parse_attribute()
        else:
            value = parse_property(state.parser, state.dialect, self.kind)
        state.properties[self.kind.name] = value

    def parse_optional(self, state: Reading) -> bool:
        value = parse_optional_property(state.parser, state.dialect, self.kind)
        if value is not None:
            state.properties[self.kind.name] = value
        return value is not None

    def print(self, state: Writing) -> None:
        value = state.property(self.kind.name)
        if value is None or self.kind.kind == "unit" or isinstance(value, UnitAttr):
            return
        if self.qualified:
            state.printer.print_attribute(value)
        else:
            print_property(state.printer, state.dialect, self.kind, value)

    def is_present(self, state: Writing) -> bool:
        value = state.property(self.kind.name)
        return value is not None and not is_default(self.kind, value)


class Operands(Directive):
    """`$name` of operands, or `operands`."""

    def __init__(self, names: Sequence[str], value: Value | None = None) -> None:
        self.names = names
        self.value = value

    def parse(self, state: Reading) -> None:
        parser = state.parser
        if self.value is None:
            found = parser.parse_optional_undelimited_comma_separated_list(
                parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
            )
            self._distribute(state, found or [])
        elif self.value.repeat == "":
            state.operands[self.value.name] = [parser.parse_unresolved_operand()]
        else:
            self.parse_optional(state)

    def parse_optional(self, state: Reading) -> bool:
        assert self.value is not None
        parser = state.parser
        if self.value.repeat == "*":
            found = parser.parse_optional_undelimited_comma_separated_list(
                parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
            )
        else:
            one = parser.parse_optional_unresolved_operand()
            found = None if one is None else [one]
        state.operands[self.value.name] = list(found or [])
        return bool(found)

    def _distribute(self, state: Reading, found: list[UnresolvedOperand]) -> None:
        """Give each name its operands: those that repeat have what the others leave."""
        values = state.row.operands
        single = sum(not value.repeat for value in values)
        rest = len(found) - single
        start = 0
        for value in values:
            size = max(rest, 0) if value.repeat else 1
            state.operands[value.name] = found[start : start + size]
            start += size
        if start != len(found):
            state.parser.raise_error(f"expected {start} operands but found {len(found)}")

    def print(self, state: Writing) -> None:
        values = [value for name in self.names for value in state.values(name)]
        state.printer.print_list(values, state.printer.print_ssa_value)

    def is_present(self, state: Writing) -> bool:
        return any(len(state.values(name)) for name in self.names)


class Types(Directive):
    """`type($name)`, `type(operands)`, `type(results)`."""

    def __init__(self, names: Sequence[str], repeats: Sequence[str]) -> None:
        self.names = names
        self.repeats = repeats

    def parse(self, state: Reading) -> None:
        parser = state.parser
        if len(self.names) == 1 and self.repeats[0] == "":
            state.types[self.names[0]] = [parser.parse_type()]
            return
        self.parse_optional(state)

    def parse_optional(self, state: Reading) -> bool:
        parser = state.parser
        if len(self.names) == 1 and self.repeats[0] == "?":
            one = parser.parse_optional_type()
            found = None if one is None else [one]
        else:
            found = parser.parse_optional_undelimited_comma_separated_list(
                parser.parse_optional_type, parser.parse_type
            )
        assign_types(state, self.names, list(found or []))
        return bool(found)

    def print(self, state: Writing) -> None:
        types = [kind for name in self.names for kind in state.types(name)]
        state.printer.print_list(types, state.printer.print_attribute)

    def is_present(self, state: Writing) -> bool:
        return any(len(state.values(name)) for name in self.names)


def assign_types(state: Reading, names: Sequence[str], found: list[Attribute]) -> None:
    """Give each of the operands or results the types that belong to it."""
    if len(names) == 1:
        state.types[names[0]] = found
        return
    operands = {value.name for value in state.row.operands}
    repeats = {value.name: value.repeat for value in (*state.row.operands, *state.row.results)}
    rest = [name for name in names if name not in operands]
    many = sum(bool(repeats[name]) for name in rest)
    left = len(found) - sum(len(state.operands.get(name, ())) for name in operands & {*names})
    each = (left - (len(rest) - many)) // many if many else 0
    start = 0
    for name in names:
        if name in operands:
            size = len(state.operands.get(name, ()))
        else:
            size = max(each, 0) if repeats[name] else 1
        state.types[name] = found[start : start + size]
        start += size
    if start != len(found):
        state.parser.raise_error(f"expected {start} types but found {len(found)}")


class FunctionType(Directive):
    """`functional-type(operands, results)`."""

    def __init__(self, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        self.inputs = inputs
        self.outputs = outputs

    def parse(self, state: Reading) -> None:
        kind = state.parser.parse_function_type()
        assign_types(state, self.inputs, list(kind.inputs.data))
        assign_types(state, self.outputs, list(kind.outputs.data))

    def parse_optional(self, state: Reading) -> bool:
        if state.parser._current_token.kind is not MLIRTokenKind.L_PAREN:
            return False
        self.parse(state)
        return True

    def is_present(self, state: Writing) -> bool:
        return any(len(state.values(name)) for name in self.inputs)

    def print(self, state: Writing) -> None:
        state.printer.print_function_type(
            [kind for name in self.inputs for kind in state.types(name)],
            [kind for name in self.outputs for kind in state.types(name)],
        )


class Successor(Directive):
    """`$name` of successors, or `successors`."""

    def __init__(self, names: Sequence[str], repeat: str = "") -> None:
        self.names = names
        self.repeat = repeat

    def parse(self, state: Reading) -> None:
        parser = state.parser
        if self.repeat == "*" or len(self.names) != 1:
            found = parser.parse_optional_undelimited_comma_separated_list(
                parser.parse_optional_successor, parser.parse_successor
            )
            state.successors[self.names[0]] = list(found or [])
        else:
            state.successors[self.names[0]] = [parser.parse_successor()]

    def parse_optional(self, state: Reading) -> bool:
        if state.parser._current_token.kind is not MLIRTokenKind.CARET_IDENT:
            return False
        self.parse(state)
        return True

    def print(self, state: Writing) -> None:
        blocks = [block for name in self.names for block in state.successors[name]]
        state.printer.print_list(blocks, state.printer.print_block_name)

    def is_present(self, state: Writing) -> bool:
        return any(state.successors[name] for name in self.names)


class AttributeDictionary(Directive):
    """`attr-dict`: what the rest of the format does not write."""

    def __init__(self, keyword: bool) -> None:
        self.keyword = keyword

    def parse(self, state: Reading) -> None:
        parser = state.parser
        if self.keyword:
            found = parser.parse_optional_attr_dict_with_keyword()
            entries = dict[str, Attribute]() if found is None else dict(found.data)
        else:
            entries = parser.parse_optional_attr_dict()
        for name, value in entries.items():
            inherent = name in state.row.properties
            (state.properties if inherent else state.attributes)[name] = value

    def parse_optional(self, state: Reading) -> bool:
        if state.parser._current_token.kind is not MLIRTokenKind.L_BRACE:
            return False
        self.parse(state)
        return True

    def print(self, state: Writing) -> None:
        shown = {
            name: value for name, value in state.properties.items() if self._shows(state, name)
        }
        if not shown:
            return
        state.printer.print_string(" attributes " if self.keyword else " ")
        state.printer.print_attr_dict(shown)
        state.written.update(shown)

    def _shows(self, state: Writing, name: str) -> bool:
        if name in state.written:
            return False
        kind = state.row.properties.get(name)
        return kind is None or not is_default(kind, state.properties[name])


class Group(Directive):
    """`( .. )?`: written when its anchor is present."""

    def __init__(self, first: tuple[Directive, ...], otherwise: tuple[Directive, ...] = ()) -> None:
        self.first = first
        self.otherwise = otherwise
        self._anchor = next((element for element in first if element.anchor), None)

    def parse(self, state: Reading) -> None:
        if not self.parse_optional(state):
            for element in self.otherwise:
                element.parse(state)

    def parse_optional(self, state: Reading) -> bool:
        found = parse_if_begun(state, self.first)
        if found and self._anchor is not None:
            anchor = self._anchor
            if isinstance(anchor, PropertyValue) and anchor.kind.kind == "unit":
                state.properties[anchor.kind.name] = UnitAttr()
        return found

    def print(self, state: Writing) -> None:
        print_all(state, self.first if self.is_present(state) else self.otherwise)

    def is_present(self, state: Writing) -> bool:
        return self._anchor is None or self._anchor.is_present(state)


class CustomSyntax(ABC):
    """What `custom<Name>` reads and writes, of any op: its arguments are in the format."""

    spaced = True
    """Whether there is a space before it; false where it writes its own or may be empty."""

    @abstractmethod
    def parse(self, state: Reading, arguments: Sequence[Directive | str]) -> None:
        """Read it."""

    @abstractmethod
    def print(self, state: Writing, arguments: Sequence[Directive | str]) -> None:
        """Write it."""

    def can_write(self, op: Operation) -> bool:
        """Whether this syntax has words for `op`; else it is written in the generic form."""
        return True

    def parse_optional(self, state: Reading, arguments: Sequence[Directive | str]) -> bool:
        """Read it, if it is there."""
        raise TypeError(f"{type(self).__name__} cannot begin a group")

    def is_present(self, state: Writing, arguments: Sequence[Directive | str]) -> bool:
        """Whether there is something to write: any of its arguments."""
        return any(part.is_present(state) for part in arguments if isinstance(part, Directive))


class Custom(Directive):
    """`custom<Name>(..)`."""

    def __init__(self, syntax: CustomSyntax, arguments: Sequence[Directive | str]) -> None:
        self.syntax = syntax
        self.arguments = arguments

    def parse(self, state: Reading) -> None:
        self.syntax.parse(state, self.arguments)

    def parse_optional(self, state: Reading) -> bool:
        return self.syntax.parse_optional(state, self.arguments)

    def print(self, state: Writing) -> None:
        self.syntax.print(state, self.arguments)

    def is_present(self, state: Writing) -> bool:
        return self.syntax.is_present(state, self.arguments)


def parse_if_begun(state: Reading, elements: Sequence[Directive]) -> bool:
    """Read all elements, if the first is there."""
    rest = [element for element in elements if not isinstance(element, Space)]
    if not rest or not rest[0].parse_optional(state):
        return False
    for element in rest[1:]:
        element.parse(state)
    return True


def print_all(state: Writing, elements: Sequence[Directive]) -> None:
    """Write all elements, with the spaces before them."""
    for element in elements:
        if element.space:
            state.printer.print_string(" ")
        element.print(state)
