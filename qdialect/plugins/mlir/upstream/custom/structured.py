"""The syntax of linalg's structured ops beyond their operands: hidden regions, maps, payloads."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    DictionaryAttr,
    MemRefType,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, Operation, Region
from xdsl.ir.affine import AffineMap
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.mlir_lexer import MLIRTokenKind

from qdialect.plugins.mlir.upstream.directives import CustomSyntax, Directive, PropertyValue
from qdialect.plugins.mlir.upstream.region_directives import RegionValue, print_region
from qdialect.plugins.mlir.upstream.scalars import Body, fill
from qdialect.plugins.mlir.upstream.states import Reading, Writing
from qdialect.plugins.mlir.upstream.types import element_of

#: computed by upstream while it verifies, and written in no text
MEMOIZED = "linalg.memoized_indexing_maps"


def _region(arguments: Sequence[Directive | str]) -> str:
    return next(part.names[0] for part in arguments if isinstance(part, RegionValue))


def _property(arguments: Sequence[Directive | str]) -> str:
    return next(part.kind.name for part in arguments if isinstance(part, PropertyValue))


def _scalars(state: Reading) -> list[Attribute]:
    types = [kind for value in state.row.operands for kind in state.types_of(value.name)]
    shaped = (TensorType, MemRefType)
    return [
        element_of(kind) if isinstance(cast("object", kind), shaped) else kind for kind in types
    ]


class HiddenRegion(CustomSyntax):
    """A region that no custom text has: what the row's `body` computes."""

    spaced = False

    def parse(self, state: Reading, arguments: Sequence[Directive | str]) -> None:
        body = Body(state.parser.ctx, _scalars(state))
        try:
            fill(body, state.row.body, lambda word: self._word(state, word))
        except (VerifyException, KeyError, IndexError) as error:
            state.parser.raise_error(f"'{state.row.name}' has no region: {error}", state.start)
        state.regions[_region(arguments)] = [Region(body.block)]

    def _word(self, state: Reading, word: str) -> str:
        """The function that a property names: `#linalg.type_fn<cast_unsigned>`."""
        entry = state.row.properties[word.lower()]
        text = str(state.properties.get(entry.name, entry.default))
        return text.partition("<")[2].rstrip(">")

    def is_present(self, state: Writing, arguments: Sequence[Directive | str]) -> bool:
        return True

    def print(self, state: Writing, arguments: Sequence[Directive | str]) -> None:
        del state, arguments


class KindRegion(HiddenRegion):
    """As `HiddenRegion`, of an op whose property `kind` names the function."""

    def parse(self, state: Reading, arguments: Sequence[Directive | str]) -> None:
        body = Body(state.parser.ctx, _scalars(state))
        inputs = [f"arg{n}" for n in range(len(body.block.args) - 1)]
        try:
            fill(body, f"1={self._word(state, 'KIND')} {' '.join(inputs)}; yield 1", str)
        except (VerifyException, KeyError, IndexError) as error:
            state.parser.raise_error(f"'{state.row.name}' has no region: {error}", state.start)
        state.regions[_region(arguments)] = [Region(body.block)]


class IdentityMaps(CustomSyntax):
    """Nothing in the text: the maps that are left out are identities, one for each operand."""

    spaced = False

    def parse(self, state: Reading, arguments: Sequence[Directive | str]) -> None:
        types = [kind for value in state.row.operands for kind in state.types_of(value.name)]
        rank = len(cast("Any", types[-1]).get_shape())
        state.properties.setdefault(_property(arguments), _identities(rank, len(types)))

    def print(self, state: Writing, arguments: Sequence[Directive | str]) -> None:
        del state, arguments


def _identities(rank: int, count: int) -> Attribute:
    return ArrayAttr([AffineMapAttr(AffineMap.identity(rank))] * count)


class MapsUnlessIdentity(CustomSyntax):
    """`indexing_maps = [..]`, left out where all are identities."""

    def parse(self, state: Reading, arguments: Sequence[Directive | str]) -> None:
        self.parse_optional(state, arguments)

    def parse_optional(self, state: Reading, arguments: Sequence[Directive | str]) -> bool:
        if not state.parser.parse_optional_keyword("indexing_maps"):
            return False
        state.parser.parse_punctuation("=")
        state.properties[_property(arguments)] = state.parser.parse_attribute()
        return True

    def is_present(self, state: Writing, arguments: Sequence[Directive | str]) -> bool:
        maps = cast("Any", state.property(_property(arguments)))
        if maps is None:
            return False
        return any(
            entry.data != AffineMap.identity(entry.data.num_dims) or entry.data.num_symbols
            for entry in maps.data
        )

    def print(self, state: Writing, arguments: Sequence[Directive | str]) -> None:
        value = state.property(_property(arguments))
        if value is not None:
            state.printer.print_string("indexing_maps = ")
            state.printer.print_attribute(value)


class TraitDictionary(CustomSyntax):
    """`{indexing_maps = [..], iterator_types = ["parallel"]}` or an alias of it: properties as
    a dictionary, with the iterators as strings."""

    def parse(self, state: Reading, arguments: Sequence[Directive | str]) -> None:
        value = state.parser.parse_attribute()
        if not isinstance(value, DictionaryAttr):
            state.parser.raise_error("expected a dictionary", state.start)
        for name, entry in value.data.items():
            if name == "iterator_types":
                entry = self._iterators(state, cast("ArrayAttr[Attribute]", entry))
            inherent = name in state.row.properties
            (state.properties if inherent else state.attributes)[name] = entry

    def _iterators(self, state: Reading, words: ArrayAttr[Attribute]) -> Attribute:
        from xdsl.parser import Parser

        made: list[Attribute] = []
        for word in words.data:
            if isinstance(word, StringAttr):
                text = f"#{state.dialect}.iterator_type<{word.data}>"
                made.append(Parser(state.parser.ctx, text).parse_attribute())
            else:
                made.append(word)
        return ArrayAttr(made)

    def print(self, state: Writing, arguments: Sequence[Directive | str]) -> None:
        names = [part.kind.name for part in arguments if isinstance(part, PropertyValue)]
        shown: dict[str, Attribute] = {}
        for name in names:
            value = state.property(name)
            if value is not None:
                shown[name] = self._words(value) if name == "iterator_types" else value
        state.printer.print_attr_dict(shown)

    def _words(self, value: Attribute) -> Attribute:
        entries = cast("ArrayAttr[Attribute]", value).data
        texts = [str(entry).partition("<")[2].rstrip(">") for entry in entries]
        return ArrayAttr([StringAttr(text) for text in texts])


class MoreAttributes(CustomSyntax):
    """`attrs = {..}`: what is no property."""

    spaced = False

    def parse(self, state: Reading, arguments: Sequence[Directive | str]) -> None:
        if state.parser.parse_optional_keyword("attrs"):
            state.parser.parse_punctuation("=")
            state.attributes.update(state.parser.parse_optional_attr_dict())

    def print(self, state: Writing, arguments: Sequence[Directive | str]) -> None:
        known = state.row.properties.keys() | state.written | {MEMOIZED}
        shown = {name: value for name, value in state.properties.items() if name not in known}
        if shown:
            state.printer.print_string(" attrs =  ")
            state.printer.print_attr_dict(shown)


class OwnAttributes(CustomSyntax):
    """`attr-dict` without what upstream computes."""

    spaced = False

    def parse(self, state: Reading, arguments: Sequence[Directive | str]) -> None:
        for name, value in state.parser.parse_optional_attr_dict().items():
            inherent = name in state.row.properties
            (state.properties if inherent else state.attributes)[name] = value

    def print(self, state: Writing, arguments: Sequence[Directive | str]) -> None:
        from qdialect.plugins.mlir.upstream.attributes import is_default

        shown: dict[str, Attribute] = {}
        for name, value in state.properties.items():
            entry = state.row.properties.get(name)
            usual = entry is not None and is_default(entry, value)
            if name not in state.written and name != MEMOIZED and not usual:
                shown[name] = value
        if shown:
            state.printer.print_string(" ")
            state.printer.print_attr_dict(shown)


class Payload(CustomSyntax):
    """`{ arith.addf }` before the operands: a region of one op on its arguments, which an
    argument "last first" says to take with the last one first."""

    def parse(self, state: Reading, arguments: Sequence[Directive | str]) -> None:
        self.parse_optional(state, arguments)

    def parse_optional(self, state: Reading, arguments: Sequence[Directive | str]) -> bool:
        parser = state.parser
        if parser._current_token.kind is not MLIRTokenKind.L_BRACE:
            return False
        parser.parse_punctuation("{")
        name = parser.parse_identifier()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation("}")
        state.payloads[_region(arguments)] = name, attributes
        return True

    def is_present(self, state: Writing, arguments: Sequence[Directive | str]) -> bool:
        return _payload(state, arguments) is not None

    def print(self, state: Writing, arguments: Sequence[Directive | str]) -> None:
        op = _payload(state, arguments)
        if op is None:
            return
        state.printer.print_string(f"{{ {op.name}")
        shown = {**op.attributes, **op.properties}
        shown = {
            name: value
            for name, value in shown.items()
            if not str(value).endswith(("fastmath<none>", "overflow<none>"))
        }
        if shown:
            state.printer.print_string(" ")
            state.printer.print_attr_dict(shown)
        state.printer.print_string(" }")


def _payload(state: Writing, arguments: Sequence[Directive | str]) -> Operation | None:
    """The only op of a region, if it takes the arguments in order and is yielded."""
    block = state.regions[_region(arguments)][0].first_block
    ops = [] if block is None else list(block.ops)
    if block is None or len(ops) != 2 or ops[0].regions or len(ops[0].results) != 1:
        return None
    if not ops[0].operands or list(ops[0].operands) != _in_order(block.args, arguments):
        return None
    same = ops[0].results[0].type == block.args[-1].type
    return ops[0] if same and list(ops[1].operands) == list(ops[0].results) else None


def _in_order(values: Sequence[Any], arguments: Sequence[Directive | str]) -> list[Any]:
    """The arguments of the payload: the last one is first, or left out."""
    *rest, last = values
    return [last, *rest] if "last first" in arguments else rest


class PayloadRegion(CustomSyntax):
    """`(%in: f32, %out: f32) { .. }`, unless a `Payload` stood before."""

    spaced = False

    def parse(self, state: Reading, arguments: Sequence[Directive | str]) -> None:
        name = _region(arguments)
        parser = state.parser
        if name not in state.payloads:
            named = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, lambda: parser.parse_argument()
            )
            state.regions[name] = [parser.parse_region(named)]
            return
        op, attributes = state.payloads[name]
        body = Body(parser.ctx, _scalars(state))
        operands = _in_order(body.block.args, arguments)
        kind = body.block.args[-1].type
        result = body.value(op, operands, kind, **attributes)
        body.op("linalg.yield", [result], [])
        state.regions[name] = [Region(body.block)]

    def print(self, state: Writing, arguments: Sequence[Directive | str]) -> None:
        if _payload(state, arguments) is not None:
            return
        (region,) = state.regions[_region(arguments)]
        state.new_line()
        state.printer.print_string("  (")
        block = region.first_block
        state.printer.print_list(
            () if block is None else block.args, state.printer.print_block_argument
        )
        state.printer.print_string(") ")
        print_region(state, region, "", arguments=False)


DIRECTIVES = {
    "HiddenRegion": HiddenRegion(),
    "IdentityMaps": IdentityMaps(),
    "KindRegion": KindRegion(),
    "MapsUnlessIdentity": MapsUnlessIdentity(),
    "MoreAttributes": MoreAttributes(),
    "OwnAttributes": OwnAttributes(),
    "Payload": Payload(),
    "PayloadRegion": PayloadRegion(),
    "TraitDictionary": TraitDictionary(),
}
