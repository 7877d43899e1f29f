"""What an ONNX model says about itself, as an attribute of the module."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, StringAttr, UnitAttr, i64
from xdsl.ir import Attribute

from qdialect.ir.ops.key_metadata import IDENTITY, KEYS
from qdialect.ir.quant.interface_metadata import QPARAMS
from qdialect.plugins.onnx.dialect import EXTERNAL_DATA

if TYPE_CHECKING:
    from qdialect.plugins.onnx.read.load import LoadedModel


def metadata(loaded: LoadedModel) -> DictionaryAttr:
    """Versions, texts, metadata entries, and whether weights are in files beside it."""
    model = loaded.model
    entries: dict[str, Attribute] = {
        "ir_version": IntegerAttr(model.ir_version, i64),
        "opset": DictionaryAttr(
            {o.domain or "ai.onnx": IntegerAttr(o.version, i64) for o in model.opset_import}
        ),
    }
    for name in ("producer_name", "producer_version", "domain", "doc_string"):
        if text := getattr(model, name):
            entries[name] = StringAttr(text)
    if model.model_version:
        entries["model_version"] = IntegerAttr(model.model_version, i64)
    # The keys are on the ops, the qparams in the types, the identity is the module's.
    own = (KEYS, QPARAMS, IDENTITY)
    texts = {p.key: StringAttr(p.value) for p in model.metadata_props if p.key not in own}
    if texts:
        entries["metadata"] = DictionaryAttr(texts)
    if any(map(loaded.tensors.has_file, model.graph.initializer)):
        entries[EXTERNAL_DATA] = UnitAttr()
    return DictionaryAttr(entries)


def symbol(name: str) -> str:
    """`name` as a bare MLIR symbol."""
    text = re.sub(r"[^A-Za-z0-9_$.]", "_", name) or "main"
    return text if re.match(r"[A-Za-z_]", text) else f"_{text}"
