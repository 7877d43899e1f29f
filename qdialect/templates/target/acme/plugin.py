"""What every session of qdialect gets once this package is installed."""

from __future__ import annotations

from qdialect.ir.context import QContext
from xdsl.ir import Dialect
from xdsl.passes import ModulePass
from xdsl.universe import Universe

from acme import kernels
from acme.declarations import CONV_RELU


def _dialect() -> Dialect:
    from acme.dialect import ACME

    return ACME


def _fuse() -> type[ModulePass]:
    from acme.passes import AcmeFuse

    return AcmeFuse


#: imported when a text names the dialect or a command the pass
UNIVERSE = Universe(
    all_dialects={"acme": _dialect},
    all_passes={"acme-fuse": _fuse},
)


def register(session: QContext) -> None:
    """Called once for each session."""
    from acme import lowerings

    session.behaviors.register(CONV_RELU)
    session.kernels[CONV_RELU.op] = kernels.conv_relu
    session.components[CONV_RELU.op] = lowerings.CONV_RELU
