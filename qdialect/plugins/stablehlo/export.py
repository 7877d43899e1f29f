"""How a network is written in StableHLO."""

from qdialect.plugins.common.exports import DIVIDING, ROUNDING_ONCE, Export
from qdialect.plugins.stablehlo.target import TARGET

EXPORTS = (
    Export(
        "stablehlo",
        DIVIDING + ROUNDING_ONCE,
        "convert-nn-to-stablehlo,cse,dce",
        TARGET,
        "qdialect.plugins.stablehlo.lowering.convert:dialect",
        optimized_for="stablehlo",
        keeps_types=True,
    ),
)
