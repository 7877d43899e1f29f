"""A pass's module shows an example: the one of its lit test, and what the pass does.

In `lit_tests/passes/PASS.mlir` one function is marked:

    // DOC-BEFORE
    ... ops ...
    // DOC-AFTER
    //   ... the ops that stand in their place ...
    // DOC-END
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pytest
from rewrite_support import apply, parse

from qdialect.passes import load
from qdialect.plugins.mlir.write import module_text
from qdialect.targets.installed import get_target

LIT = Path(__file__).parents[2] / "lit_tests" / "passes"
DOCUMENTED = [
    "integerize",
    "fold-rescale",
    "sink-rescale",
    "combine-rescale",
    "canonicalize",
    "cse",
    "dce",
    "hoist-rescale",
    "move-casts",
    "fold-affine",
    "fold-constants",
    "form-tables",
    "form-depthwise",
    "type-accumulators",
    "split-rescale",
    "lower-float-regions",
    "lower-composites",
    "lower-division",
    "lower-transposed",
    "form-floats",
    "dequantize-at-load",
    "part-biases",
    "form-prelu",
    "softmax-last",
    "channels-last",
    "widen-channels",
    "finer-weights",
    "fit-sums",
    "merge-shuffles",
    "raise-composites",
    "fold-into-weights",
    "raise-dynamic",
    "lower-dynamic",
    "reencode-storage",
    "lower-quant-ops",
    "divide-by-scale",
    "compute-in-floats",
]

#: of passes whose rules are not exact
LEVELS = {
    "lower-float-regions": "{numerics=relaxed}",
    "lower-division": "{numerics=ties}",
    "lower-transposed": "{numerics=ties}",
    "form-floats": "{where=all}",
    "form-prelu": "{numerics=ties}",
    "compute-in-floats": "{to=stablehlo numerics=ties}",
    "divide-by-scale": "{numerics=ties}",
    "dequantize-at-load": "{where=all}",
    "part-biases": "{where=all}",
    "softmax-last": "{where=all}",
    "channels-last": "{where=all}",
    "widen-channels": "{multiple=2}",
    "fit-sums": "{numerics=relaxed}",
}
#: of passes that do what a target says
TARGETS = {"fit-sums": "x86-without-vnni"}


@dataclass(frozen=True)
class Example:
    """A function of a lit file as it is given and as it should become."""

    given: str
    wanted: str
    before: list[str]
    after: list[str]


def example(name: str) -> Example:
    text = (LIT / f"{name}.mlir").read_text("utf-8")
    aliases = "\n".join(re.findall(r"^!\w+ = .*$", text, re.M))
    marked = re.search(
        r"^(func\.func[^\n]*)\n  // DOC-BEFORE\n(.*?)  // DOC-AFTER\n(.*?)  // DOC-END\n(.*?)^}",
        text,
        re.M | re.S,
    )
    assert marked is not None, f"{name}.mlir marks no example"
    head, first, second, tail = marked.groups()
    before = [line.strip() for line in first.splitlines() if not line.strip().startswith("//")]
    after = [line.strip().removeprefix("//").strip() for line in second.splitlines()]

    def function(lines: list[str]) -> str:
        return "\n".join([aliases, head, *lines, tail, "}"])

    return Example(function(before), function(after), before, after)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_the_example_is_what_the_pass_does(name: str) -> None:
    shown = example(name)
    module, ctx = parse(shown.given)
    ctx.target = get_target(TARGETS.get(name, "generic"))
    apply(module, ctx, name + LEVELS.get(name, ""))
    wanted, _ = parse(shown.wanted)
    assert module_text(module, ctx) == module_text(wanted, ctx)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_the_docstring_shows_the_example(name: str) -> None:
    shown = example(name)
    text = import_module(load(name)().__module__).__doc__ or ""
    block = [f"    {line}" for line in shown.before]
    block += ["", "becomes", ""]
    block += [f"    {line}" for line in shown.after]
    wanted = "\n".join(block)
    assert wanted in text, f"the module of '{name}' should show\n\n{wanted}"
