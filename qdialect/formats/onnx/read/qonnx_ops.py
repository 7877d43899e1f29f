"""The names of QONNX's ops that quantize: in the domains that they are and were in."""

from __future__ import annotations

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
