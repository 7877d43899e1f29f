"""What every session gets once this package is installed."""

from __future__ import annotations

from xdsl.ir import Dialect
from xdsl.passes import ModulePass
from xdsl.universe import Universe

from acme_npu import kernels, lowerings
from acme_npu.declarations import CONV_RELU, ROTATE, SPLAT_MAX
from qdialect.context import QContext


def _dialect() -> Dialect:
    from acme_npu.dialect import ACME

    return ACME


def _fuse() -> type[ModulePass]:
    from acme_npu.passes import AcmeFuse

    return AcmeFuse


UNIVERSE = Universe(all_dialects={"acme": _dialect}, all_passes={"acme-fuse": _fuse})


def register(session: QContext) -> None:
    for behavior in (SPLAT_MAX, ROTATE, CONV_RELU):
        session.behaviors.register(behavior)
    session.kernels.update(
        {
            "acme.splat_max": kernels.splat_max,
            "acme.rotate": kernels.rotate,
            "acme.conv_relu": kernels.conv_relu,
        }
    )
    # acme.rotate needs none: its index map says what it is.
    session.lowerings.setdefault("tosa", {})["acme.splat_max"] = lowerings.splat_max
