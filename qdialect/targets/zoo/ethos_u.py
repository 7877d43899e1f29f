"""Arm Ethos-U55, U65 and U85, as their compiler Vela takes operators of TensorFlow Lite.

What meets no constraint runs on the processor beside the NPU: so there is float arithmetic. Vela
lists constraints by operator; the U55 and U65 have the same list, the U85 a longer one with fewer
restrictions. An operator stands for the op that it is: EXPAND_DIMS for `nn.unsqueeze`. Which
tensors have the same qparams is what TensorFlow Lite asks of the file that Vela reads.

    nn.max_pool2d %x {kernel = array<i64: 2, 2>, strides = array<i64: 4, 4>,
                      pads = array<i64: 1, 1, 1, 1>}     stays on the processor
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from qdialect.targets.base import Target
from qdialect.targets.kernels import Kernel
from qdialect.targets.zoo import with_kernels

_STATIC = {"dynamic": "0"}
_WIDE, _NARROW = "i8|u8|i16|i32", "i8|u8|i16"
_VALID = {"pads": "0", "dilations": "1"}
_STEPS = {"strides": "1..3"}
_TALL = {"window(0)": "1..256", "window-size": "1..65536"}
_FACTORS = "|".join(str(1 << n) for n in range(11))
"""Powers of two to 1024."""


def _kernel(
    operands: str | tuple[str, ...],
    result: str,
    limits: Iterable[Mapping[str, str]] = ({},),
    sums: str = "i32",
) -> tuple[Kernel, ...]:
    """A kernel for each of some limits, all of whose tensors have known shapes."""
    types = (operands,) if isinstance(operands, str) else operands
    return tuple(Kernel(types, (result,), sums, {**_STATIC, **each}) for each in limits)


def _contraction(
    limits: Iterable[Mapping[str, str]] = ({},), wide_sums: str = "i40"
) -> tuple[Kernel, ...]:
    """8-bit weights with 8-bit codes, which i32 sums, and with i16."""
    weights = ("i8|u8 per-axis", "i32 per-axis")
    return (
        *_kernel(("i8|u8", *weights), _NARROW, limits),
        *_kernel(("i16", *weights), _NARROW, limits, wide_sums),
    )


def _pool(largest: Mapping[str, str], *others: Mapping[str, str]) -> tuple[Kernel, ...]:
    return _kernel(_NARROW, f"{_NARROW} as=0", ({**_VALID, **largest}, *others))


_TIED = _kernel((_NARROW, f"{_NARROW} as=0"), f"{_NARROW} as=0")
_TIED_WIDE = _kernel((_WIDE, f"{_WIDE} as=0"), f"{_WIDE} as=0")
_ANY = _kernel(_NARROW, _NARROW)
_ANY_WIDE = _kernel(_WIDE, _WIDE)
_MEAN = tuple(
    kernel
    for storage, most in (("i8", 1 << 24), ("u8", 1 << 23), ("i16", 1 << 16))
    for kernel in _kernel(
        storage,
        _NARROW,
        [{"batch": "1", "window": "1..4096", "window-size": f"1..{most}"}],
    )
)
_CLAMPS = _kernel(_NARROW, _NARROW, [{"min": "0", "max": "1|6"}, {"min": "-1", "max": "1"}])
_ONE_STRIDE = ({"strides": "1"}, {"strides": "2"})

_BOTH = {
    "nn.constant": (Kernel(),),
    **dict.fromkeys(("nn.flatten", "nn.reshape", "nn.squeeze", "nn.unsqueeze"), _TIED_WIDE),
    **dict.fromkeys(("nn.slice", "nn.split", "nn.tile", "nn.pad", "nn.concat"), _TIED),
    **dict.fromkeys(
        ("nn.abs", "nn.exp", "nn.leaky_relu", "nn.prelu", "nn.sigmoid", "nn.tanh", "nn.relu"),
        _ANY,
    ),
    **dict.fromkeys(("nn.add", "nn.sub", "nn.mul", "nn.neg", "nn.reduce_sum"), _ANY_WIDE),
    **dict.fromkeys(("nn.maximum", "nn.minimum", "nn.reduce_max", "nn.reduce_min"), _TIED),
    **dict.fromkeys(("nn.reduce_mean", "nn.global_avg_pool2d"), _MEAN),
    "nn.clip": _CLAMPS,
    "nn.hard_swish": _kernel("i8|u8", "i8|u8"),
    "nn.elu": _kernel("i8", "i8"),
    "nn.gelu": _kernel("i8|u8", "i8|u8"),
    "nn.log": _kernel("i8|i16", "i8|i16"),
    "nn.softmax": _kernel(_NARROW, _NARROW, [{"window-size": "0..65535"}]),
}

_OLDER = {
    **_BOTH,
    "quant.rescale": _ANY,
    "nn.transpose": _TIED_WIDE,
    "nn.arg_max": _kernel(_NARROW, "*", [{"axis": "1", "channels": "1..127"}]),
    "nn.avg_pool2d": _pool(_TALL, {**_STEPS, **_TALL, "pads": "0"}, {**_STEPS, "window": "1..8"}),
    "nn.max_pool2d": _pool(_TALL, {**_STEPS, **_TALL}),
    "nn.conv2d": _contraction((_STEPS, _VALID)),
    "nn.conv_transpose2d": _contraction(_ONE_STRIDE),
    "nn.fully_connected": _contraction(),
    "nn.matmul": _kernel("i8", _NARROW, [{"extent": "1..65536"}]),
    "nn.resize_linear": _kernel(_NARROW, f"{_NARROW} as=0", [{"factor": "1|2|4|8"}]),
    "nn.resize_nearest": _kernel(_NARROW, f"{_NARROW} as=0", [{"factor": "1|2|4|8"}]),
}
"""Of the U55 and the U65."""

_U85 = {
    **_BOTH,
    **dict.fromkeys(("quant.rescale", "nn.abs", "nn.div"), _ANY_WIDE),
    **dict.fromkeys(("nn.compare", "nn.select"), _ANY_WIDE),
    **dict.fromkeys(
        ("nn.flip", "nn.transpose", "nn.concat", "nn.maximum", "nn.minimum"), _TIED_WIDE
    ),
    "nn.gather": _kernel(_WIDE, f"{_WIDE} as=0", [{"axis": "0"}]),
    "nn.arg_max": _kernel(_NARROW, "*"),
    "nn.avg_pool2d": _pool(_TALL, {**_TALL, "pads": "0"}, {"window": "1..8"}),
    "nn.max_pool2d": _pool(_TALL, _TALL),
    "nn.conv2d": _contraction(wide_sums="i48"),
    "nn.conv_transpose2d": _contraction(wide_sums="i48"),
    "nn.fully_connected": _contraction(wide_sums="i48"),
    "nn.matmul": _kernel(_NARROW, _NARROW),
    "nn.resize_linear": _kernel(_NARROW, f"{_NARROW} as=0", [{"factor": _FACTORS}]),
    "nn.resize_nearest": _kernel(_NARROW, f"{_NARROW} as=0", [{"factor": "1..1024"}]),
}

_SUMMARY = "Arm Ethos-U{}, beside a processor, by the constraints of Vela 5.2"

U55 = Target(
    "ethos-u55",
    _SUMMARY.format(55),
    storages=frozenset({"i8", "u8", "i16", "i32"}),
    activations="i8",
    keep_whole=with_kernels(_OLDER),
    symmetric=frozenset({"i32"}),
    per_block=False,
    per_axis_zero_points=False,
    kernels=_OLDER,
    runs_others=False,
)

U65 = replace(U55, name="ethos-u65", summary=_SUMMARY.format(65))
U85 = replace(
    U55,
    name="ethos-u85",
    summary=_SUMMARY.format(85),
    symmetric=frozenset({"i16", "i32"}),
    keep_whole=with_kernels(_U85),
    kernels=_U85,
)
