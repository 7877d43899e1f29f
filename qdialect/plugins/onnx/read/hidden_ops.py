"""Nodes that the ONNX checker and shape inference are not to look at, or see another of.

They see such a node as one of a domain they know nothing of, and take it as it is. Of ops of
others that are elementwise they see a product, which has the type and extents of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from qdialect.packages import package
from qdialect.plugins.onnx.read import quark_ops
from qdialect.plugins.onnx.read.qonnx_ops import QONNX_OPS
from qdialect.plugins.onnx.read.subgraphs import nested_nodes

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

_STAND_INS = {
    **dict.fromkeys(quark_ops.QUANTIZE, "QuantizeLinear"),
    **dict.fromkeys(quark_ops.DEQUANTIZE, "DequantizeLinear"),
    **dict.fromkeys(quark_ops.ROUNDED, "Identity"),
}

_HIDDEN = "qdialect.unknown"


_FLAGS = frozenset({"ceil_mode", "keepdims", "noop_with_empty_axes"})
"""Attributes that say how many extents a result has, or how large they are."""


def hide_newer_ops(light: ModelProto) -> None:
    """Hide ops that ONNX has only since a later opset, as runtimes have had some for longer
    (ONNX Runtime writes `LayerNormalization` into models of any opset)."""
    has, opset = package("onnx.defs").has, _opset(light)
    newer = (n for n in _unknown(light) if has(n.op_type) and not has(n.op_type, opset, ""))
    hide(light, list(newer))


def hide_unknown_ops(light: ModelProto) -> None:
    """Hide ops that ONNX does not have in the opset of the model, and import the newest version
    of each domain that the model uses without saying which."""
    imported = {entry.domain for entry in light.opset_import}
    for domain in sorted({node.domain for node in nested_nodes(light.graph.node)} - imported):
        entry = package("onnx.helper").make_opsetid(domain, newest_version(domain))
        light.opset_import.append(entry)
    hide(light, _unknown(light))


@cache
def newest_version(domain: str) -> int:
    """The version of a domain that runtimes take where a model does not say which."""
    schemas = package("onnx.defs").get_all_schemas()
    return max((s.since_version for s in schemas if s.domain == domain), default=1)


def _unknown(light: ModelProto) -> list[NodeProto]:
    """The nodes of ONNX's domain with an op that is none, or no more one, in the model's opset."""
    defs, opset = package("onnx.defs"), _opset(light)

    def is_unknown(kind: str) -> bool:
        return not defs.has(kind, opset, "") or defs.get_schema(kind, opset, "").deprecated

    nodes = [n for n in nested_nodes(light.graph.node) if n.domain in ("", "ai.onnx")]
    unknown = set(filter(is_unknown, {node.op_type for node in nodes}))
    return [node for node in nodes if node.op_type in unknown]


def _opset(light: ModelProto) -> int:
    return next((o.version for o in light.opset_import if o.domain in ("", "ai.onnx")), 1)


def stand_in(light: ModelProto) -> None:
    """Put ops of the same types and extents in place of others' ops, which inference does not know.

    QONNX's become products: both give floats of the extents that the first two inputs, a tensor
    and its scales, broadcast to. Quark's become casts, or nothing. A `Resize` that keeps the aspect
    ratio over axes counted from the end is nothing: ONNX Runtime finds none of them (1.32). Flags
    that are neither 0 nor 1 are 0, which it takes them for."""
    for node in nested_nodes(light.graph.node):
        for attribute in node.attribute:
            if attribute.name in _FLAGS and attribute.i != 1:
                attribute.i = 0
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
