"""Names in the pages are names of the code: modules, classes, functions."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

OF_OTHERS = frozenset(
    {"RssAnon", "quantize_static", "nn_concat", "htp_opdef_version_history", "reduce_range"},
)
"""Of Linux, of ONNX Runtime, a method that the tutorial leaves to its reader, and a page of
Qualcomm's."""

_NAME = re.compile(
    r"(?<![\w./$-])[A-Z][a-z]+(?:[A-Z0-9][a-z0-9]*)+(?![\w./-])"  # `TypeError` in any text
    r"|^[A-Z][a-z]+$"  # `Rule`
    r"|^[a-z]+(?:_[a-z]+)+$"  # `new_context`
)


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def quoted(page: Path) -> set[str]:
    """What stands between backticks, outside of blocks."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return set(re.findall(r"`([^`\n]+)`", text))


@cache
def words() -> frozenset[str]:
    """Every word of our sources, and the ops of ONNX."""
    from onnx import defs

    sources = [p for top in ("qdialect", "tests", "tools") for p in (ROOT / top).rglob("*.py")]
    texts = [f"{p.stem} {p.read_text('utf-8')}" for p in sources]
    found = {word for text in texts for word in re.findall(r"\w+", text)}
    return frozenset(found | {schema.name for schema in defs.get_all_schemas_with_history()})


def unknown(texts: set[str]) -> list[str]:
    names = {name for text in texts for name in _NAME.findall(text)}
    return sorted(names - words() - OF_OTHERS)


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_names_are_in_the_code(page: Path) -> None:
    assert unknown(quoted(page)) == []


def test_a_name_that_nobody_has_is_noticed() -> None:
    invented = "Rewr" + "itement"
    assert unknown({invented, "Rule", f"{invented}Op", "new_" + "contest"}) == [
        invented,
        f"{invented}Op",
        "new_" + "contest",
    ]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_dotted_names_can_be_imported(page: Path) -> None:
    for name in quoted(page):
        if not re.fullmatch(r"qdialect(\.\w+)+", name) or name in OF_FORMATS:
            continue
        module, _, attribute = name.rpartition(".")
        assert hasattr(import_module(module), attribute) or import_module(name), name


OF_FORMATS = frozenset(
    {"qdialect.plugins", "qdialect.keys", "qdialect.model", "qdialect.torch_backend"}
)
"""A group of entry points, metadata of an ONNX model, and a logger."""
