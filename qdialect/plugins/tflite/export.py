"""How a network is written in TFLite: by kernels with our bits, or that may be a step off."""

from qdialect.algebra.contract import Numerics
from qdialect.plugins.common.exports import AS_IT_IS, Export
from qdialect.plugins.tflite.target import TARGET

EXPORTS = tuple(
    Export(
        name,
        AS_IT_IS,
        f"convert-nn-to-tflite{options},cse,dce",
        TARGET,
        "qdialect.plugins.tflite.lowering.convert:dialect",
        (numerics,),
        optimized_for="litert",
        keeps_types=True,
    )
    for name, options, numerics in (
        ("tflite", "", Numerics.TIES),
        ("tflite-bounded", "{numerics=bounded}", Numerics.BOUNDED),
    )
)
