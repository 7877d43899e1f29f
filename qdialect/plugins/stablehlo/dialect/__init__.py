"""StableHLO and CHLO: their attributes and types. Their ops are rows of `mlir.upstream`.

Nothing in this package knows of `nn`, so that it could go upstream as it is.
"""

from xdsl.ir import Dialect

from qdialect.plugins.stablehlo.dialect.attributes import (
    CHLO_ATTRIBUTES,
    STABLEHLO_ATTRIBUTES,
    ConvolutionDimensionsAttr,
    DotDimensionsAttr,
    GatherDimensionsAttr,
)

STABLEHLO = Dialect("stablehlo", [], STABLEHLO_ATTRIBUTES)
CHLO = Dialect("chlo", [], CHLO_ATTRIBUTES)

__all__ = [
    "CHLO",
    "STABLEHLO",
    "ConvolutionDimensionsAttr",
    "DotDimensionsAttr",
    "GatherDimensionsAttr",
]
