"""What stock `xdsl-opt` gets from us: our dialects and passes (entry point `xdsl.universe`)."""

from __future__ import annotations

from xdsl.universe import Universe

from qdialect.ir.dialects import DIALECTS, load
from qdialect.passes import PASSES
from qdialect.passes import load as load_pass


def _universe() -> Universe:
    from xdsl.dialects import get_all_dialects
    from xdsl.transforms import get_all_passes

    # xDSL refuses to start when two packages define one name: where xDSL has a
    # dialect or pass of that name (canonicalize, cse, dce), its own stays.
    dialects, passes = get_all_dialects(), get_all_passes()
    return Universe(
        all_dialects={name: load(name) for name in DIALECTS if name not in dialects},
        all_passes={name: load_pass(name) for name in PASSES if name not in passes},
    )


UNIVERSE = _universe()
