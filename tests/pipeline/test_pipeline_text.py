"""Pipelines as text, and options as fields."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from enum import Enum
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qdialect.errors import UsageError
from qdialect.pipeline.options import instantiate
from qdialect.pipeline.registry import PassRegistry
from qdialect.pipeline.text import PassSpec, parse_pipeline, pipeline_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("a", [PassSpec("a")]),
        (" a , b ", [PassSpec("a"), PassSpec("b")]),
        ("a{}", [PassSpec("a")]),
        ("a{x=1 y=foo}", [PassSpec("a", (("x", ("1",)), ("y", ("foo",))))]),
        ("a{x=1,2 y}", [PassSpec("a", (("x", ("1", "2")), ("y", ())))]),
        ("a{x={1, 2}, y=3}", [PassSpec("a", (("x", ("1", "2")), ("y", ("3",))))]),
        ("a{x=1,y=2}", [PassSpec("a", (("x", ("1",)), ("y", ("2",))))]),
        ("a{dry-run}", [PassSpec("a", (("dry-run", ()),))]),
        ("a{s=\"b c\" t='d,e'}", [PassSpec("a", (("s", ("b c",)), ("t", ("d,e",))))]),
        ("a{x=-1e-3}", [PassSpec("a", (("x", ("-1e-3",)),))]),
        ("builtin.module()", []),
        ("builtin.module(a,b)", [PassSpec("a"), PassSpec("b")]),
        (
            "builtin.module(func.func(a{x=1},b),c,any(d))",
            [
                PassSpec("a", (("x", ("1",)),), ("func.func",)),
                PassSpec("b", (), ("func.func",)),
                PassSpec("c"),
                PassSpec("d", (), ("any",)),
            ],
        ),
        ("func.func(a)", [PassSpec("a", (), ("func.func",))]),
        ("any(any(a)),any(b)", [PassSpec("a", (), ("any",)), PassSpec("b")]),
        (
            "builtin.module(builtin.module(a,func.func(b)),c)",
            [
                PassSpec("a", (), ("builtin.module",)),
                PassSpec("b", (), ("builtin.module", "func.func")),
                PassSpec("c"),
            ],
        ),
    ],
)
def test_parse(text: str, expected: list[PassSpec]) -> None:
    assert parse_pipeline(text) == expected
    assert parse_pipeline(pipeline_text(expected)) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,", "1:3: error: '' does not refer to a registered pass or pass pipeline"),
        (",a", "1:1: error: '' does not refer to a registered pass or pass pipeline"),
        ("a b", "1:3: error: expected ',' after parsing pass, not 'b'"),
        ("a{", "1:2: error: missing closing '}' while processing pass options"),
        ("a{x=}", "1:5: error: expected a value"),
        ("a{=1}", "1:3: error: expected the name of an option"),
        ("builtin.module(a", "1:16: error: encountered unbalanced parentheses while parsing"),
        ("builtin.module(a))", "1:2: error: encountered extra closing ')' creating unbalanced"),
        ("builtin.module(a,b(c)", "1:5: error: encountered unbalanced parentheses"),
        ("a{x={1}", "1:2: error: missing closing '}' while processing pass options"),
    ],
)
def test_errors_say_where(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_pipeline(text)
    assert f"MLIR Textual PassPipeline Parser:{message}" in str(caught.value)


NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,5}", fullmatch=True)
SPECS = st.builds(
    PassSpec,
    NAMES,
    st.lists(st.tuples(NAMES, st.lists(st.text(min_size=1), max_size=3).map(tuple))).map(tuple),
    st.lists(st.sampled_from(["any", "builtin.module", "func.func"]), max_size=3).map(tuple),
)


@given(st.lists(SPECS))
def test_text_round_trips(specs: list[PassSpec]) -> None:
    assert parse_pipeline(pipeline_text(specs)) == specs


@given(st.text(alphabet="ab{}(),= \"'\\-.1"))
def test_any_text_is_a_pipeline_or_a_usage_error(text: str) -> None:
    with contextlib.suppress(UsageError):
        parse_pipeline(text)


class Mode(Enum):
    FAST = "fast"
    SAFE = "safe"


@dataclass(frozen=True)
class Sample:
    depth: int = 8
    tol: float = 0.5
    dry_run: bool = False
    ops: tuple[str, ...] = ()
    sizes: tuple[int, ...] | None = None
    rounding: str | None = None
    level: Literal["low", "high"] = "low"
    mode: Mode = Mode.SAFE


def build(text: str) -> Sample:
    return instantiate(Sample, parse_pipeline(f"sample{{{text}}}")[0])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Sample()),
        ("depth=3", Sample(depth=3)),
        ("depth=0x10", Sample(depth=16)),
        ("tol=1", Sample(tol=1.0)),
        ("tol=1e-3", Sample(tol=1e-3)),
        ("dry-run", Sample(dry_run=True)),
        ("dry_run=false", Sample(dry_run=False)),
        ("ops=relu,max-pool", Sample(ops=("relu", "max-pool"))),
        ("ops=relu", Sample(ops=("relu",))),
        ("sizes=1,2", Sample(sizes=(1, 2))),
        ("sizes=none", Sample(sizes=None)),
        ("rounding=away", Sample(rounding="away")),
        ("level=high mode=fast", Sample(level="high", mode=Mode.FAST)),
    ],
)
def test_options(text: str, expected: Sample) -> None:
    assert build(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("depht=3", "<Pass-Options-Parser>: no such option depht; did you mean 'depth'?"),
        ("depth=x", "option 'depth' is an integer, not 'x'"),
        ("depth=1.5", "option 'depth' is an integer, not '1.5'"),
        ("depth", "option 'depth' needs a value"),
        ("depth=1,2", "option 'depth' takes one value"),
        ("dry-run=maybe", "option 'dry-run' is true or false, not 'maybe'"),
        ("depth=1 depth=2", "option 'depth' is given twice"),
        ("level=hgih", "option 'level' is one of low, high, not 'hgih'; did you mean 'high'?"),
        ("mode=x", "option 'mode' is one of fast, safe, not 'x'"),
    ],
)
def test_option_errors(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        build(text)
    assert message in caught.value.message


def test_unknown_pass() -> None:
    with pytest.raises(
        UsageError,
        match="'integrize' does not refer to a registered pass or pass pipeline; "
        "did you mean 'integerize'",
    ):
        PassRegistry().build(parse_pipeline("integrize"))


def test_passes_of_xdsl_are_known() -> None:
    ((_, instance),) = PassRegistry().build(parse_pipeline("convert-scf-to-cf"))
    assert instance.name == "convert-scf-to-cf"


def test_plug_in_passes_do_not_take_names() -> None:
    registry = PassRegistry()
    with pytest.raises(UsageError, match="already a pass 'cse'"):
        registry.add("cse", lambda: None)  # type: ignore[arg-type, return-value]
