"""What a pass does to a function of its lit test, before and after, for the reference pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from qdialect.api import Model, run_passes
from qdialect.errors import QError
from qdialect.ir.context import new_context
from qdialect.plugins.mlir.read import read_module, verify_module
from qdialect.plugins.mlir.write import module_text

LIT = Path(__file__).parents[2] / "lit_tests"
FILES = {
    "convert-nn-to-linalg": "lowerings/linalg.mlir",
    "convert-nn-to-stablehlo": "lowerings/stablehlo.mlir",
    "convert-nn-to-tflite": "lowerings/tflite.mlir",
}
"""Lit tests that are not called as the pass."""

IN_DOCSTRING = re.compile(r"^    \S.*\n\nbecomes\n\n    \S", re.M)
"""An example of its lit test that the module of a pass shows itself."""


def example(name: str) -> list[str]:
    """Markdown of an example: IR before and after, or IR and what the pass says of it."""
    path = LIT / FILES.get(name, f"passes/{name}.mlir")
    text = path.read_text(encoding="utf-8")
    found = [f"From its lit test, `{path.relative_to(LIT.parent)}`:", ""]
    changed = sorted(_changed(text, _pipeline(text, name, path)), key=lambda pair: len(pair[0]))
    if changed:
        before, after = changed[0]
        return [*found, *_block(before), "becomes", "", *_block(after)]
    return [*found, *_block(_said(text))]


def _pipeline(text: str, name: str, path: Path) -> str:
    """The passes of the first command of the test that names the pass."""
    pattern = rf"^// RUN:.* -p ('?)({re.escape(name)}.*?)(?:\1 |\1$)"
    found = re.search(pattern, text, re.M)
    assert found is not None, path
    return found.group(2).replace("%S", str(path.parent))


def _changed(text: str, passes: str) -> Iterator[tuple[str, str]]:
    """Functions that the passes change, before and after."""
    for part in re.split(r"^// -----.*$", text, flags=re.M):
        aliases = re.findall(r"^[!#]\w+ = .*$", part, re.M)
        for function in re.findall(r"^func\.func .*?^}", part, re.M | re.S):
            lines = [line for line in function.splitlines() if "//" not in line]
            used = [a for a in aliases if re.search(rf"{a.split()[0]}\b", function)]
            before = "\n".join([*used, *lines])
            after = _after(before, passes)
            if after is not None and after != _after(before, ""):
                yield before, after


def _after(text: str, passes: str) -> str | None:
    """The module after the passes, without its frame; None where they refuse it."""
    ctx = new_context()
    try:
        module = read_module(text, ctx)
        verify_module(module, ctx)
        model = Model(module, ctx)
        model = run_passes(model, passes) if passes else model
    except QError:
        return None
    inside = module_text(model.module, model.ctx).strip().splitlines()[1:-1]
    return "\n".join(line.removeprefix("  ") for line in inside)


def _said(text: str) -> str:
    """The first function of a test, with what the pass is expected to say of it."""
    errors = re.findall(r"^// CHECK(?:-NEXT)?: ((?:error|note): .*)$", text, re.M)
    aliases = re.findall(r"^[!#]\w+ = .*$", text, re.M)
    found = re.search(r"^func\.func .*?^}", text, re.M | re.S)
    assert found is not None
    function = re.sub(r"// expected-(\w+)@\S+ \{\{(.*)\}\}", r"// \1: \2", found.group(0))
    used = [a for a in aliases if re.search(rf"{a.split()[0]}\b", function)]
    return "\n".join([*used, function, *(f"// {error}" for error in errors)])


def _block(text: str) -> list[str]:
    return ["```mlir", *text.splitlines(), "```", ""]
