"""Prints ops on one line without xDSL's printer, if it has printed an op like them before.

Large networks repeat few kinds of lines:

    %9 = nn.relu %8 {nn.key = "n8"} : (tensor<4x!a>) -> tensor<4x!a>

What the printer writes for an op depends on the names of its operands, its types, its
`nn.key` and its tensor (the parts), and on its class, other properties and attributes (the
pattern). The printer prints the first op with a pattern; the text between the parts becomes the
template of the pattern, provided that each part is found once, where it belongs. Later ops with
the pattern fill their parts into the template.

Invariant: the text is the printer's, byte for byte. `formats.mlir.read.line_templates` is the
way back.

Without templates, networks of 1 000 and 10 000 ops take 1.7 to 2.4 times as long to print.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, StringAttr, UnregisteredOp
from xdsl.ir import Attribute, Operation

from qdialect.ops.base import NNOp
from qdialect.ops.constants import BlobAttr, ConstantOp
from qdialect.ops.keys import KEY
from qdialect.quant.casts import CastOp
from qdialect.quant.rescale import RescaleOp

#: the `print` methods that write the parts in the order of a template
_PRINT_METHODS: set[Any] = {kind.print for kind in (NNOp, ConstantOp, CastOp, RescaleOp)}

_needs_no_escapes = re.compile(r"[A-Za-z0-9_ ./:;()+*,-]*").fullmatch

MAX_LINE = 4000
"""Longer lines become no templates: large constants do not repeat."""

_TENSORS = (BlobAttr, DenseIntOrFPElementsAttr)


class Pattern(NamedTuple):
    """An op without its parts, and the two parts that are among its attributes."""

    key: tuple[object, ...]
    """Class, properties and attributes: equal for ops that share a template."""
    nn_key: str | None
    tensor: Attribute | None
    """The first weight or dense constant among the properties."""


class Parts(NamedTuple):
    """The texts that are filled into a template."""

    operands: Sequence[str]
    """Names without the percent sign."""
    operand_types: Sequence[str]
    result_types: Sequence[str]
    tensor: str
    key: str
    """`nn.key = "n8"`; empty without a key."""


class _Template(NamedTuple):
    """The text of an op is `name`, operands, `before_tensor`, tensor, `before_key`, key,
    `after_key`, signature."""

    name: str
    before_tensor: str
    before_key: str
    after_key: str
    signature: Callable[[Sequence[str], Sequence[str]], str]


class LineTemplates:
    """The templates of one text, in the generic form or the custom one."""

    def __init__(self, generic: bool) -> None:
        self._generic = generic
        #: None for a pattern whose text has the parts elsewhere
        self._templates: dict[tuple[object, ...], _Template | None] = {}
        self._has_template: dict[type[Operation], bool] = {}
        #: numbers of attributes: by `id` of each attribute, which the entry refers to so that
        #: the `id` stays unique, and by value
        self._numbers: dict[int, tuple[int, Attribute]] = {}
        self._numbers_by_value: dict[Attribute, int] = {}

    def pattern(self, op: Operation) -> Pattern | None:
        """The pattern of `op`; None for an op that only the printer can print."""
        kind = type(op)
        has_template = self._has_template.get(kind)
        if has_template is None:
            in_order = self._generic or cast("Any", kind).print in _PRINT_METHODS
            has_template = in_order and not issubclass(kind, UnregisteredOp)
            self._has_template[kind] = has_template
        if not has_template or op.regions or op.successors:
            return None
        key: list[object] = [kind, len(op.properties)]
        tensor: Attribute | None = None
        for name, attribute in op.properties.items():
            key.append(name)
            if tensor is None and type(attribute) in _TENSORS:
                tensor = attribute
            else:
                key.append(self._number(attribute))
        nn_key: str | None = None
        for name, attribute in op.attributes.items():
            key.append(name)
            if name == KEY and type(attribute) is StringAttr and _needs_no_escapes(attribute.data):
                nn_key = attribute.data
            else:
                key.append(self._number(attribute))
        return Pattern(tuple(key), nn_key, tensor)

    def parts(
        self,
        pattern: Pattern,
        operands: Sequence[str],
        operand_types: Sequence[str],
        result_types: Sequence[str],
        tensor: str,
    ) -> Parts:
        """The parts of an op with `pattern`, `tensor` being the text of its tensor."""
        key = "" if pattern.nn_key is None else f'nn.key = "{pattern.nn_key}"'
        return Parts(operands, operand_types, result_types, tensor, key)

    def text(self, pattern: Pattern, parts: Parts) -> str | None:
        """The op without `%result = `; None if there is no template yet."""
        template = self._templates.get(pattern.key)
        if template is None:
            return None
        name, before_tensor, before_key, after_key, signature = template
        return "".join(
            (
                name,
                self._operands(parts.operands),
                before_tensor,
                parts.tensor,
                before_key,
                parts.key,
                after_key,
                signature(parts.operand_types, parts.result_types),
            )
        )

    def learn(self, pattern: Pattern, op: Operation, parts: Parts, text: str) -> None:
        """Make a template of `text`, which the printer wrote for `op` behind `%result = `."""
        if pattern.key in self._templates:
            return
        self._templates[pattern.key] = None
        if len(text) > MAX_LINE or "\n" in text:
            return
        name = f'"{op.name}"' if self._generic else op.name
        start = name + self._operands(parts.operands)
        for signature in (_function_type, _conversion, _result_types):
            end = signature(parts.operand_types, parts.result_types)
            if text.startswith(start) and text.endswith(end):
                middle = text[len(start) : len(text) - len(end)]
                before_tensor, tensor, middle = _split_at(middle, parts.tensor)
                before_key, key, after_key = _split_at(middle, parts.key)
                if tensor == parts.tensor and key == parts.key:
                    template = _Template(name, before_tensor, before_key, after_key, signature)
                    self._templates[pattern.key] = template
                return

    def _operands(self, names: Sequence[str]) -> str:
        if self._generic:
            return f"(%{', %'.join(names)})" if names else "()"
        return f" %{', %'.join(names)}" if names else ""

    def _number(self, attribute: Attribute) -> int:
        """The same for equal attributes, tensors aside, which may be large."""
        entry = self._numbers.get(id(attribute))
        if entry is not None:
            return entry[0]
        number = len(self._numbers)
        if type(attribute) not in _TENSORS:
            number = self._numbers_by_value.setdefault(attribute, number)
        self._numbers[id(attribute)] = number, attribute
        return number


def _split_at(text: str, part: str) -> tuple[str, str, str]:
    """`text` before `part`, `part`, and `text` after it; all empty unless it is found once."""
    if not part:
        return "", "", text
    if text.count(part) != 1:
        return "", "", ""
    return text.partition(part)


def _function_type(operands: Sequence[str], results: Sequence[str]) -> str:
    # One result has no parentheses, unless it is a function type.
    if len(results) == 1 and not results[0].startswith("("):
        return f" : ({', '.join(operands)}) -> {results[0]}"
    return f" : ({', '.join(operands)}) -> ({', '.join(results)})"


def _conversion(operands: Sequence[str], results: Sequence[str]) -> str:
    return f" : {''.join(operands)} to {''.join(results)}"


def _result_types(operands: Sequence[str], results: Sequence[str]) -> str:
    return f" : {', '.join(results)}"
