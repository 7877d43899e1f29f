"""How a network is written in TOSA."""

from qdialect.plugins.common.exports import EXACT, Export
from qdialect.plugins.tosa.target import TARGET

EXPORTS = (
    Export(
        "tosa",
        EXACT,
        "convert-nn-to-tosa,cse,dce",
        TARGET,
        "qdialect.plugins.tosa.lowering.convert:dialect",
    ),
)
