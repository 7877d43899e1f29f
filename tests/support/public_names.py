"""The names of the public interface, as docs/reference/api.md lists them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "api.md"


def listed() -> dict[str, set[str]]:
    """By module, the names that the page lists; of `qdialect.ir.ops`, the classes of ops too."""
    from qdialect.ir import ops

    rows = re.findall(r"^\| `(qdialect[\w.]*)` \| (.*) \|$", PAGE.read_text("utf-8"), re.M)
    found = {module: set(re.findall(r"`(\w+)`", names)) for module, names in rows}
    found["qdialect.ir.ops"] -= {"nn"}
    found["qdialect.ir.ops"] |= {name for name in ops.__all__ if name.endswith("Op")}
    return found


def imported(source: str) -> Iterator[tuple[str, str]]:
    """(module, name) of what a program imports of qdialect, and reads of `qd` and `nn`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("qdialect"):
            yield from ((node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            package = {"qd": "qdialect", "nn": "qdialect.ir.ops"}.get(node.value.id)
            if package:
                yield package, node.attr


def unlisted(source: str) -> list[str]:
    """What a program imports of qdialect that is not public."""
    public = listed()
    return [
        f"{module}.{name}"
        for module, name in imported(source)
        if f"{module}.{name}" not in public and name not in public.get(module, ())
    ]
