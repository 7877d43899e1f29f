"""What ONNX Runtime's CPU kernels take, found by probing ONNX Runtime 1.20 to 1.31.

`tests/formats/onnx/test_kernels.py` holds every line of these tables against the runtime
that is installed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, cast

from xdsl.ir import Operation

from qdialect.algebra.qparams.parameters import QParams
from qdialect.errors import UsageError
from qdialect.ir import ops as nn
from qdialect.ir.behaviors import Movement
from qdialect.ir.ops import NNOp, shape_of
from qdialect.ir.ops.registry import names_of
from qdialect.ir.quant import quant_element

Version = tuple[int, int]
"""Major and minor version of ONNX Runtime."""

NEWEST: Version = (1, 31)
"""The newest runtime that was probed."""

_ANY = frozenset({"u8", "i8", "u16", "i16", "i32"})
_BYTES = frozenset({"u8", "i8"})

DIRECT: Mapping[str, frozenset[str]] = {
    **{name: _ANY for name in names_of(Movement) if name != "nn.im2col"},
    "nn.pad": _BYTES,
    **{kind.name: _BYTES for kind in nn.MAX_POOLS},
    "nn.compare": _ANY,
    "nn.arg_max": frozenset({"u8", "i8", "i32"}),
    "nn.arg_min": frozenset({"u8", "i8", "i32"}),
    "nn.top_k": frozenset({"u8", "i8", "i16", "i32"}),
    "nn.reduce_max": _BYTES,
    "nn.reduce_min": _BYTES,
    "nn.select": frozenset({"u8", "i8", "i32"}),
    "nn.depth_to_space": _BYTES,
    "nn.space_to_depth": _BYTES,
    "nn.resize_nearest": frozenset({"u8", "i8", "i32"}),
}
"""Ops whose meaning on stored integers is the same ONNX op: storages it runs on."""

#: weights go with activations: unsigned ones only with unsigned activations
WEIGHTS: Mapping[str, frozenset[str]] = {"u8": _BYTES, "i8": frozenset({"i8"})}

SINCE: Mapping[tuple[str, str], Version] = {
    ("nn.depth_to_space", "u8"): (1, 21),
    ("nn.depth_to_space", "i8"): (1, 28),
    ("nn.space_to_depth", "u8"): (1, 28),
    ("nn.space_to_depth", "i8"): (1, 28),
    ("nn.softmax", "i8"): (1, 29),  # before, results are wrong
    ("nn.select", "i8"): (1, 31),
    # Older ones may take these too; 1.31 was probed.
    **{("nn.top_k", storage): (1, 31) for storage in ("u8", "i8", "i16")},
    **{("nn.compare", storage): (1, 31) for storage in ("u8", "i8", "u16", "i16")},
}
"""The first runtime that takes an op on a storage, where 1.20 does not."""


@dataclass(frozen=True)
class Kernel:
    """An integer kernel: activations and result of one storage, per tensor.

    `weight` is the operand that may be per channel (on dimension `channel`, from the
    end if negative) and has a storage of `WEIGHTS`; `bias` the i32 operand whose
    scale is the product of the others'.  Results are the exact ones rounded to
    nearest, where float32 evaluation may move a value within 1e-4 of a tie; halves go
    to even, but away from zero for a storage in `moves_ties`.  Not so with
    `off_by_one`: results may be a step low anywhere.  Zero points may differ between
    the channels of a weight from the runtime `mixed_zero_points` on.
    """

    op_type: str
    domain: str = "com.microsoft"
    weight: int | None = None
    channel: int = 0
    bias: int | None = None
    moves_ties: frozenset[str] = field(default_factory=frozenset[str])
    off_by_one: bool = False
    mixed_zero_points: Version = (1, 20)


KERNELS: Mapping[str, Kernel] = {
    **{
        kind.name: Kernel("QLinearConv", "", weight=1, bias=2, mixed_zero_points=(1, 27))
        for kind in nn.CONVOLUTIONS
    },
    "nn.fully_connected": Kernel("QGemm", weight=1, bias=2),
    "nn.matmul": Kernel("QLinearMatMul", "", weight=1, channel=-1),
    "nn.add": Kernel("QLinearAdd"),
    "nn.mul": Kernel("QLinearMul"),
    "nn.concat": Kernel("QLinearConcat"),
    **{
        kind.name: Kernel("QLinearAveragePool", moves_ties=frozenset({"i8"}))
        for kind in nn.AVERAGE_POOLS
    },
    **{kind.name: Kernel("QLinearGlobalAveragePool") for kind in nn.GLOBAL_AVERAGE_POOLS},
    "nn.sigmoid": Kernel("QLinearSigmoid"),
    "nn.leaky_relu": Kernel("QLinearLeakyRelu"),
    "nn.softmax": Kernel("QLinearSoftmax", off_by_one=True),
}
"""The integer kernel of an op."""

CLAMPS: Mapping[str, frozenset[str]] = {"nn.relu": _BYTES, "nn.clip": _BYTES}
"""Ops that become a Clip of stored integers (Relu does not take u8; Max and Min take
bytes since 1.24 and are no faster)."""


Numerics = Literal["ties", "bounded"]
"""Results may differ from the exact ones at ties only, or by a step anywhere."""


def installed_runtime() -> Version | None:
    """The version of the ONNX Runtime that is installed, without importing it."""
    from importlib.metadata import PackageNotFoundError, version

    for package in ("onnxruntime", "onnxruntime-gpu"):
        try:
            return parse_version(version(package))
        except PackageNotFoundError:
            continue
    return None


def parse_version(text: str) -> Version:
    """Major and minor version; UsageError (`bad-version`) if `text` is none."""
    found = re.match(r"(\d+)\.(\d+)", text)
    if found is None:
        raise UsageError(f"no version of ONNX Runtime: '{text}'", code="bad-version")
    return int(found[1]), int(found[2])


def runs_on(name: str, storage: str, runtime: Version) -> bool:
    """Whether `runtime` is new enough to take op `name` on `storage`."""
    return runtime >= SINCE.get((name, storage), runtime)


def refusal(op: Operation, numerics: Numerics = "ties", runtime: Version = NEWEST) -> str | None:
    """Why no kernel of `runtime` runs `op` that well, or None if one does."""
    kernel = KERNELS.get(op.name)
    if kernel is None:
        return "there is no integer kernel"
    if kernel.off_by_one and numerics == "ties":
        return "the kernel is one step off"
    values = cast("NNOp", op).values
    if values.get("rounding", "half_even") != "half_even":
        return f"the kernel does not round {values['rounding']}"
    if isinstance(op, nn.WindowOp) and any(d != 1 for d in op.values["dilations"]):
        return "the kernel has no dilation"
    elements = [quant_element(v.type) for v in (*op.operands, *op.results)]
    if any(element is None for element in elements):
        return "an operand or the result is not quantized"
    qparams = [element.qparams for element in elements if element is not None]
    bias = kernel.bias if kernel.bias is not None and kernel.bias < len(op.operands) else None
    activations = [q for i, q in enumerate(qparams) if i not in (kernel.weight, bias)]
    return (
        _activations(activations)
        or _too_old(op, activations[0], runtime)
        or _weight(op, kernel, qparams, runtime)
        or ("the bias is not stored as i32" if bias and _is_not_i32(qparams[bias]) else None)
    )


def _activations(qparams: list[QParams]) -> str | None:
    storages = {q.storage.spelling for q in qparams}
    if not storages <= _BYTES or len(storages) != 1:
        return f"the kernel does not take activations stored as {', '.join(sorted(storages))}"
    if not all(q.is_per_tensor for q in qparams):
        return "the kernel takes activations per tensor only"
    if any(q.expressed != "f32" for q in qparams):
        return "the kernel takes f32 scales only"
    return None


def _too_old(op: Operation, qparams: QParams, runtime: Version) -> str | None:
    if runs_on(op.name, qparams.storage.spelling, runtime):
        return None
    return f"the kernel of this runtime does not take {qparams.storage}"


def _weight(op: Operation, kernel: Kernel, qparams: list[QParams], runtime: Version) -> str | None:
    if kernel.weight is None:
        return None
    weight, shape = qparams[kernel.weight], shape_of(op.operands[kernel.weight])
    allowed = WEIGHTS[qparams[0].storage.spelling]
    if weight.storage.spelling not in allowed or weight.expressed != "f32":
        return f"the kernel takes no {weight.storage} weight with this activation"
    if op.name == "nn.matmul" and min(len(shape), len(shape_of(op.operands[0]))) < 2:
        return "the kernel takes no vectors"
    if 0 in (*shape, *shape_of(op.operands[0])):
        return "the kernel leaves a sum over nothing what was in memory"
    if weight.is_per_tensor:
        return None
    if weight.axis != kernel.channel % len(shape) or (op.name == "nn.matmul" and len(shape) != 2):
        return "the kernel takes no weight with these channels"
    if runtime < kernel.mixed_zero_points and len(set(weight.zero_point_list())) > 1:
        return "the kernel of this runtime takes one zero point for all channels"
    return None


def _is_not_i32(qparams: QParams) -> bool:
    return qparams.storage.width != 32 or any(qparams.zero_point_list())
