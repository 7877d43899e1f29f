"""Which opset a function needs, and which its kept nodes allow.

A model has one opset. Most ops are written in the form of some opset and later ones, a few also
in an older form; a kept node is written as it was, so the opset may become a later one only if
that means the same there.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from qdialect.ir.ops import MAX_POOLS, AveragePoolOp, ConstantOp, NNOp, WindowOp, shape_of
from qdialect.ir.quant import DCastOp, quant_element
from qdialect.ir.weights import BlobStore
from qdialect.packages import package
from qdialect.plugins.onnx.dialect import NodeOp
from qdialect.plugins.onnx.write import narrow_scales
from qdialect.plugins.onnx.write.block_tables import is_packed_table, packed_table
from qdialect.plugins.onnx.write.inner_graphs import graphs_in, graphs_of
from qdialect.plugins.onnx.write.n_bits import is_packed_weight, packed_weight
from qdialect.plugins.onnx.write.quantization import required_opset

if TYPE_CHECKING:
    from onnx import GraphProto

#: older ones mark inference otherwise
LEAST_OPSET = 6
#: ops that are written in a form of a later opset
OP_OPSETS = {
    "nn.fully_connected": 7,
    "nn.batch_norm": 9,
    "nn.slice": 10,
    "nn.lstm": 7,
    "nn.gru": 7,
    "nn.clip": 11,
    "nn.pad": 11,
    "nn.compare": 11,
    "nn.top_k": 11,
    "nn.table": 11,
    "nn.resize_nearest": 11,
    "nn.resize_linear": 11,
    "nn.layer_norm": 17,
    "nn.attention": 23,
}
#: those that have an older form; ONNX Runtime takes LayerNormalization in all opsets
OLDEST = {
    "nn.batch_norm": 7,
    "nn.slice": LEAST_OPSET,
    "nn.clip": LEAST_OPSET,
    "nn.pad": LEAST_OPSET,
    "nn.layer_norm": LEAST_OPSET,
}
#: ops that broadcast as numpy does since this opset
BROADCASTING = {
    "nn.add": 7,
    "nn.sub": 7,
    "nn.mul": 7,
    "nn.div": 7,
    "nn.maximum": 8,
    "nn.minimum": 8,
}
#: ops that are written on 8-bit integers since this opset, and between casts before
INTEGER_OPSETS = {
    "nn.relu": 12,
    "nn.clip": 12,
    "nn.pad": 11,
    "nn.reduce_max": 12,
    "nn.reduce_min": 12,
    **{kind.name: 12 for kind in MAX_POOLS},
}
#: nodes of which a later opset changed the meaning and not the form
_REVISED = frozenset(
    {
        "AveragePool",
        "ConvTranspose",
        "GridSample",
        "LpPool",
        "MaxPool",
        "OneHot",
        "Resize",
        "RoiAlign",
        "Split",
        "Upsample",
    }
)
#: attributes that say, if they are left out, what nodes did that could not have them: of casts,
#: `saturate` and `round_mode` are of small floats, which came with them, and so did `axis` and the
#: rest with scales that are tensors
_AS_BEFORE = frozenset(
    (
        *("allowzero", "axis", "block_size", "layout", "output_dtype", "precision", "reduction"),
        *("round_mode", "saturate", "start"),
    )
)


def opset_for(function: FuncOp, oldest: bool = False) -> int:
    """The least opset for all ops and types in their usual form, or in the oldest they have."""
    opset = LEAST_OPSET
    for op in function.body.block.ops:
        opset = max(opset, _op_opset(op, oldest))
        found = packed_weight(op) or packed_table(op)
        if found is not None and not oldest:
            opset = max(opset, narrow_scales.required_opset(found[1].scale_array()))
        if _is_packed(op):
            continue
        for value in (*op.operands, *op.results):
            quantized = quant_element(value.type)
            if quantized is None:
                continue
            opset = max(opset, required_opset(quantized.qparams))
            if not quantized.qparams.storage.is_full_range and value.owner is op:
                opset = max(opset, 0 if isinstance(op, ConstantOp) else INTEGER_OPSETS["nn.clip"])
    return opset


def _is_packed(op: Operation) -> bool:
    """Whether codes go out in bytes, whatever their type is."""
    if isinstance(op, ConstantOp):
        users = [use.operation for use in op.result.uses]
        return bool(users) and all(isinstance(u, DCastOp) and _is_packed(u) for u in users)
    return is_packed_weight(op) or is_packed_table(op)


def _op_opset(op: Operation, oldest: bool) -> int:
    least = OP_OPSETS.get(op.name, 0)
    if oldest:
        least = OLDEST.get(op.name, least)
    if not isinstance(op, NNOp):
        return least
    values = op.values
    if op.name == "nn.fully_connected" and len(op.operands) < 3 and not oldest:
        least = 11
    if op.name == "nn.compare" and values["mode"] in ("lt", "gt"):
        least = 9
    if op.name == "nn.top_k" and values["largest"] and values["sorted"]:
        least = LEAST_OPSET if oldest else 10
    if op.name == "nn.softmax" and values["axis"] not in (-1, len(shape_of(op.results[0])) - 1):
        least = 13
    if len({shape_of(v) for v in op.operands}) > 1 and op.name in BROADCASTING:
        least = BROADCASTING[op.name]
    if values.get("ceil_mode"):
        least = max(least, 10)
    if isinstance(op, WindowOp) and any(d != 1 for d in values["dilations"]):
        least = max(least, 19 if isinstance(op, AveragePoolOp) else 10)
    if not oldest and op.name in INTEGER_OPSETS and quant_element(op.operands[0].type) is not None:
        least = max(least, INTEGER_OPSETS[op.name])
    return least


def changed_node(function: FuncOp, store: BlobStore, source: int, target: int) -> NodeOp | None:
    """The first kept node that opset `target` gives another meaning than `source`, or none."""
    if source == target:
        return None
    for op in function.body.block.ops:
        if not isinstance(op, NodeOp):
            continue
        if not op.domain.data and _is_changed(op.op_type.data, source, target):
            return op
        if any(_has_changed(graph, source, target) for graph in graphs_of(op, store)):
            return op
    return None


def _has_changed(graph: GraphProto, source: int, target: int) -> bool:
    for node in graph.node:
        if node.domain in ("", "ai.onnx") and _is_changed(node.op_type, source, target):
            return True
        if any(_has_changed(inner, source, target) for inner in graphs_in(node)):
            return True
    return False


@cache
def _is_changed(kind: str, source: int, target: int) -> bool:
    """Whether a node of the form that opset `source` has means anything else in `target`. What
    takes more types, or inputs and attributes that may be left out, means what it meant."""
    defs = package("onnx.defs")
    try:
        old, new = (defs.get_schema(kind, opset, "") for opset in (source, target))
    except defs.SchemaError:  # an op that only the runtime has, at least in one of them
        return bool(defs.has(kind, source, "") or defs.has(kind, target, ""))
    if old.since_version == new.since_version:
        return False
    if kind in _REVISED or old.deprecated or new.deprecated:
        return True
    known = {name: _attribute(attribute) for name, attribute in old.attributes.items()}
    later = {name: _attribute(attribute) for name, attribute in new.attributes.items()}
    if any(later.get(name) != form for name, form in known.items()):
        return True
    # A new attribute with a default may be what older nodes did, or not.
    added = later.keys() - known.keys() - _AS_BEFORE
    if any(later[name][1:] != (False, b"") for name in added):
        return True
    inputs = _values(new.inputs)
    if any(
        option != defs.OpSchema.FormalParameterOption.Optional
        for _, option in inputs[len(old.inputs) :]
    ):
        return True
    return inputs[: len(old.inputs)] != _values(old.inputs) or _values(new.outputs) != _values(
        old.outputs
    )


def _attribute(attribute: Any) -> tuple[Any, ...]:
    return attribute.type, attribute.required, attribute.default_value.SerializeToString()


def _values(values: Any) -> list[tuple[str, Any]]:
    return [(value.name, value.option) for value in values]
