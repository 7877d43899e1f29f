"""Element types that quantization nodes are given, against what their schema takes.

Neither the ONNX checker nor shape inference looks at them. Quantizers write such files
(codes of 16 bits before opset 21, zero points of type f32), and no runtime loads one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qdialect.errors import InputError
from qdialect.packages import package
from qdialect.plugins.onnx.read.load import LoadedModel, label

if TYPE_CHECKING:
    from onnx import NodeProto

_CHECKED = frozenset(
    {
        *("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"),
        *("QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger"),
    }
)


_EARLY = frozenset({"int2", "uint2"})
"""Types that the tests of onnx itself use in models of an opset before the one that has them."""


def check_operand_types(loaded: LoadedModel) -> None:
    """InputError for the first such node with an operand of a type it does not take."""
    nodes = [n for n in loaded.model.graph.node if n.op_type in _CHECKED and _is_standard(n.domain)]
    if not nodes:
        return
    entries = loaded.model.opset_import
    version = next((entry.version for entry in entries if _is_standard(entry.domain)), 1)
    found = {name: kind.tensor_type.elem_type for name, kind in loaded.types.items()}
    found |= {tensor.name: tensor.data_type for tensor in loaded.model.graph.initializer}
    for node in nodes:
        reason = _wrong(node, version, found)
        if reason is not None:
            raise InputError(reason, where=loaded.where(label(node)), code="invalid-node")


def _is_standard(domain: str) -> bool:
    return domain in ("", "ai.onnx")


def _wrong(node: NodeProto, version: int, found: dict[str, int]) -> str | None:
    defs, names = package("onnx.defs"), package("onnx").TensorProto.DataType
    if not defs.has(node.op_type, version, ""):
        return None
    ports: list[Any] = list(defs.get_schema(node.op_type, version, "").inputs)
    for name, port in zip(node.input, ports, strict=False):
        given = found.get(name, 0)
        if not name or given not in names.values() or given == 0:
            continue
        kind = str(names.Name(given)).lower()
        if f"tensor({kind})" not in port.types and kind not in _EARLY:
            return (
                f"{port.name} '{name}' is {kind}, which {node.op_type} of opset {version} "
                "does not take"
            )
    return None
