"""Our ops for compilers that take TOSA."""

from __future__ import annotations


def splat_max(e, op, operands):
    """max(codes, the code of the floor), in 32 bits."""
    import numpy as np
    from xdsl.dialects.builtin import i32

    from qdialect.dialects.tosa.base import PROPAGATE
    from qdialect.lowerings.errors import Unlowerable
    from qdialect.lowerings.tosa.elementwise import narrowed
    from qdialect.lowerings.tosa.rescale import widened

    (x,) = operands
    if x.params is None or not x.params.is_per_tensor:
        raise Unlowerable("float", "it is for codes with one scale", "quantize it")
    steps = op.properties["floor"].value.data / x.params.scale
    if steps != round(steps):
        raise Unlowerable("level", "no code stands for its floor")
    bound = e.const(np.full((1,) * x.rank, round(steps), np.int32), i32)
    shape = [x.shape[d] for d in x.order]
    out = e.op("maximum", [widened(e, x, x.order), bound], shape, i32, nan_mode=PROPAGATE)
    return e.result(narrowed(e, out, x.params), x.order, x.params, x.shape)
