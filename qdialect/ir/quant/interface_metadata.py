"""Qparams of inputs and outputs that are codes, which ONNX has no types for.

A model whose interface is codes has them in its metadata, under `qdialect.algebra.qparams`, as JSON
by the name of the graph input or output, in the text of the type:

    {"x": "<i8:f32, 5.000000e-01:3>", "y": "<u8:f32, 2.500000e-01>"}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import cast

from qdialect.ir.quant import UniformType
from qdialect.ir.quant.read import QuantSyntaxError, read_uniform

QPARAMS = "qdialect.qparams"


def interface_text(types: Mapping[str, UniformType]) -> str:
    """The types as JSON; empty without any."""
    entries = {name: kind.text for name, kind in types.items()}
    return json.dumps(entries, ensure_ascii=False, sort_keys=True) if entries else ""


def read_interface(text: str) -> dict[str, UniformType]:
    """The inverse of `interface_text`; ValueError for anything else."""
    entries: object = json.loads(text) if text else {}
    if not isinstance(entries, dict):
        raise ValueError("a dictionary is missing")
    found: dict[str, UniformType] = {}
    for name, written in cast("dict[str, object]", entries).items():
        if not isinstance(written, str):
            raise ValueError(f"the entry of '{name}' is no text")
        try:
            qparams, end = read_uniform(written, 0, lambda _: None)
        except QuantSyntaxError as error:
            raise ValueError(f"the entry of '{name}' is no quantized type: {error}") from None
        if end != len(written):
            raise ValueError(f"the entry of '{name}' goes on after its type")
        found[name] = UniformType(qparams)
    return found
