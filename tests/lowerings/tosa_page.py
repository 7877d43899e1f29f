"""What each op becomes in TOSA, from the configurations that are tested:

python -m tools.docs tosa-ops > docs/reference/tosa-ops.md
"""

# pyright: basic, reportMissingImports=false
from __future__ import annotations

import re
import sys
from collections.abc import Sequence

from engine_support import prepared
from op_configurations import GROUPS, Program

from qdialect.api import run_passes
from qdialect.plugins.tosa.interpreter import KERNELS
from qdialect.plugins.tosa.interpreter.control import STRUCTURED
from qdialect.plugins.tosa.raising.convert import handlers

_HEAD = """# What ops become in TOSA

Written by `python -m tools.docs tosa-ops` from the configurations of tests/lowerings, each of which
gives the same bits in the interpreter, the TOSA reference model, IREE and mlir-runner
(but where `tests/lowerings/test_tosa_ops.py` names a defect of an engine). Ops in parentheses
are those in which a lowering may hold its values otherwise: other storage, layout or shape.
`bitwise_and`, `bitwise_xor`, `clz`, `logical_right_shift` and `sub` put ties right, which TOSA
rounds up (not needed with `rounding half_up`).

Functions of one operand are tables first (`form-tables`), composites their parts
(`lower-composites`). An export computes in floats what has no exact form here, such as dilated
pools, or a bilinear resize whose weights are no ratios. Refused: dynamic shapes, `nn.top_k`,
`nn.conv_transpose3d`. A backend's own op lowers by its index map if it is declared as a movement,
and else by what it puts in `session.lowerings["tosa"]`.

| op | TOSA operations | configurations |
|---|---|---|
"""
_AROUND = ("const", "const_shape", "rescale", "reshape", "transpose")


def table() -> str:
    """The page."""
    used: dict[str, set[str]] = {}
    counted: dict[str, int] = {}
    for group in GROUPS:
        program = Program()
        group(program)
        lines = program.text.splitlines()
        for line in lines:
            for name in _named(line):
                counted[name] = counted.get(name, 0) + 1
        exact = prepared(program.text, target="generic")
        module = run_passes(exact, "convert-nn-to-tosa").module
        for op in module.walk():
            at = re.search(r":(\d+):\d+", str(op.location))
            if op.name.startswith("tosa.") and at:
                for name in _named(lines[int(at[1]) - 1]):
                    used.setdefault(name, set()).add(op.name.removeprefix("tosa."))
    rows = [f"| `{n}` | {_listed(used.get(n, set()))} | {counted[n]} |" for n in sorted(counted)]
    return _HEAD + "\n".join(rows) + "\n" + _way_in()


def _way_in() -> str:
    """What comes back, and what runs."""
    raised = sorted(handlers())
    run = sorted(
        name.removeprefix("tosa.") for name in (*KERNELS, *STRUCTURED) if name[:4] == "tosa"
    )
    stays = [name for name in run if name not in (*raised, "const", "const_shape")]
    listed = [", ".join(f"`{name}`" for name in names) for names in (raised, stays)]
    return (
        "\n## The way in\n\n`raise-tosa` makes ops of `nn` and `quant` of these, where they have a "
        f"counterpart ([Start from TOSA](../howto/start-from-tosa.md)): {listed[0]}.\n\n"
        f"These stay, and run in the interpreter: {listed[1]}.\n"
    )


def _named(line: str) -> list[str]:
    return [n for n in re.findall(r"= (nn\.\w+)", line) if n != "nn.constant"]


def _listed(names: set[str]) -> str:
    inside = [f"{name}" for name in sorted(names) if name not in _AROUND]
    around = [f"({name})" for name in sorted(names) if name in _AROUND[2:]]
    return ", ".join([*inside, *around]) or "none: it renames dimensions"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the page."""
    sys.stdout.write(table())
    return 0
