"""The names of QONNX's ops that quantize: in the domains that they are and were in."""

from __future__ import annotations

from xdsl.dialects.builtin import DictionaryAttr, ModuleOp

from qdialect.plugins.onnx.dialect import MODEL, NodeOp

_DOMAINS = (
    "qonnx.custom_op.general",
    "qonnx.custom_op",
    "onnx.brevitas",
    "finn.custom_op.general",
    "finn",
)


def in_domains(*op_types: str) -> list[tuple[str, str]]:
    """Ops by domain and name, in each domain."""
    return [(domain, op_type) for domain in _DOMAINS for op_type in op_types]


QONNX_OPS = frozenset(in_domains("Quant", "IntQuant", "BipolarQuant", "Trunc", "FloatQuant"))
"""Each takes a tensor, its scales, and more, and gives floats of the tensor's extents."""


def is_spelled_out(module: ModuleOp) -> bool:
    """Whether the module came from a file with ops that no runtime has, and has none of them:
    what it says runs, the file does not."""
    header = module.attributes.get(MODEL)
    opsets = header.data.get("opset") if isinstance(header, DictionaryAttr) else None
    domains = set(opsets.data if isinstance(opsets, DictionaryAttr) else ()) & set(_DOMAINS)
    return bool(domains) and not any(
        isinstance(op, NodeOp) and op.domain.data in domains for op in module.walk()
    )
