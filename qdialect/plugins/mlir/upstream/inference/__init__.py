"""Shape and type inference of ops, and what follows from it: whether their results fit."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module

from xdsl.ir import Attribute, Operation

from qdialect.plugins.mlir.upstream.inference.view import Inferred, Rule, View, demand
from qdialect.plugins.mlir.upstream.operand_types import Named
from qdialect.plugins.mlir.upstream.shapes import fit, listed, shape_of
from qdialect.plugins.mlir.upstream.traits import inferred_as

DIALECTS = frozenset(("tosa", "stablehlo"))
"""The dialects whose ops have rules."""


@cache
def _rules(dialect: str) -> Mapping[str, Rule]:
    return import_module(f"qdialect.plugins.mlir.upstream.inference.{dialect}").RULES


def check(op: Operation, named: Named) -> None:
    """VerifyException unless the results of `op` are what its operands and attributes give."""
    dialect, _, name = op.name.partition(".")
    rule = _rules(dialect).get(name) if dialect in DIALECTS else None
    if rule is None:
        return
    found = rule(View(op, named)) or ()
    if len(found) > len(op.results):
        demand(False, f"must have {len(found)} results, but has {len(op.results)}")
    for inferred, result in zip(found, op.results, strict=False):
        _compare(inferred, result.type)


def _compare(inferred: Inferred, kind: Attribute) -> None:
    shape, element = inferred
    if not fit(shape, shape_of(kind)):
        demand(False, f"result must have the shape {listed(shape)}, but is {kind}")
    if element is not None and inferred_as(element) != inferred_as(kind):
        demand(False, f"result must have the element type {element}, but is {kind}")
