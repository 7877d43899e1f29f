"""Pass pipelines as text: `a,b{x=1 y=foo}` and `builtin.module(a,func.func(b))`.

    pipeline ::= element (`,` element)*
    element  ::= anchor `(` pipeline? `)` | pass
    pass     ::= name (`{` option* `}`)?
    option   ::= key (`=` value)?
    value    ::= item (`,` item)*
    item     ::= word | string | `{` anything balanced `}`

An anchor is the name of an op: its passes run on the ops of this name right inside of the
op around it; `any` stands for every name.  The module that the pipeline runs on is around all:
`builtin.module(a)` is `a` on it, and `builtin.module(builtin.module(a),func.func(b))` runs
`a` on the modules in it and `b` on its functions (see `anchors.py`).

An option without a value is a flag.  `-` and `_` are the same in names of options.

Errors have upstream's words and columns, which count from behind `builtin.module(`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from qdialect.errors import UsageError, Where

_NAME = re.compile(r"[A-Za-z][\w.-]*")
_WORD = re.compile(r"[^\s,{}()=\"']+")
_STRING = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'([^']*)'")
_SPACE = re.compile(r"\s*")
_PLAIN = re.compile(r"[^\s,{}()=\"']+")

ANY = "any"
"""The anchor that is every op."""

PARSER = "MLIR Textual PassPipeline Parser"
"""What upstream calls the text of a pipeline in errors."""
_WRAPPED = re.compile(r"\s*(?:builtin\.module|any)\s*\(")

Options = tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class PassSpec:
    """One pass of a pipeline: its name, its options in the order given, and the anchors around
    it, the outermost first, without the module that the pipeline runs on.

    An option's values are texts; a flag has none.
    """

    name: str
    options: Options = ()
    anchors: tuple[str, ...] = ()
    where: Where | None = field(default=None, compare=False, repr=False)
    """Its place in the text of the pipeline."""

    @property
    def without_anchors(self) -> str:
        """The pass with its options, as in a pipeline."""
        if not self.options:
            return self.name
        return f"{self.name}{{{' '.join(_option_text(k, v) for k, v in self.options)}}}"

    def __str__(self) -> str:
        text = self.without_anchors
        for anchor in reversed(self.anchors):
            text = f"{anchor}({text})"
        return text


def parse_pipeline(text: str) -> list[PassSpec]:
    """The passes of a pipeline; UsageError (`bad-pipeline`) says what and where."""
    anchor = _anchor_around(text)
    reader = _Reader(text) if anchor is None else _Reader(text, *anchor)
    specs = reader.pipeline(closing="")
    reader.expect_end()
    return specs


def pipeline_text(specs: Iterable[PassSpec]) -> str:
    """The anchored form, as mlir-opt writes it."""
    return f"builtin.module({','.join(map(str, specs))})"


def pipeline_outline(specs: Iterable[PassSpec]) -> str:
    """The anchored form on lines of their own, as `--dump-pass-pipeline` shows it."""
    listed = list(specs)
    lines: list[str] = [f"Pass Manager with {len(listed)} passes:", "builtin.module("]
    open_anchors: tuple[str, ...] = ()
    for spec in listed:
        shared = 0
        for one, other in zip(open_anchors, spec.anchors, strict=False):
            if one != other:
                break
            shared += 1
        for depth in range(len(open_anchors), shared, -1):
            lines.append("  " * depth + ")")
        if lines[-1] != "builtin.module(":
            lines[-1] += ","
        for depth in range(shared, len(spec.anchors)):
            lines.append("  " * (depth + 1) + f"{spec.anchors[depth]}(")
        lines.append("  " * (len(spec.anchors) + 1) + spec.without_anchors)
        open_anchors = spec.anchors
    lines += ["  " * depth + ")" for depth in range(len(open_anchors), 0, -1)]
    return "\n".join((*lines, ")", ""))


def _option_text(key: str, values: tuple[str, ...]) -> str:
    if not values:
        return key
    return f"{key}={','.join(v if _PLAIN.fullmatch(v) else _quoted(v) for v in values)}"


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _anchor_around(text: str) -> tuple[int, int] | None:
    """Where what is inside of one `builtin.module(..)` or `any(..)` begins and ends, if the text
    is that."""
    found = _WRAPPED.match(text)
    stripped = text.rstrip()
    if found is None or not stripped.endswith(")"):
        return None
    depth = 1
    for position in range(found.end(), len(stripped)):
        depth += {"(": 1, ")": -1}.get(stripped[position], 0)
        if not depth and stripped[position + 1 :].lstrip().startswith(","):
            return None  # the first of several
    return found.end(), len(stripped) - 1


class _Reader:
    def __init__(self, text: str, start: int = 0, end: int | None = None) -> None:
        #: where columns are counted from
        self.start = start
        self.text = text[:end]
        self.position = start
        #: where the last pass or anchor begins
        self.last = 0
        #: the anchors around what is read; None outside of any
        self.anchors: tuple[str, ...] | None = () if start else None

    def fail(self, message: str, position: int | None = None) -> UsageError:
        position = self.position if position is None else position
        column = max(position - self.start, 0)
        return UsageError(
            message,
            where=self.where(position),
            code="bad-pipeline",
            notes=(self.text[self.start :], " " * column + "^"),
        )

    def where(self, position: int) -> Where:
        """The place of a position, for errors."""
        return Where(PARSER, 1, max(position - self.start, 0) + 1)

    def skip(self) -> None:
        found = _SPACE.match(self.text, self.position)
        assert found is not None
        self.position = found.end()

    def accept(self, character: str) -> bool:
        self.skip()
        if not self.text.startswith(character, self.position):
            return False
        self.position += 1
        return True

    def expect_end(self) -> None:
        self.skip()
        if self.position < len(self.text):
            character = self.text[self.position]
            raise self.fail(
                "encountered extra closing ')' creating unbalanced parentheses while parsing "
                "pipeline"
                if character == ")"
                else f"expected ',' after parsing pass, not '{character}'"
            )

    def pipeline(self, closing: str) -> list[PassSpec]:
        """Elements up to (and not including) `closing` or the end of the text."""
        specs: list[PassSpec] = []
        self.skip()
        if self.text.startswith(closing, self.position) if closing else self._at_end():
            return specs
        while True:
            specs.extend(self.element())
            if not self.accept(","):
                return specs

    def _at_end(self) -> bool:
        return self.position >= len(self.text)

    def element(self) -> list[PassSpec]:
        self.skip()
        found = _NAME.match(self.text, self.position)
        if found is None:
            raise self.fail("'' does not refer to a registered pass or pass pipeline")
        begin = self.last = found.start()
        self.position = found.end()
        if self.accept("("):
            around = self.anchors
            is_given = around is None and found.group() in ("builtin.module", ANY)
            self.anchors = () if is_given else (*(around or ()), found.group())
            specs = self.pipeline(")")
            self.anchors = around
            if not self.accept(")"):
                raise (
                    self.fail(
                        "encountered unbalanced parentheses while parsing pipeline", self.last
                    )
                    if self._at_end()
                    else self.fail("expected ',' after parsing pass")
                )
            return specs
        options = self.options() if self.accept("{") else ()
        where = self.where(begin)
        return [PassSpec(found.group(), options, self.anchors or (), where)]

    def options(self) -> Options:
        opened = self.position - 1
        if "}" not in self.text[self.position :]:
            raise self.fail("missing closing '}' while processing pass options", opened)
        options: list[tuple[str, tuple[str, ...]]] = []
        while not self.accept("}"):
            self.accept(",")
            self.skip()
            if self._at_end():
                raise self.fail("missing closing '}' while processing pass options", opened)
            found = _WORD.match(self.text, self.position)
            if found is None:
                raise self.fail("expected the name of an option")
            self.position = found.end()
            options.append((found.group(), self.values() if self.accept("=") else ()))
        return tuple(options)

    def values(self) -> tuple[str, ...]:
        if self.accept("{"):
            values = [self.item()]
            while self.accept(","):
                values.append(self.item())
            if not self.accept("}"):
                raise self.fail("expected ',' or '}'")
            return tuple(values)
        values = [self.item()]
        while self.text.startswith(",", self.position) and not self._next_is_option():
            self.position += 1
            values.append(self.item())
        return tuple(values)

    def _next_is_option(self) -> bool:
        """Whether `,` is followed by `key=`: a separator of options, not of values."""
        found = _WORD.match(self.text, self.position + 1)
        return found is not None and self.text.startswith("=", found.end())

    def item(self) -> str:
        self.skip()
        string = _STRING.match(self.text, self.position)
        if string is not None:
            self.position = string.end()
            if string.group(1) is None:
                return string.group(2)
            return re.sub(r"\\(.)", r"\1", string.group(1))
        word = _WORD.match(self.text, self.position)
        if word is None:
            raise self.fail("expected a value")
        self.position = word.end()
        return word.group()
