"""Reductions as ONNX nodes."""

from __future__ import annotations

from collections.abc import Mapping

from qdialect.ir.ops import shape_of
from qdialect.ir.quant import quant_element
from qdialect.plugins.onnx.dialect import GLOBAL_POOL
from qdialect.plugins.onnx.write.float_ops import Call, Writer


def reduce(op_type: str, axes_since: int) -> Writer:
    """A reduction: axes are an input from opset `axes_since` on."""

    def write(call: Call) -> None:
        axes, keep = list(call.values["axes"]), int(call.values["keepdims"])
        if not axes:
            call.node("Identity")
        elif _is_global_pool(call):
            call.node("GlobalMaxPool")
        else:
            given, attributes = call.axes(1, axes, axes_since)
            call.node(op_type, call.inputs[0], *given, **attributes, keepdims=keep)

    return write


def _is_global_pool(call: Call) -> bool:
    if GLOBAL_POOL not in call.op.attributes or quant_element(call.op.operands[0].type):
        return False
    spatial = range(2, len(shape_of(call.op.operands[0])))
    return bool(call.values["keepdims"]) and list(call.values["axes"]) == list(spatial)


REDUCTIONS: Mapping[str, Writer] = {
    "nn.reduce_max": reduce("ReduceMax", 18),
    "nn.reduce_min": reduce("ReduceMin", 18),
    "nn.reduce_mean": reduce("ReduceMean", 18),
    "nn.reduce_sum": reduce("ReduceSum", 13),
}
"""How each reduction is written."""
