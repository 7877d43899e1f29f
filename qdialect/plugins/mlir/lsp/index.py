"""What the names in a text stand for: an index of one chunk of a file.

It is made by `scan`, from tokens alone, and answers for text that does not parse as for any other.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from qdialect.plugins.mlir.lsp.entities import (
    Entity,
    Found,
    Kind,
    Op,
    Outline,
    Scope,
    Span,
    Stopped,
)


class Index:
    """The entities of a chunk. `goes_on` is asked now and then; Stopped when it says no."""

    def __init__(self, text: str, goes_on: Callable[[], bool] = lambda: True) -> None:
        found = scan(text, goes_on)
        self.text = text
        self.scopes, self.entities = found.scopes, found.entities
        self.ops, self.outline, self.comments = found.ops, found.outline, found.comments
        occurrences = sorted(
            (span, number) for number, each in enumerate(self.entities) for span in each.spans()
        )
        self._starts = [span.start for span, _ in occurrences]
        self._occurrences = occurrences
        self._op_starts = [op.span.start for op in self.ops]

    def at(self, offset: int) -> tuple[Entity, Span] | None:
        """The entity whose name is at `offset`, and that occurrence of it."""
        place = bisect_right(self._starts, offset) - 1
        if place < 0:
            return None
        span, number = self._occurrences[place]
        return (self.entities[number], span) if offset <= span.end else None

    def op_at(self, offset: int) -> Op | None:
        """The op whose name is at `offset`."""
        place = bisect_right(self._op_starts, offset) - 1
        found = self.ops[place] if place >= 0 else None
        return found if found is not None and offset <= found.span.end else None

    def op_before(self, offset: int) -> Op | None:
        """The last op whose name starts before `offset`."""
        place = bisect_right(self._op_starts, offset) - 1
        return self.ops[place] if place >= 0 else None

    def scope_at(self, offset: int) -> int:
        """The number of the innermost scope around `offset`."""
        best = 0
        for number in range(1, len(self.scopes)):
            span = self.scopes[number].span
            if span.start > offset:
                break
            if span.end >= offset:
                best = number
        return best

    def visible(self, offset: int, kind: Kind) -> Iterator[Entity]:
        """The entities of a kind that can be named at `offset`: of values those that are defined
        on a line before."""
        number, seen = self.scope_at(offset), set[str]()
        line = self.text.rfind("\n", 0, offset) + 1
        while number >= 0:
            scope = self.scopes[number]
            for name, group in scope.names.items():
                for each in group:
                    at = each.definition
                    before = at is not None and (kind != "value" or at.end < line)
                    if each.kind == kind and before and name not in seen:
                        seen.add(name)
                        yield each
            number = scope.parent


# Finds names and scopes in the tokens of a text, also of one that does not parse.
#
# Scopes are what braces make of it:
#
#     func.func @f(%x: i32) -> i32 {       a header defines %x for the region behind it
#       %0:2 = "a.b"(%x) : ...             a result list defines %0, used as %0#0 and %0#1
#       cf.br ^bb1(%0#1 : i32)
#     ^bb1(%y: i32):                       a label at the start of a line defines a block and %y
#       return %y : i32
#     }
#
# Names are looked up from the scope of the use outwards. Whether braces hold a region or a
# dictionary is told by what stands behind the opening one; a dictionary defines nothing.

_TOKEN = re.compile(
    r"(//[^\n]*)"
    r'|("(?:[^"\\\n]|\\.)*"?)'
    r"|(%[\w$.-]+)(?:[:#][0-9]+)?"
    r"|(\^[\w$.-]+)"
    r'|(@(?:[\w$.-]+|"[^"\n]*"?))'
    r"|(\{-?#?|#?-?\}|[()])"
    r"|(?:tensor|memref|vector|tuple)<[^<>\"%@^{}()!#]*(?:!\w+\.[\w.]+<[^<>\"%@^{}()!#]*>)?>"
    r"|([#!](?:[A-Za-z$._-][\w$.-]*|[0-9]+)(?![\w$.<-]))"
    r"|([A-Za-z_][\w$.]*)"
    r"|\[[0-9\[\], .+-]+|[0-9][\w.+-]*"
)
_COMMENT, _STRING, _VALUE, _BLOCK, _SYMBOL, _BRACE, _ALIAS, _WORD = range(1, 9)

_AFTER = re.compile(r"[ \t\r\n]*(=(?!=)|:(?!:)|,|\(|\{|in\b|\}|\^|%|\)|\")?")
_DICTIONARY = re.compile(
    r'\s*(?:[}{0-9.+-]|(?:[A-Za-z_][\w$.-]*|"(?:[^"\\\n]|\\.)*")[ \t]*(?:=(?!=)|,|\}))'
)
_RESULTS = re.compile(r"(?:[ \t]*,[ \t]*%[\w$.-]+(?::[0-9]+)?)*[ \t]*=(?!=)")
_LABEL = re.compile(r"[ \t]*(?:\((?:[^()]|\([^()]*\))*\))?[ \t]*:")
_BARE_OPS = frozenset(("module", "func", "return", "call", "br", "cond_br", "constant", "yield"))
_DEFINES_SYMBOL = re.compile(
    r"(?:^|[._])(?:func(?:_op)?|module|global\w*|pattern|class|kernel|sequence)$"
)
_SYMBOL_BEFORE = re.compile(r'(?:@(?:[\w$.-]+|"[^"\n]*")|\b(?:workgroup|private))$')
_ARGUMENTS_BEFORE = re.compile(r"\breducer$")
_LABEL_BEFORE = re.compile(r"\^[\w$.-]+$")
_VALUES_ONLY = re.compile(r"\([\s%\w$.,-]*")
_ANONYMOUS = re.compile(r"[)\]\n]\s*$")
_LONE_OP = re.compile(r"[ \t]*\r?\n\s*[\w$]+\.[\w$.]+[ \t]*\r?\n\s*\}")
"""A brace, then on a line of its own an op without anything else."""
_NESTED = re.compile(r"::[ \t]*$")
_KEY = re.compile(r"nn\.key[ \t]*=[ \t]*\[?[ \t]*$")
_NAME_ATTRIBUTE = re.compile(r"sym_name[ \t]*=[ \t]*$")

CHECK_EVERY = 20_000
"""After how many tokens an index that is being made asks whether it is still asked for."""


def scan(text: str, goes_on: Callable[[], bool]) -> Found:
    """What is in a text. `goes_on` is asked now and then; Stopped when it says no."""
    found = Found(text, [Scope(-1, Span(0, len(text)))])
    _Reader(found, goes_on).run()
    return found


@dataclass
class _Open:
    """An open brace or parenthesis; of a region, also the statement it is at."""

    mark: str
    """`{` a region, `d` a dictionary, `(`; `@(` the arguments of a function, `^(` those of a
    block, `((` other values that the header of an op defines."""
    scope: int
    outline: list[Outline]
    op: str = ""
    op_start: int = 0
    #: the names in front of the op
    results: list[tuple[Entity, Span]] = field(default_factory=list[tuple[Entity, Span]])
    #: names that the header of the op has defined so far, for the region that follows
    header: list[Entity] = field(default_factory=list[Entity])
    symbol: Entity | None = None
    shown: Outline | None = None
    """What the outline has of the statement."""

    @property
    def statement(self) -> int:
        """Where the statement starts."""
        return self.results[0][1].start if self.results else self.op_start


class _Use(NamedTuple):
    kind: Kind
    name: str
    span: Span
    scope: int
    nested: bool
    """Whether it is in the symbol table of the symbol in front."""


class _Reader:
    """One pass over the tokens, then the uses find their definitions."""

    def __init__(self, found: Found, goes_on: Callable[[], bool]) -> None:
        self.found, self.text, self.goes_on = found, found.text, goes_on
        self.stack = [_Open("{", 0, found.outline)]
        #: the region around what is open, without parentheses and dictionaries
        self.regions = [self.stack[0]]
        self.uses: list[_Use] = []

    def run(self) -> None:
        for count, found in enumerate(_TOKEN.finditer(self.text)):
            if count % CHECK_EVERY == 0 and not self.goes_on():
                raise Stopped
            kind = found.lastindex
            if kind == _VALUE:
                self._value(found)
            elif kind == _WORD:
                self._word(found.group(), found.start())
            elif kind == _BRACE:
                self._brace(found.group(), found.start(), found.end())
            elif kind == _STRING:
                self._string(found.group(), found.start(), found.end())
            elif kind == _SYMBOL:
                self._symbol(found.group(), Span(*found.span()))
            elif kind == _BLOCK:
                self._block(found.group(), Span(*found.span()))
            elif kind == _ALIAS:
                self._alias(found.group(), Span(*found.span()))
            elif kind == _COMMENT:
                self.found.comments.append(Span(*found.span()))
        while len(self.stack) > 1:
            self._close(len(self.text))
        self._resolve()

    # -- definitions -----------------------------------------------------------

    def _define(self, kind: Kind, name: str, span: Span, scope: int, op: str = "") -> Entity:
        entity = Entity(kind, name, span, op=op)
        self.found.entities.append(entity)
        self._add(entity, scope)
        return entity

    def _add(self, entity: Entity, scope: int) -> None:
        self.found.scopes[scope].names.setdefault(entity.name, []).append(entity)

    def _at_statement(self, start: int) -> bool:
        """Whether a statement begins at `start`: in a region, first on its line or behind a
        brace or a label."""
        if self.stack[-1].mark != "{":
            return False
        before = start - 1
        while before >= 0 and self.text[before] in " \t":
            before -= 1
        return before < 0 or self.text[before] in "\n\r{}:"

    def _value(self, found: re.Match[str]) -> None:
        top, region = self.stack[-1], self.regions[-1]
        name, start = found.group(3), found.start()
        span = Span(start, start + len(name))
        after = _next(self.text, found.end())
        if top is region and after in ("=", ","):
            begins = self._at_statement(start)
            if begins:
                region.results = []
                region.op = ""
            listed = (begins or region.results) and not region.op
            if listed and _RESULTS.match(self.text, found.end()):
                region.results.append((self._define("value", name, span, top.scope), span))
                return
        if not self._is_header(top, region, after, found.group()):
            self.uses.append(_Use("value", name, span, region.scope, False))
            return
        if top.mark == "^(":
            self._define("value", name, span, region.scope)
            return
        entity = Entity("value", name, span, op=region.op)
        self.found.entities.append(entity)
        region.header.append(entity)

    def _is_header(self, top: _Open, region: _Open, after: str, text: str) -> bool:
        """Whether the header of an op, or a label, defines the value `text`."""
        if top.mark in ("@(", "^("):
            return after in (":", ",", ")") and "#" not in text
        return top.mark == "((" or (after == "=" and bool(region.op))

    # -- words, strings, symbols, blocks, aliases --------------------------------

    def _word(self, word: str, start: int) -> None:
        region = self.regions[-1]
        if self.stack[-1] is not region or not ("." in word or word in _BARE_OPS):
            return
        if (region.results and not region.op) or self._at_statement(start):
            self._begin(word, Span(start, start + len(word)))

    def _begin(self, name: str, span: Span) -> None:
        region = self.regions[-1]
        if region.op:
            region.results = []
        region.op, region.op_start = name, span.start
        region.header, region.symbol, region.shown = [], None, None
        for entity, _ in region.results:
            entity.op = name
        self.found.ops.append(Op(name, span, region.scope))

    def _string(self, text: str, start: int, end: int) -> None:
        region = self.regions[-1]
        if self.stack[-1] is region:
            if self.text[end : end + 1] == "(" and (
                (region.results and not region.op) or self._at_statement(start)
            ):
                self._begin(text[1:-1], Span(start, end))
            return
        before = self.text[max(0, start - 24) : start]
        if _NAME_ATTRIBUTE.search(before):
            self._define_symbol("@" + text[1:-1], Span(start + 1, end - 1))
        elif region.op and self.stack[-2] is region and _KEY.search(before):
            whole = Span(region.statement, end)
            region.outline.append(Outline(text[1:-1], region.op, "key", Span(start, end), whole))

    def _define_symbol(self, name: str, span: Span) -> None:
        region = self.regions[-1]
        region.symbol = self._define("symbol", name, span, region.scope, region.op)
        whole = Span(region.statement, span.end)
        region.shown = Outline(name, region.op, "symbol", span, whole)
        region.outline.append(region.shown)

    def _symbol(self, name: str, span: Span) -> None:
        if name.startswith('@"'):
            name = "@" + name[2:].rstrip('"')
        region = self.regions[-1]
        if (
            self.stack[-1] is region
            and region.symbol is None
            and _DEFINES_SYMBOL.search(region.op)
            and not re.search(r"[=(]", self.text[region.op_start : span.start])
        ):
            self._define_symbol(name, span)
            return
        before = self.text[max(0, span.start - 8) : span.start]
        nested = _NESTED.search(before) is not None
        self.uses.append(_Use("symbol", name, span, region.scope, nested))

    def _block(self, name: str, span: Span) -> None:
        region = self.regions[-1]
        if self._at_statement(span.start) and _LABEL.match(self.text, span.end):
            self._define("block", name, span, region.scope)
            region.op, region.results = "", []
        else:
            self.uses.append(_Use("block", name, span, region.scope, False))

    def _alias(self, name: str, span: Span) -> None:
        starts_line = not self.text[max(0, span.start - 1) : span.start].strip("\n\r")
        if starts_line and _next(self.text, span.end) == "=":
            self._define("alias", name, span, 0)
        else:
            self.uses.append(_Use("alias", name, span, 0, False))

    # -- braces ----------------------------------------------------------------

    def _brace(self, mark: str, start: int, end: int) -> None:
        top = self.stack[-1]
        if mark == "(":
            self.stack.append(_Open(self._parenthesis(top, start), top.scope, []))
        elif mark == ")":
            if "(" in top.mark:
                self.stack.pop()
        elif mark[0] == "{":
            self._open(mark, start, end)
        elif any("(" not in each.mark for each in self.stack[1:]):
            while "(" in self.stack[-1].mark:
                self.stack.pop()
            self._close(end)

    def _parenthesis(self, top: _Open, start: int) -> str:
        """What a parenthesis holds; see `_Open.mark`."""
        if top.mark != "{":
            return "("
        before = self.text[max(0, start - 300) : start].rstrip(" \t")
        if top.symbol is not None and _SYMBOL_BEFORE.search(before):
            return "@("
        if not top.op:
            return "^(" if _LABEL_BEFORE.search(before) else "("
        if _ARGUMENTS_BEFORE.search(before):
            return "@("
        if self.text[end_of_blank(self.text, start + 1)] != "%":
            return "("
        closing = self.text.find(")", start)
        inner = self.text[start:closing]
        after = _next(self.text, closing + 1)
        if after in ("=", "in") and _VALUES_ONLY.fullmatch(inner):
            return "(("
        return "@(" if after in ("{", "(") and ":" in inner and _ANONYMOUS.search(before) else "("

    def _open(self, mark: str, start: int, end: int) -> None:
        top, region = self.stack[-1], self.regions[-1]
        holds_ops = mark == "{" and (
            _DICTIONARY.match(self.text, end) is None or _LONE_OP.match(self.text, end) is not None
        )
        is_region = holds_ops and (top is region or (top.mark == "(" and self._is_list(start)))
        if not is_region:
            self.stack.append(_Open("d", region.scope, []))
            return
        number = len(self.found.scopes)
        self.found.scopes.append(Scope(region.scope, Span(end, len(self.text))))
        outline = region.shown.children if region.shown is not None else region.outline
        opened = _Open("{", number, outline)
        self.stack.append(opened)
        self.regions.append(opened)
        # All regions of an op see what its header defines.
        for entity in region.header:
            self._add(entity, number)
        if region.symbol is not None and region.symbol.body < 0:
            region.symbol.body = number

    def _is_list(self, start: int) -> bool:
        return self.text[max(0, start - 16) : start].rstrip()[-1:] in ("(", ",")

    def _close(self, end: int) -> None:
        closed = self.stack.pop()
        if "(" in closed.mark:
            return
        if closed is self.regions[-1]:
            scope = self.found.scopes[closed.scope]
            scope.span = Span(scope.span.start, end)
            self.regions.pop()
            shown = self.regions[-1].shown
            if shown is not None:
                shown.whole = Span(shown.whole.start, end)

    # -- uses --------------------------------------------------------------------

    def _resolve(self) -> None:
        missing: dict[tuple[Kind, str, int], Entity] = {}
        last: Entity | None = None
        for use in self.uses:
            around = use.scope
            if use.nested:
                around = last.body if last is not None else -1
            entity = self._lookup(use, around)
            if entity is None and not (use.kind == "alias" and "." in use.name):
                # Uses of what nobody defines belong together, in one region.
                key = use.kind, use.name, use.scope
                entity = missing.get(key)
                if entity is None:
                    entity = missing[key] = Entity(use.kind, use.name, None)
                    self.found.entities.append(entity)
            if entity is not None:
                entity.uses.append(use.span)
            last = entity if use.kind == "symbol" else None

    def _lookup(self, use: _Use, number: int) -> Entity | None:
        while number >= 0:
            scope = self.found.scopes[number]
            group = scope.names.get(use.name)
            if group:
                before = [each for each in group if each.definition and each.definition < use.span]
                return before[-1] if before else group[0]
            number = scope.parent
        return None


def _next(text: str, position: int) -> str:
    """The mark behind `position`, across blanks and line ends, if it is one that matters."""
    found = _AFTER.match(text, position)
    return (found.group(1) or "") if found else ""


def end_of_blank(text: str, position: int) -> int:
    """The position of the next character that is not blank; the last one if there is none."""
    while position < len(text) - 1 and text[position].isspace():
        position += 1
    return min(position, len(text) - 1)
