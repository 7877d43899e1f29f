"""What is wrong in a text, in mlir-opt's words and at its place.

xDSL's parser finds the same errors. Here is what each of its messages is upstream, as a table
of patterns, and where upstream points: an unexpected token is reported behind the one before
it, so that an error at the end of a line does not point into the next:

    %0 = "foo"()        x.mlir:1:13: error: expected ':' followed by operation type
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from re import Match
from typing import NamedTuple


class Fault(NamedTuple):
    """An error in a text, with what else is to be said about it."""

    message: str
    position: int
    notes: tuple[tuple[str, int], ...] = ()
    """Messages and positions."""


class Context(NamedTuple):
    """Where the parser stopped."""

    text: str
    position: int
    """Of the error, as xDSL has it."""
    op: int | None
    """Where the name of the op that is read begins."""
    dialects: Collection[str] = ()
    """The names of those that are known."""

    @property
    def before(self) -> str:
        """The text up to the position."""
        return self.text[: self.position]

    @property
    def op_name(self) -> str:
        """The name of the op that is read."""
        found = None if self.op is None else _OP_NAME.match(self.text, self.op)
        return found.group() if found else ""


_OP_NAME = re.compile(r"[\w$.]+")
_VALUE = re.compile(r"%[\w$.-]+")
_Rule = Callable[[Context, Match[str]], Fault]


def fault(message: str, context: Context) -> Fault:
    """The fault that xDSL reports as `message`."""
    for pattern, rule in _RULES:
        found = pattern.match(message)
        if found is not None:
            return rule(context, found)
    return Fault(message, context.position)


def behind_token(text: str, position: int) -> int:
    """The end of the token before `position`: above blank lines and comments, too."""
    start = min(position, len(text))
    while True:
        while start and text[start - 1] in " \t":
            start -= 1
        if not start:
            return position
        if text[start - 1] not in "\n\r":
            return start
        start -= 1
        line = text.rfind("\n", 0, start) + 1
        comment = text.find("//", line, start)
        if comment >= 0:
            start = comment


def definition_of(name: str, text: str, position: int) -> int | None:
    """Where the value `name` was last defined before `position`: as a result or an argument."""
    pattern = rf"{re.escape(name)}(?![\w$.-])(?=\s*(?::\s*(?:\d+\s*[,=]|[^\d\s])|=|,[^()\n]*=))"
    places = [found.start() for found in re.finditer(pattern, text[:position])]
    return next((place for place in reversed(places) if not _is_handed_on(text, place)), None)


def _is_handed_on(text: str, position: int) -> bool:
    """Whether the value there is in the list behind a successor of a branch."""
    line = text[text.rfind("\n", 0, position) + 1 : position]
    label = line.rpartition("^")[0].strip() if "^" in line else ""
    return bool(label)


def _token(message: str) -> _Rule:
    """Upstream's message about an unexpected token, in which `{1}` is the first group."""

    def rule(context: Context, found: Match[str]) -> Fault:
        words = message.format(found.group(), *found.groups(""))
        return Fault(words, behind_token(context.text, context.position))

    return rule


def _at(message: str, shift: int = 0) -> _Rule:
    """Upstream's message at the place where xDSL has it."""

    def rule(context: Context, found: Match[str]) -> Fault:
        return Fault(message.format(found.group(), *found.groups("")), context.position + shift)

    return rule


def _at_last(message: str, marker: str) -> _Rule:
    """The message at the last place before the error that has `marker`, a pattern in which
    `{1}` is the first group."""

    def rule(context: Context, found: Match[str]) -> Fault:
        groups = [re.escape(group) for group in found.groups("")]
        places = list(re.finditer(marker.format("", *groups), context.before))
        position = places[-1].end() if places else context.position
        if places and "(?=" in marker:
            position = places[-1].start()
        return Fault(message.format(found.group(), *found.groups("")), position)

    return rule


def _custom(message: str) -> _Rule:
    """An error of the custom form of an op."""

    def rule(context: Context, found: Match[str]) -> Fault:
        words = message.format(found.group(), *found.groups(""))
        return Fault(f"custom op '{context.op_name}' {words}", context.position)

    return rule


def _colon(context: Context, found: Match[str]) -> Fault:
    position = behind_token(context.text, context.position)
    line = context.before.rstrip()
    if re.search(r"\^[\w$.-]+\s*\((?:[^()]*,)?\s*%[\w$.-]+$", line):
        return Fault("expected ':' and type for SSA operand", position)
    if re.search(r"(?:^|\n)\s*\^[\w$.-]+\s*(?:\([^\n]*\))?$", line):
        return Fault("expected ':' after block name", position)
    return Fault("expected ':'", position)


def _square(context: Context, found: Match[str]) -> Fault:
    position = behind_token(context.text, context.position)
    is_dense = re.search(r"\bdense<[^<>]*$", context.before)
    return Fault("expected ']'" if is_dense else "expected ',' or ']'", position)


def _attribute(context: Context, found: Match[str]) -> Fault:
    line = context.before.rstrip()
    is_value = line.endswith(("=", "[", ",")) and not re.search(r"(?:^|\n)![^\n]*=$", line)
    message = "expected attribute value" if is_value else "expected non-function type"
    return Fault(message, behind_token(context.text, context.position))


def _parameters(context: Context, found: Match[str]) -> Fault:
    opened = list(re.finditer(r"\b(tensor|memref|vector|complex|tuple)\b", context.before))
    kind = f" in {opened[-1].group()} type" if opened else ""
    position = behind_token(context.text, context.position)
    return Fault(f"expected '{found[1]}'{kind}", position)


def _alias_equals(context: Context, found: Match[str]) -> Fault:
    position = behind_token(context.text, context.position)
    start = context.text.rfind("\n", 0, position) + 1
    kind = "type" if context.text[start:position].lstrip().startswith("!") else "attribute"
    return Fault(f"expected '=' in {kind} alias definition", position)


def _alias_twice(context: Context, found: Match[str]) -> Fault:
    kind = "type" if found[1][0] == "!" else "attribute"
    position = context.text.rfind(found[1], 0, context.position)
    return Fault(f"redefinition of {kind} alias id '{found[1][1:]}'", position)


def _bound(context: Context, found: Match[str]) -> Fault:
    if found[1] == "0":
        return Fault("cannot name an operation with no results", context.position)
    message = f"operation defines {found[1]} results but was provided {found[2]} to bind"
    return Fault(message, context.position)


def _operand(context: Context, found: Match[str]) -> Fault:
    position = behind_token(context.text, context.position)
    if context.op is not None and context.text.startswith('"', context.op):
        return Fault("expected ')' to end operand list", context.position)
    return Fault("expected SSA operand", position)


def _value_at(context: Context) -> str:
    found = _VALUE.match(context.text, context.position)
    return found.group() if found else "%"


def _other_type(context: Context, found: Match[str]) -> Fault:
    name = _value_at(context)
    before = definition_of(name, context.text, context.position)
    if before is None:
        before = _first_use(name, context) or context.position
    message = f"use of value '{name}' expects different type than prior uses"
    return Fault(
        f"{message}: '{found[1]}' vs '{found[2]}'", context.position, (("prior use here", before),)
    )


def _first_use(name: str, context: Context) -> int | None:
    """Where a value is first named in the function that the error is in."""
    uses = re.finditer(rf"{re.escape(name)}(?![\w$.-])", context.before)
    return next((use.start() for use in uses if _same_function(context, use.start())), None)


def _same_function(context: Context, position: int) -> bool:
    """Whether no function begins between `position` and the error."""
    return not re.search(r"\bfunc\.func\b", context.text[position : context.position])


def _redefined(context: Context, found: Match[str]) -> Fault:
    name = found[1]
    before = definition_of(name, context.text, context.position)
    label = re.search(r"\^[\w$.-]+\s*\([^()\n]*$", context.before)
    is_result = re.match(r"[^()\n]*=", context.text[context.position :])
    if label or is_result:
        words, below = f"redefinition of SSA value '{name}'", "previously defined here"
    else:
        words = f"region entry argument '{name}' is already in use"
        below = "previously referenced here"
    notes = () if before is None else ((below, before),)
    return Fault(words, context.position, notes)


def _defined_otherwise(context: Context, found: Match[str]) -> Fault:
    name, index = found[1], found[2] or "0"
    first = _first_use(name, context)
    note = f"previously used here with type '{found[4]}'"
    return Fault(
        f"definition of SSA value '{name}#{index}' has type '{found[3]}'",
        context.position,
        () if first is None else ((note, first),),
    )


def _unknown_custom(context: Context, found: Match[str]) -> Fault:
    name, position = context.op_name, context.op or context.position
    dialect = name.rpartition(".")[0].partition(".")[0]
    if dialect in context.dialects:
        return Fault(f"custom op '{name}' is unknown", position)
    if dialect:
        known = f"Available dialects: {', '.join(sorted(context.dialects))}"
        message = f"Dialect `{dialect}' not found for custom op '{name}' "
        return Fault(message, position, ((known, position),))
    if re.fullmatch(r"[su]?i\d+", name):
        return Fault(_NO_OP, behind_token(context.text, position))
    around = _OP_AROUND.findall(context.before)
    tried = f"{around[-1] if around else 'builtin'}.{name}"
    return Fault(f"custom op '{name}' is unknown (tried '{tried}' as well)", position)


_OP_AROUND = re.compile(r"\b(func)\.func\b")


def _array_type(context: Context, found: Match[str]) -> Fault:
    end = context.text.find(":", context.position)
    kind = context.text[context.position : end].strip()
    return Fault(f"expected integer or float type, got: '{kind}'", context.position)


def _integer_range(context: Context, found: Match[str]) -> Fault:
    number = found[1]
    place = context.text.rfind(number, 0, context.position)
    is_unsigned = found[2].startswith("ui") and number.startswith("-")
    place += is_unsigned
    words = (
        "negative integer literal not valid for unsigned integer type"
        if is_unsigned
        else "integer constant out of range for attribute"
    )
    return Fault(words, place if place >= 0 else context.position)


def _end_of_line(context: Context, found: Match[str]) -> Fault:
    end = context.text.find("\n", context.position)
    return Fault("expected '\"' in string literal", end if end >= 0 else len(context.text))


def _inferred(context: Context, found: Match[str]) -> Fault:
    position = context.text.rfind("attributes", 0, context.position)
    message = (
        f"custom op '{context.op_name}' '{found[1]}' is an inferred attribute and should not be "
        "specified in the explicit attribute dictionary"
    )
    return Fault(message, position if position >= 0 else context.position)


def _no_float(context: Context, found: Match[str]) -> Fault:
    note = "add a trailing dot to make the literal a float", context.position
    return Fault(found[0], context.position, (note,))


_NO_TYPE = "expected non-function type"
_NO_OP = "expected operation name in quotes"

_RULES: tuple[tuple[re.Pattern[str], _Rule], ...] = tuple(
    (re.compile(pattern), rule)
    for pattern, rule in (
        (r"'\)' expected in operation argument list", _token("expected ')' to end operand list")),
        (r"'\)' expected in operation region list", _token("expected ')' to end region list")),
        (r"'\]' expected", _square),
        (r"'\}' expected", _token("expected '}}' in attribute dictionary")),
        (r"'(.+)' expected", _token("expected '{1}'")),
        (r"Expected '([<>])' (?:after builtin name|after builtin parameter list)", _parameters),
        (r"Expected ':'function type", _token("expected ':' followed by operation type")),
        (r"Expected '='\s*after attribute alias name", _alias_equals),
        (r"Expected '=' after operation result", _token("expected '=' after SSA name")),
        (r"Expected ':'", _colon),
        (r"Expected '(\W+)'", _token("expected '{1}'")),
        (r"Expected '(\w+)'", _custom("expected '{1}'")),
        (
            r"(?:type expected|Expected (?:shape type|vector element type|argument or type))",
            _token(_NO_TYPE),
        ),
        (r"attribute expected", _attribute),
        (r"function type expected", _at("expected function type")),
        (r"block argument expected", _token("expected SSA operand")),
        (r"(?:successor|block-id) expected", _token("expected block name")),
        (r"Expected three consecutive", _at("expected three consecutive dots for an ellipsis", 1)),
        (r"Expected suffix identifier", _at("invalid type identifier")),
        (r"undefined symbol alias '[!#](.*)'", _at("undefined symbol alias id '{1}'")),
        (
            r"(?:Could not parse entire input|\s*in block definition|operation name expected)",
            _token(_NO_OP),
        ),
        (r"re-declaration of alias '(.*)'", _alias_twice),
        (r"re-declaration of block '(.*)'", _at("redefinition of block '^{1}'")),
        (r"Expected SSA value tuple size", _token("expected integer number of results")),
        (r"Expected result SSA value", _token("expected valid ssa identifier")),
        (r"Operation has (\d+) results, but was given (\d+) to bind", _bound),
        (
            r"Duplicate key '(.*)' in dictionary attribute",
            _at_last("duplicate key '{1}' in dictionary attribute", r"\b(?={1}\b)"),
        ),
        (r"Expected integer literal", _at("expected integer literal")),
        (r"expect(?:ed)? symbol name", _custom("expected valid '@'-identifier for symbol name")),
        (r"string literal expected", _token("expected string")),
        (r"End of file reached before closing string", _end_of_line),
        (r"Integer value (-?\d+) is out of range for type (\w+)", _integer_range),
        (
            r"Floating point value is not valid for integer type",
            _at("floating point value not valid for specified type"),
        ),
        (
            r"Shape mismatch in dense literal\. Expected (.*) shape .*, but got (.*) shape",
            _at_last(
                "inferred shape of elements literal ({2}) does not match type ({1})", "(?=dense<)"
            ),
        ),
        (
            r"Tensor literal has inconsistent ranks between elements",
            _at("tensor literal is invalid; ranks are not consistent between elements", -1),
        ),
        (
            r"Expected memref, vector or tensor type",
            _at_last("elements literal must be a shaped type", "(?=dense<)"),
        ),
        (
            r"Expected integer value$",
            _at("expected integer elements, but parsed floating-point"),
        ),
        (
            r"Complex type must be parameterized",
            _at_last("invalid element type for complex", "complex<"),
        ),
        (
            r"Invalid type given for integer or float attribute",
            _at_last("integer literal not valid for specified type", r"(?=-?\b\d+ *:)"),
        ),
        (r"unexpected decimal integer literal for a floating point value", _no_float),
        (r"Identifier not in space", _at("use of undeclared identifier")),
        (r"Unsupported location type", _at_last("expected location instance", r"loc\(")),
        (r"Expected region", _token("expected '{{' to begin a region")),
        (r"(?:operand expected|Expected an operand)", _operand),
        (
            r"@ identifier expected to start",
            _at("@ identifier expected to start with letter or '_'", 1),
        ),
        (r"Unexpected character", _at("unexpected character")),
        (r"Operation \S+ does not have a custom format", _unknown_custom),
        (
            r"operand is used with type (.*), but has been .* with type (.*)",
            _other_type,
        ),
        (
            r"expected (\d+) operand types but had (\d+)",
            _at("expected {2} operand types but had {1}"),
        ),
        (r"SSA value tuple index out of bounds", _at("reference to invalid result number")),
        (
            r"Result (%[^ #]+)(?:#(\d+))? is defined with type (.*), but used with type (.*)",
            _defined_otherwise,
        ),
        (r"SSA value (%\S+) is already defined", _redefined),
        (r"SSA value used before assignment", _at("use of undeclared SSA value name")),
        (
            r"Attribute dictionary entry '(.*)' is already passed",
            _inferred,
        ),
        (
            r"dense array element type must be",
            _array_type,
        ),
    )
)
"""By the message of xDSL's parser: upstream's."""
