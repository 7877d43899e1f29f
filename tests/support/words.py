"""Names in code and docs use the field's words: the check that retired words do not come back.

    python -m tests.support.words

A name is an identifier of Python (split at underscores and capitals), a file name, or what a
page of docs sets in backticks. `docs/concepts/glossary.md` says which term to use.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
FOLDERS = ("qdialect", "tools", "docs")

RETIRED: dict[str, str] = {
    "drift": "error bound",
    "drifts": "error bounds",
    "faces": "cache keys",
    "felt": "propagated",
    "hand_on": "transfer",
    "heirs": "users",
    "held": "the value, its type, what was packed, ... (`held_out` stays)",
    "islands": "float regions",
    "ladder": "rescale chain",
    "ladders": "rescale chains",
    "looks": "cache keys",
    "meetings": "paired parameters",
    "rung": "position in a rescale chain",
    "rungs": "positions in a rescale chain",
    "seen_now": "known range",
    "seen_qparams": "narrowed qparams",
    "slabs": "chunks",
    "tells": "compares",
    "told": "noted, messages, reason",
    "twin": "clone",
    "twins": "clones",
    "wanted": "expected, requested, hint, predicate",
}
"""Each retired word (small letters, parts joined by `_`), and what to say."""


class Found(NamedTuple):
    """A retired word in a name: where, which name, and what to say."""

    place: str
    name: str
    word: str

    def __str__(self) -> str:
        return f"{self.place}: '{self.name}': say {RETIRED[self.word]}"


def words_of(name: str) -> list[str]:
    """The words of a name, in small letters: `_RungKey2` has `rung` and `key`."""
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]


def retired_in(name: str) -> list[str]:
    """The retired words of a name; a retired word of two parts stands in them side by side."""
    text = "_".join(words_of(name)).replace("held_out", "heldout")
    return [word for word in RETIRED if f"_{word}_" in f"_{text}_"]


def names_of_python(source: str) -> Iterator[tuple[int, str]]:
    """(line, name) of everything that a file of Python names."""
    for node in ast.walk(ast.parse(source)):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield line, node.name
        elif isinstance(node, ast.Name):
            yield line, node.id
        elif isinstance(node, ast.Attribute):
            yield line, node.attr
        elif isinstance(node, ast.arg | ast.keyword) and node.arg is not None:
            yield line, node.arg
        elif isinstance(node, ast.alias):
            yield line, node.asname or node.name


def names_of_page(text: str) -> Iterator[tuple[int, str]]:
    """(line, name) of what a page sets in backticks; blocks of output are left alone."""
    inside = False
    for line, content in enumerate(text.splitlines(), 1):
        if content.lstrip().startswith("```"):
            inside = not inside
        elif not inside:
            yield from ((line, name) for name in re.findall(r"`([^`]+)`", content))


def names_in(path: Path) -> Iterator[tuple[int, str]]:
    """(line, name) of a file; its own name is on line 0."""
    yield 0, path.stem
    if path.suffix == ".py":
        yield from names_of_python(path.read_text(encoding="utf-8"))
    elif path.suffix == ".md":
        yield from names_of_page(path.read_text(encoding="utf-8"))


def check(folders: tuple[str, ...] = FOLDERS) -> list[Found]:
    """Every retired word in a name."""
    return [
        Found(f"{path.relative_to(ROOT)}:{line}", name, word)
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
        for line, name in sorted(set(names_in(path)))
        for word in retired_in(name)
    ]


if __name__ == "__main__":
    sys.exit("\n".join(map(str, check())) or 0)
