"""What can be written where: names of ops, their attributes, types, passes and their options."""

from __future__ import annotations

import re
from dataclasses import fields
from functools import cache
from typing import Any, cast

from xdsl.dialects.builtin import UnregisteredOp
from xdsl.irdl import IRDLOperation

from qdialect.errors import UsageError
from qdialect.ir.dialects import DIALECTS
from qdialect.passes import PASSES
from qdialect.plugins.mlir.lsp.checks import Options, plugins, session_for
from qdialect.plugins.mlir.lsp.hover import summary_of
from qdialect.plugins.mlir.upstream.table import dialects, find_row, names


@cache
def op_names() -> list[tuple[str, str]]:
    """The names of all ops of our dialects, of those of plug-ins and of upstream's that have
    tables, and the first line of what is known of them."""
    ctx, found = session_for("", Options()), dict[str, str]()
    for dialect in (*DIALECTS, *plugins().dialects()):
        if dialect in dialects():
            continue
        loaded = ctx.get_optional_dialect(dialect)
        for kind in loaded.operations if loaded is not None else ():
            found[kind.name] = summary_of(kind).partition("\n")[0]
    for dialect in dialects():
        found.update((name, "") for name in names(dialect))
    for name in ("quant.qcast", "quant.dcast", "quant.scast", "quant.rescale"):
        kind = ctx.get_optional_op(name)
        found[name] = "" if kind is None else summary_of(kind).partition("\n")[0]
    return sorted(found.items())


@cache
def attributes_of(name: str) -> list[tuple[str, str]]:
    """The properties and attributes that op `name` declares, and whether they may be left out."""
    row = find_row(name)
    if row is not None:
        return [(each.name, f"{each.presence}, {each.kind}") for each in row.properties.values()]
    kind = session_for("", Options()).get_optional_op(name)
    if kind is None or issubclass(kind, UnregisteredOp) or not issubclass(kind, IRDLOperation):
        return []
    definition = kind.get_irdl_definition()
    return [
        (key, "optional" if "Opt" in type(entry).__name__ else "required")
        for entries in (definition.properties, definition.attributes)
        for key, entry in entries.items()
    ]


TYPES = (
    (
        "!quant.uniform per tensor",
        "!quant.uniform<${1:i8}:${2:f32}, ${3:0.5}:${4:0}>",
        "one scale and zero point",
    ),
    (
        "!quant.uniform per axis",
        "!quant.uniform<${1:i8}:${2:f32}:${3:0}, {${4:0.5}:${5:0}}>",
        "a scale and zero point for each index of an axis",
    ),
    (
        "!quant.uniform in blocks",
        "!quant.uniform<${1:i8}:${2:f32}:{${3:0}:${4:1}, ${5:1}:${6:32}}, {{${7:0.5}}}>",
        "a scale and zero point for each block",
    ),
    ("!quant.any", "!quant.any<${1:i8}:${2:f32}>", "quantized, parameters not known"),
    (
        "!quant.calibrated",
        "!quant.calibrated<${1:f32}<${2:-1.0}:${3:1.0}>>",
        "to be quantized, with a range of values",
    ),
    ("tensor", "tensor<${1:1x8}x${2:f32}>", "a tensor"),
    ("memref", "memref<${1:1x8}x${2:f32}>", "a buffer"),
    ("vector", "vector<${1:8}x${2:f32}>", "a vector"),
    *((name, name, "") for name in ("f32", "f16", "bf16", "f64", "i1", "i8", "i16", "i32", "i64")),
    ("index", "index", ""),
)
"""Types: label, snippet, what it is."""


def passes() -> list[tuple[str, str]]:
    """The names of all passes and what they do: ours, those of plug-ins, those of xDSL."""
    from xdsl.transforms import get_all_passes

    found = {entry.name: entry.summary for entry in plugins().registry().entries()}
    return list(
        (found | {n: "of xDSL" for n in sorted(get_all_passes()) if n not in found}).items()
    )


def pass_options(name: str) -> list[tuple[str, str, str]]:
    """The options of a pass: name, type or values, and what it is."""
    entry = PASSES.get(name)
    if entry is not None:
        rows = entry.options
    else:
        try:
            declared = fields(cast("Any", plugins().registry().load(name)))
        except UsageError:
            return []
        rows = [(option.name, _values(str(option.type)), "", "") for option in declared]
    return [(option.replace("_", "-"), values, text) for option, values, _, text in rows]


def _values(kind: str) -> str:
    """The values of a type `Literal['a', 'b']`, as `a|b`; other types as they are."""
    return "|".join(re.findall(r"'(\w[\w-]*)'", kind)) or kind
