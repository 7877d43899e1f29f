"""Accelerators of sequences: integers only, one scale per tensor.

`WHOLE` ones have microcode for an LSTM, a GRU, a softmax and other composites, which takes the
qparams of what it computes on the way from the op. The others have kernels for the pieces of these
only. `sequence8` has codes of 8 bits and takes floats at its interface; `sequence16` has symmetric
codes of 16 bits, sums of 40 bits, and codes at its interface.
"""

from qdialect.ir.behaviors import Comparison, Computation, Contraction, Movement, OrderPreserving
from qdialect.ir.ops.registry import names_of
from qdialect.targets.base import Interface, Target
from qdialect.targets.kernels import Kernel

WHOLE = frozenset(
    {"nn.lstm", "nn.gru", "nn.softmax", "nn.layer_norm", "nn.gelu", "nn.lrn", "nn.attention"}
)
_WITHOUT_KERNEL = {*WHOLE, "nn.batch_norm", "nn.div", "nn.im2col"}
_ON_CODES = {*names_of(Movement, OrderPreserving, Comparison, Computation)} - _WITHOUT_KERNEL


def _target(name: str, codes: str, sums: str, interface: Interface, *, whole: bool) -> Target:
    row = Kernel((codes,), (codes,))
    layer = Kernel((codes, f"{codes} zero=0", f"{codes} zero=0", codes), (codes,), sums)
    kernels = {
        "nn.constant": (Kernel(),),
        "quant.rescale": (row,),
        **dict.fromkeys(_ON_CODES, (row,)),
        **dict.fromkeys(
            names_of(Contraction), (Kernel((codes, f"{codes} zero=0", "i32"), (codes,), sums),)
        ),
    }
    if whole:
        kernels |= dict.fromkeys(WHOLE, (row,)) | dict.fromkeys(("nn.lstm", "nn.gru"), (layer,))
        kernels["nn.attention"] = (Kernel((codes,), (codes,), sums),)
    return Target(
        name,
        f"an accelerator in {codes}, composites {'whole' if whole else 'in pieces'}",
        storages=frozenset({f"{codes} zero=0" if codes == "i16" else codes, "i32 zero=0"}),
        activations=codes,
        per_axis=False,
        per_block=False,
        floats=False,
        kernels=kernels,
        runs_others=False,
        keep_whole=WHOLE if whole else frozenset[str](),
        in_pieces=frozenset[str]() if whole else WHOLE,
        interface=interface,
    )


WHOLE8 = _target("sequence8", "i8", "i32", Interface.FLOAT, whole=True)
PIECES8 = _target("sequence8_pieces", "i8", "i32", Interface.FLOAT, whole=False)
WHOLE16 = _target("sequence16", "i16", "i40", Interface.INTEGER, whole=True)
PIECES16 = _target("sequence16_pieces", "i16", "i40", Interface.INTEGER, whole=False)
