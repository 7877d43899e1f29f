"""Nodes that the ONNX checker and shape inference are not to look at, or see another of.

They see such a node as one of a domain they know nothing of, and take it as it is. Of ops of
others that are elementwise they see a product, which has the type and extents of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from qdialect.dialects.onnx import package
from qdialect.errors import QError
from qdialect.formats.onnx.read import quark_ops
from qdialect.formats.onnx.read.qonnx_ops import QONNX_OPS
from qdialect.formats.onnx.read.subgraphs import nested_nodes

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

_STAND_INS = {
    **dict.fromkeys(quark_ops.QUANTIZE, "QuantizeLinear"),
    **dict.fromkeys(quark_ops.DEQUANTIZE, "DequantizeLinear"),
    **dict.fromkeys(quark_ops.ROUNDED, "Identity"),
}

_HIDDEN = "qdialect.unknown"


def hide_unknown_ops(light: ModelProto) -> None:
    """Hide ops that the checker refuses and runtimes take: those that ONNX has only since a later
    opset (ONNX Runtime writes `LayerNormalization` into models of any opset), and those of ONNX
    Runtime (`SimplifiedLayerNormalization`, and `GroupNormalization` of opsets 18 to 20)."""
    defs = package("onnx.defs")
    opset = next((o.version for o in light.opset_import if o.domain in ("", "ai.onnx")), 1)
    known: dict[str, bool] = {}

    def is_unknown(node: NodeProto) -> bool:
        kind = node.op_type
        if kind not in known:
            has = defs.has(kind, opset, "")
            is_newer = not has and defs.has(kind)
            checked = has and not defs.get_schema(kind, opset, "").deprecated
            known[kind] = is_newer or (not checked and _runtime_takes(kind, opset))
        return known[kind] and node.domain in ("", "ai.onnx")

    hide(light, [node for node in nested_nodes(light.graph.node) if is_unknown(node)])


def _runtime_takes(kind: str, opset: int) -> bool:
    try:
        state = package("onnxruntime.capi.onnxruntime_pybind11_state")
    except QError:
        return False
    schemas = (s for s in state.get_all_operator_schema() if (s.domain, s.name) == ("", kind))
    found = {s.since_version: s.deprecated for s in schemas if s.since_version <= opset}
    return not found.get(max(found, default=0), True)


def stand_in(light: ModelProto) -> None:
    """Put ops of the same types and extents in place of others' ops, which inference does not know.

    QONNX's become products: both give floats of the extents that the first two inputs, a tensor
    and its scales, broadcast to. Quark's become casts, or nothing. A `Resize` that keeps the aspect
    ratio over axes counted from the end is nothing: ONNX Runtime finds none of them (1.32)."""
    for node in nested_nodes(light.graph.node):
        place = (node.domain, node.op_type)
        if place[1] == "Resize" and _keeps_size(node):
            node.op_type = "Identity"
            del node.attribute[:], node.input[1:]
        if place in _STAND_INS:
            node.op_type, node.domain = _STAND_INS[place], ""
            del node.attribute[:]
        elif (node.domain, node.op_type) in QONNX_OPS and len(node.input) > 1:
            node.op_type, node.domain = "Mul", ""
            del node.input[2:], node.attribute[:]


def _keeps_size(node: NodeProto) -> bool:
    attributes = {each.name: each for each in node.attribute}
    policy, axes = attributes.get("keep_aspect_ratio_policy"), attributes.get("axes")
    keeps = policy is not None and policy.s != b"stretch"
    return keeps and axes is not None and all(axis < 0 for axis in axes.ints)


def hide(model: ModelProto, nodes: Sequence[NodeProto]) -> None:
    """Put nodes into a domain in which the checker and inference know nothing."""
    if nodes and all(entry.domain != _HIDDEN for entry in model.opset_import):
        model.opset_import.append(package("onnx.helper").make_opsetid(_HIDDEN, 1))
    for node in nodes:
        node.domain = _HIDDEN
