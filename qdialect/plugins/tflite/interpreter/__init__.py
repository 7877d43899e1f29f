"""What LiteRT's kernels compute, bit by bit, for ops that name them (`nn.kernel`).

LiteRT is three functions: `litert-ref` (reference kernels), `litert-opt` (optimized ones) and
`litert-xnn` (XNNPACK, for what it takes; an op that it does not take names `litert-opt`).

Each file has `ROWS`: by engine and op name a function that computes the op, or gives None for
types of operands and results that it says nothing about; then the next file is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module

from xdsl.ir import Operation

from qdialect.errors import UnsupportedError
from qdialect.interpreter.values import Array, Evaluation, Kernel
from qdialect.ir.ops.locations import op_where

ENGINES = ("litert-ref", "litert-opt", "litert-xnn")
"""The names of kernels."""

Row = Callable[[Operation, Sequence[Array], Evaluation], Sequence[Array] | None]
"""Computes the results of an op; None for types that it says nothing about."""

FILES = (
    "contraction",
    "arithmetic",
    "pooling",
    "reduction",
    "casts",
    "rescale",
    "functions",
    "activations",
    "softmax",
    "interpolation",
    "curves",
    "wide",
    "hybrid",
)
"""The files of rows, in the order in which they are asked."""


@cache
def rows(name: str, engine: str) -> tuple[Row, ...]:
    """The functions that may compute the op `name` as `engine` does."""
    files = (import_module(f"{__name__}.{file}") for file in FILES)
    tables: list[Mapping[str, Mapping[str, Row]]] = [file.ROWS for file in files]
    return tuple(table[engine][name] for table in tables if name in table.get(engine, {}))


def kernel(op: Operation, engine: str) -> Kernel:
    """The kernel of `engine` for `op`; UnsupportedError where nobody has said what it computes."""

    def run(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> Sequence[Array]:
        for row in rows(op.name, engine):
            results = row(op, operands, evaluation)
            if results is not None:
                return results
        types = ", ".join(str(value.type) for value in (*op.operands, *op.results))
        raise UnsupportedError(
            f"the interpreter does not know what '{engine}' computes for '{op.name}' of {types}",
            where=op_where(op),
        )

    return run
