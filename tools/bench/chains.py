"""`chains`: ONNX models that are one long chain or one wide op, in and out.

Each model of `tests/generators/chains.py` is imported, optimized as `qopt optimize` does it, and
exported; the exponents that the command prints last say what is not linear. Stock xDSL's verifier
runs on the imported module, as in the other sections.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from onnx import ModelProto
from xdsl.dialects.builtin import ModuleOp

from qdialect.ir.context import new_context
from qdialect.plugins.onnx.read import import_model
from qdialect.plugins.onnx.write import write_model
from tests.generators.chains import FORMS, MODELS
from tools.bench.passes import VERIFY, Setting, optimize
from tools.bench.rows import Rounds, Row, Spread, alone, ratios, seconds

SECTION = "chains"
LIMIT = 900.0
NAMES = [f"{model} {form}" for model in MODELS for form in FORMS]
DEFAULT = [
    "Relu float",
    "Relu qdq",
    "Identity float",
    "Sigmoid qdq",
    "Add earlier qdq",
    "Transpose qdq",
    "Conv qdq",
    "casts qdq",
    "users of one value, Max qdq",
    "results of one op qdq",
    "inputs and results float",
]


@dataclass(frozen=True)
class Chain:
    """One model of `tests/generators/chains.py`, in one form and size."""

    name: str
    size: int

    def build(self) -> ModelProto:
        model, _, form = self.name.rpartition(" ")
        return MODELS[model](self.size, form)


def _run(source: ModelProto, setting: Setting) -> list[float]:
    """Seconds of import, verification, optimization and export; fewer if one is given up."""
    ctx, modules = new_context(), list[ModuleOp]()
    works = (
        lambda: modules.append(import_model(source, ctx)),
        lambda: modules[0].verify(),
        lambda: optimize(modules[0], setting, ctx=ctx),
        lambda: write_model(modules[0], ctx),
    )
    taken: list[float] = []
    for work in works:
        taken.append(seconds(work, LIMIT))
        if math.inf in taken:
            break
    return taken + [math.inf] * (len(works) - len(taken))


def measured(chain: Chain, rounds: Rounds, setting: Setting) -> list[Row]:
    """Import, optimization and export of one model."""
    _run(Chain(chain.name, 20).build(), setting)  # imports what it needs
    source = chain.build()
    imported, verify, optimized, exported = zip(
        *(_run(source, setting) for _ in rounds), strict=True
    )
    named = {"import": imported, "optimize": optimized, "export": exported}
    return [
        Row(
            SECTION,
            chain.name,
            chain.size,
            name,
            Spread.of(times),
            len(source.graph.node),
            ratios(times, {VERIFY: verify}),
        )
        for name, times in named.items()
    ]


def rows(chains: Sequence[Chain], rounds: Rounds, setting: Setting) -> Iterator[Row]:
    """Every model in a process of its own."""
    for chain in chains:
        yield from alone(measured, chain, rounds, setting)
