"""How near a quantized model is to the float one."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import qdialect as qd


def sqnr(a: qd.Model, b: qd.Model, data: Path) -> float:
    """Signal to quantization noise over all samples `x` of a file, in dB."""
    signal = noise = 0.0
    for sample in np.load(data)["x"]:
        (wanted,), (got,) = (list(qd.run(m, {"x": sample}).values()) for m in (a, b))
        signal += float((wanted.astype("f8") ** 2).sum())
        noise += float(((wanted.astype("f8") - got) ** 2).sum())
    return 10 * np.log10(signal / noise)
