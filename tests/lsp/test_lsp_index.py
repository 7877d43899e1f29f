"""The index of names, held against the parser where text parses and against the eye where not."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from qdialect.errors import QError
from qdialect.ir.context import new_context
from qdialect.plugins.mlir.lsp.checks import read, split
from qdialect.plugins.mlir.lsp.entities import Entity, Outline, Stopped
from qdialect.plugins.mlir.lsp.index import Index
from qdialect.plugins.mlir.lsp.text import Text, carried

LIT = Path(__file__).parents[2] / "lit_tests"

REGIONS = """#map = affine_map<(d0) -> (d0)>
!q = !quant.uniform<i8:f32, 0.5>
module @outer {
  func.func private @g(i32) -> i32
  func.func @f(%x: tensor<4x!q> {nn.key = "in"}, %y: i32) -> i32 attributes {a = 1 : i32} {
    %0:2 = "test.op"(%y) ({
    ^bb0(%z: i32):
      %q = arith.addi %z, %y : i32
      "test.termop"(%q) : (i32) -> ()
    }) {nn.key = "k", m = #map} : (i32) -> (i32, i32)
    %r = scf.for %i = %c to %c step %c iter_args(%acc = %y) -> (i32) {
      %q = arith.addi %acc, %0#1 : i32
      scf.yield %q : i32
    }
    %c = arith.constant 0 : index
    %w = func.call @g(%r) : (i32) -> i32
    cf.cond_br %b, ^bb1(%w : i32), ^bb2
  ^bb1(%a: i32):  // %x in a comment, and "%y
    return %a : i32
  ^bb2:
    "test.use"(%y) {text = "%x ^bb1 @f }"} : (i32) -> ()
  }
  module @inner {
    func.func @f() {
      %y = arith.constant 1 : i32
      call @g() : () -> ()
    }
    func.func private @g()
  }
  "test.use"() {callee = @inner::@g} : () -> ()
}
"""


def lines(index: Index, entity: Entity) -> tuple[int | None, list[int]]:
    """The line of the definition and those of the uses, from 1."""
    line = lambda at: index.text.count("\n", 0, at) + 1  # noqa: E731
    defined = None if entity.definition is None else line(entity.definition.start)
    return defined, [line(span.start) for span in entity.uses]


def found(index: Index, kind: str, name: str) -> list[tuple[int | None, list[int]]]:
    return [lines(index, e) for e in index.entities if (e.kind, e.name) == (kind, name)]


def test_names_are_looked_up_in_the_regions_around() -> None:
    index = Index(REGIONS)
    assert found(index, "value", "%y") == [(5, [6, 8, 11, 21]), (25, [])]
    assert found(index, "value", "%q") == [(8, [9]), (12, [13])]
    assert found(index, "value", "%0") == [(6, [12])]
    assert found(index, "value", "%acc") == [(11, [12])]
    assert found(index, "value", "%c") == [(15, [11, 11, 11])]
    assert found(index, "value", "%x") == [(5, [])]
    assert found(index, "value", "%b") == [(None, [17])]
    assert found(index, "block", "^bb1") == [(18, [17])]
    assert found(index, "block", "^bb2") == [(20, [17])]
    assert found(index, "alias", "!q") == [(2, [5])]
    assert found(index, "alias", "#map") == [(1, [10])]


def flat(outlines: list[Outline]) -> Iterator[Outline]:
    for each in outlines:
        yield each
        yield from flat(each.children)


def test_symbols_are_looked_up_in_their_tables() -> None:
    index = Index(REGIONS)
    assert found(index, "symbol", "@g") == [(4, [16]), (28, [26, 30])]
    assert found(index, "symbol", "@inner") == [(23, [30])]
    outline = [(each.name, each.detail) for each in flat(index.outline)]
    assert outline == [
        *(("@outer", "module"), ("@g", "func.func"), ("@f", "func.func"), ("k", "test.op")),
        *(("@inner", "module"), ("@f", "func.func"), ("@g", "func.func")),
    ]


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        (
            '"func.func"() <{sym_name = "f"}> ({\n^bb0(%a: i32):\n  "t.r"(%a)\n}) : () -> ()',
            "%a",
            2,
        ),
        ("scf.parallel (%i, %j) = (%a, %a) to (%b, %b) step (%c, %c) {\n  t.use %j\n}", "%j", 1),
        ("linalg.map ins(%x : t) outs(%y : t)\n  (%in: f32, %o: f32) {\n  t.use %in\n}", "%in", 2),
        ("scf.forall (%i) in (4) shared_outs(%o = %t) -> (u) {\n  t.use %i, %o\n}", "%o", 1),
        ("gpu.launch blocks(%x, %y) in (%a = %c, %b = %c) {\n  t.use %a, %x\n}", "%x", 1),
        ("s.reduce(%x init: %y) : t\n reducer(%a: t, %b: t) {\n  t.use %a\n}", "%a", 2),
        ("s.reduce(%x) :\n reducer(%a: t, %b: t)\n  (%c: t, %d: t)\n{\n  t.use %d\n}", "%d", 3),
        ("s.while(%i = %n) : t cond {\n  t.use %i\n} do {\n  t.use %i\n}", "%i", 1),
        ("func.func @f(%a: i32\n  , %b: i32) {\n  t.use %b\n", "%b", 2),
        ('func.func @"a b"(%a: i32) {\n  t.use %a\n', "%a", 1),
        ("%a, %b:2 = t.two\nt.use %b#1, %a", "%b", 1),
        ("%a = t.one\n%b = \n%c = t.two %a\n", "%a", 1),
        (
            "func.func @f(%a: tensor<2x!quant.uniform<i8:f32:0, {0.5, 0.25}>>) {\n t.u %a\n}",
            "%a",
            1,
        ),
    ],
)
def test_headers_define_values(text: str, name: str, expected: int) -> None:
    (each,) = [e for e in Index(text).entities if (e.kind, e.name) == ("value", name)]
    defined, uses = lines(Index(text), each)
    assert defined == expected
    assert uses


def parsed() -> Iterator[tuple[str, Index, dict[int, int]]]:
    """Chunks of lit tests that parse: their index, and how often each value is used."""
    for path in sorted(LIT.rglob("*.mlir"))[::6]:
        for _, chunk in split(path.read_text(encoding="utf-8", errors="replace")):
            try:
                places = read(chunk, new_context(allow_unregistered=True), "x")
            except QError:
                continue
            uses = {
                offset: sum(len(list(value.uses)) for value in values)
                for offset, values in places.values.items()
            }
            yield path.name, Index(chunk), uses


def test_it_agrees_with_the_parser() -> None:
    values = 0
    for name, index, uses in parsed():
        mine = {
            e.definition.start: len(e.uses)
            for e in index.entities
            if e.kind == "value" and e.definition is not None
        }
        assert mine == uses, name
        values += len(uses)
    assert values > 300


def test_any_text_has_an_index() -> None:
    """Pieces taken out of a text, and put together in any order, make no error."""
    random.seed(7)
    for _ in range(300):
        cuts = sorted(random.sample(range(len(REGIONS)), 6))
        pieces = [REGIONS[a:b] for a, b in pairwise(cuts)]
        random.shuffle(pieces)
        text = "".join(pieces)
        index = Index(text)
        for entity in index.entities:
            for span in entity.spans():
                assert 0 <= span.start < span.end <= len(text)
        for offset in range(0, len(text), 7):
            index.at(offset), index.op_at(offset), list(index.visible(offset, "value"))


def test_it_stops_when_nobody_wants_it() -> None:
    with pytest.raises(Stopped):
        Index("%0 = t.a\n", lambda: False)


# -- the text ----------------------------------------------------------------------


@pytest.mark.parametrize("unit", ["utf-8", "utf-16", "utf-32"])
def test_places_and_offsets_are_each_others_inverse(unit: str) -> None:
    content = "a𝄞b\r\né\u2028c\rxy\n\nend"
    text = Text(content, unit)  # type: ignore[arg-type]
    assert text.place(len(content)).line == 4
    for offset in range(len(content) + 1):
        if content[offset - 1 : offset + 1] != "\r\n":
            assert text.offset(*text.place(offset)) == offset
    columns = {"utf-8": 5, "utf-16": 3, "utf-32": 2}
    assert text.place(content.index("b")) == (0, columns[unit])
    assert text.offset(0, 99) == content.index("\r\n")
    assert text.offset(99, 0) == len(content)


def test_an_edited_text_is_the_text_made_anew() -> None:
    random.seed(3)
    letters = "ab𝄞\n\r"
    text = Text("".join(random.choices(letters, k=40)))
    for _ in range(2000):
        first = random.randrange(len(text.content) + 1)
        last = random.randrange(first, min(len(text.content), first + 4) + 1)
        start, end = text.place(first), text.place(last)
        expected = (text.offset(*start), max(text.offset(*start), text.offset(*end)))
        new = "".join(random.choices(letters, k=random.randrange(4)))
        content = text.content[: expected[0]] + new + text.content[expected[1] :]
        text = text.edited(start, end, new)
        assert text.content == content
        assert text.starts == Text(content).starts


def test_offsets_are_carried_over_an_edit() -> None:
    then, now = "aaa bbb ccc", "aaa XY bbb ccc"
    assert [carried(at, now, then) for at in (0, 3, 5, 7, 13)] == [0, 3, None, 4, 10]


def test_a_line_between_two_edits_is_found_again() -> None:
    then = "one\ntwo\nthree\nfour\nthree\nfive"
    now = "ONE\ntwo\nthree\nfour\nthree\nFIVE"
    assert carried(now.index("two") + 1, now, then) == then.index("two") + 1
    assert carried(now.index("four"), now, then) == then.index("four")
    assert carried(now.index("three"), now, then) is None
