"""How a network is written in linalg, by its forms of casts."""

from functools import partial

from qdialect.plugins.common.exports import DIVIDING, EXACT, Export
from qdialect.plugins.linalg.lowering.convert import CASTS_OF, dialect
from qdialect.plugins.linalg.target import TARGET

EXPORTS = tuple(
    Export(
        name,
        exact,
        f"convert-nn-to-linalg{options},cse,dce",
        TARGET,
        partial(dialect, CASTS_OF[name]),
        keeps_types=name != "linalg",
    )
    for name, exact, options in (
        ("linalg", EXACT, ""),
        ("quant", DIVIDING + EXACT, "{casts=quant}"),
        ("iree", DIVIDING + EXACT, "{casts=iree}"),
    )
)
