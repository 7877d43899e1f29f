"""What the types `!quant.any`, `!quant.calibrated` and `!quant.quantile` hold.

`!quant.uniform` holds a `qdialect.algebra.qparams.parameters.QParams`.
"""

from __future__ import annotations

from typing import NamedTuple

from qdialect.algebra.qparams.parameters import Storage


class AnyParams(NamedTuple):
    """A storage, and perhaps an expressed float type, without parameters."""

    storage: Storage
    expressed: str | None = None


class CalibratedRange(NamedTuple):
    """An expressed float type and the closed range [min, max] of real values seen."""

    expressed: str
    min: float
    max: float
