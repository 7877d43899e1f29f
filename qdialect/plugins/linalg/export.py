"""How a network is written in linalg, by its forms of casts."""

from qdialect.plugins.common.exports import DIVIDING, EXACT, Export
from qdialect.plugins.linalg.target import TARGET

EXPORTS = tuple(
    Export(
        name,
        exact,
        f"convert-nn-to-linalg{options},cse,dce",
        TARGET,
        "qdialect.plugins.linalg.lowering.convert:dialect",
        (casts,),
        keeps_types=name != "linalg",
    )
    for name, exact, casts, options in (
        ("linalg", EXACT, "arith", ""),
        ("quant", DIVIDING + EXACT, "quant", "{casts=quant}"),
        ("iree", DIVIDING + EXACT, "iree", "{casts=iree}"),
    )
)
