"""How a network is written in StableHLO."""

from qdialect.plugins.common.exports import DIVIDING, ROUNDING_ONCE, Export
from qdialect.plugins.stablehlo.lowering.convert import dialect
from qdialect.plugins.stablehlo.target import TARGET

EXPORTS = (
    Export(
        "stablehlo",
        DIVIDING + ROUNDING_ONCE,
        "convert-nn-to-stablehlo,cse,dce",
        TARGET,
        dialect,
        optimized_for="stablehlo",
        keeps_types=True,
    ),
)
