"""The operations of StableHLO that quantized networks are exchanged in.

Operands, properties and names are those of StableHLO 1.x (StablehloOps.td). What the
specification asks of types and shapes is left to a reader of its own; only what makes an
operation unreadable is verified here. Nothing in this package knows of `nn`, so that it could
go upstream as it is.

Text is exchanged in the generic form only: what is pretty differs between versions.
"""

from xdsl.ir import Dialect

from qdialect.dialects.stablehlo.attributes import (
    STABLEHLO_ATTRIBUTES,
    ConvolutionDimensionsAttr,
    DotDimensionsAttr,
    GatherDimensionsAttr,
)
from qdialect.dialects.stablehlo.floats import FLOAT_OPS
from qdialect.dialects.stablehlo.ops import OPS

STABLEHLO = Dialect("stablehlo", [*OPS, *FLOAT_OPS], STABLEHLO_ATTRIBUTES)

__all__ = [
    "STABLEHLO",
    "ConvolutionDimensionsAttr",
    "DotDimensionsAttr",
    "GatherDimensionsAttr",
]
