"""The names of the ops of Quark's that quantize, now (`com.amd.quark`) and in older files
(`com.vai.quantize`)."""

from __future__ import annotations

_NEW, _OLD = "com.amd.quark", "com.vai.quantize"

QUANTIZE = frozenset({(_NEW, "ExtendedQuantizeLinear"), (_OLD, "VitisQuantizeLinear")})
"""As QuantizeLinear, of an axis 0 where none is given, and to float16 and bfloat16 too."""
DEQUANTIZE = frozenset({(_NEW, "ExtendedDequantizeLinear"), (_OLD, "VitisDequantizeLinear")})
ROUNDED = frozenset(
    {
        *((_NEW, f"{kind}QuantizeDequantize") for kind in ("BFP", "MX")),
        *((_OLD, f"{kind}FixNeuron") for kind in ("BFP", "MX")),
    }
)
"""Floats rounded to what blocks with an exponent in common hold: of the type and extents of the
operand."""
