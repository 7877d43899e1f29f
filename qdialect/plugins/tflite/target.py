"""LiteRT (TensorFlow Lite) on a CPU, with XNNPACK, and Circle files for the same ops.

Codes are i8. What a row takes is what `convert-nn-to-tflite` has an integer kernel for that gives
the codes of the op; other ops are better left on floats, between casts, where XNNPACK runs them
as well. Weights have zero point 0 and perhaps a scale per channel, a bias is i32 on the scale of
the sums. SOFTMAX gives codes of 1/256 from -128 only. Codes of 8 bits without a sign are
re-encoded, q - 128, but for those at the interface.

    nn.leaky_relu %x : i8       on floats: the kernel for codes has multipliers of 8 bits
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import inf

from xdsl.ir import Operation

from qdialect.algebra.qparams import QParams
from qdialect.algebra.rounding import Rounding
from qdialect.ir.ops.priced_shapes import priced_shape
from qdialect.ir.ops.registry import default_components
from qdialect.ir.quant import quant_element
from qdialect.plugins.tflite.target_kernels import CODES, FLOAT, I8, Work, cast_work, works
from qdialect.targets.base import Interface, Target
from qdialect.targets.kernels import Kernel
from qdialect.targets.price_table import Prices, PriceTable, shipped_prices

# The prices of target `litert`, as measured.
#
# A rescale is QUANTIZE from codes to codes; XNNPACK runs it at the speed of memory, an op that it
# does not take costs LiteRT's own kernel, a hundred times as much for some (`litert_kernels`).

_CASTS = ("quant.dcast", "quant.qcast")


@dataclass(frozen=True)
class PricedLitert(Target):
    """A target with LiteRT's prices."""

    measured: PriceTable = field(default_factory=lambda: shipped_prices("litert"))

    def with_prices(self, prices: PriceTable) -> PricedLitert:
        return replace(self, measured=prices)

    def _prices(self, op: Operation) -> Prices:
        sizes = [1]
        for value in (*op.operands, *op.results):
            count = 1
            for extent in priced_shape(value):
                count *= max(extent, 1)
            sizes.append(count)
        return self.measured.near(max(sizes))

    def cast_price(self, name: str, codes: QParams) -> float:
        """The measured price on a large tensor, in units of a rescale there."""
        return inf if self.refuses_qparams(codes) else self.measured.largest.codes.get(name, 1.0)

    def start_price(self) -> float:
        """What one more node takes, in elements of a rescale on large tensors."""
        node = self.measured.nanoseconds("quant.rescale", CODES, {"node": 1}) or 0.0
        return node / self.measured.unit_ns

    def op_price(self, op: Operation) -> float:
        """The measured price per element, on codes or on floats."""
        prices = self._prices(op)
        on_codes = bool(op.results) and quant_element(op.results[-1].type) is not None
        if op.name == "quant.scast":
            return 0.0
        if (on_codes or op.name in _CASTS) and op.name in prices.codes:
            return prices.codes[op.name]
        if op.name in prices.floats:
            casts = sum(prices.codes.get(name, 1.0) for name in _CASTS) if on_codes else 0.0
            return prices.floats[op.name] + casts
        return super().op_price(op)

    def state_price(self, op: Operation, state: str) -> float | None:
        """The sum of what it runs in its kernels (see `litert_kernels`)."""
        made = works(op, state)
        return None if made is None else self._nanoseconds(made)

    def state_cast_price(self, name: str, elements: int) -> float | None:
        """As measured."""
        return self._nanoseconds((cast_work(name, elements),))

    def encoding_price(
        self, op: Operation, products: int, activations: str, weights: str
    ) -> float | None:
        """As measured on floats and on i8; there is no kernel for other codes of 8 bits."""
        state = FLOAT if activations == "f32" else f"{activations} {weights}"
        if state not in (FLOAT, I8):
            return None
        price = self.state_price(op, state)
        return None if price is None else price / self.measured.unit_ns

    def _nanoseconds(self, made: Iterable[Work]) -> float | None:
        prices = [self.measured.nanoseconds(*work) for work in made]
        return None if None in prices else sum(price or 0.0 for price in prices)


_WEIGHTS = "i8 zero=0"
_BIAS = "i32 zero=0"
_ANY = (Kernel(("i8",), ("i8",)),)
_TIED = (Kernel(("i8",), ("i8 as=0",)),)
_WINDOW = (Kernel(("i8",), ("i8 as=0",), limits={"rank": "3..4", "dilations": "1"}),)

MOVEMENTS = (
    *("nn.concat", "nn.expand", "nn.flatten", "nn.flip", "nn.gather", "nn.repeat", "nn.tile"),
    *("nn.reshape", "nn.slice", "nn.split", "nn.squeeze", "nn.transpose", "nn.unsqueeze"),
    *("nn.pad", "nn.select", "nn.space_to_depth", "nn.depth_to_space", "nn.resize_nearest"),
)
"""What copies codes."""


def _convolution(axis: int) -> tuple[Kernel, ...]:
    weights = f"{_WEIGHTS} per-axis({axis})"
    return (Kernel(("i8", weights, f"{_BIAS} per-axis(0)"), ("i8",)),)


_KERNELS = {
    "nn.constant": (Kernel(),),
    "quant.rescale": (
        Kernel(("i8",), ("i8|u8",)),
        Kernel(("u8",), ("i8|u8",)),
    ),
    **dict.fromkeys(("nn.conv1d", "nn.conv2d", "nn.fully_connected"), _convolution(0)),
    **dict.fromkeys(("nn.conv_transpose1d", "nn.conv_transpose2d"), _convolution(1)),
    "nn.matmul": (Kernel(("i8", f"{_WEIGHTS} per-axis(1)"), ("i8",)),),
    **dict.fromkeys(("nn.add", "nn.sub", "nn.mul"), _ANY),
    **dict.fromkeys(("nn.maximum", "nn.minimum"), _ANY),
    **dict.fromkeys(("nn.sigmoid", "nn.tanh"), _ANY),
    "nn.softmax": (Kernel(("i8",), ("i8 zero=-128 scale=1/256",)),),
    **dict.fromkeys(("nn.avg_pool1d", "nn.avg_pool2d"), _ANY),
    **{f"nn.global_avg_pool{rank}d": _ANY for rank in (1, 2, 3)},
    **dict.fromkeys(("nn.reduce_mean", "nn.reduce_sum"), _ANY),
    **dict.fromkeys(("nn.max_pool1d", "nn.max_pool2d"), _WINDOW),
    **dict.fromkeys(("nn.relu", "nn.clip", "nn.reduce_max", "nn.reduce_min"), _TIED),
    **dict.fromkeys(MOVEMENTS, (*_TIED, Kernel(("i32",), ("i32 as=0",)))),
    **dict.fromkeys(("nn.arg_max", "nn.arg_min", "nn.compare"), (Kernel(("i8",)),)),
}

TARGET = PricedLitert(
    "litert",
    "LiteRT (TensorFlow Lite) on a CPU, with XNNPACK",
    storages=frozenset({"i8", "u8", "i16", "i32"}),
    activations="i8",
    symmetric=frozenset({"i16", "i32"}),
    per_block=False,
    per_axis_zero_points=False,
    keep_whole=frozenset(default_components()),
    kernels=_KERNELS,
    runs_others=False,
    engines=frozenset({"litert-xnn", "litert-opt", "litert-ref"}),
    roundings=(Rounding.HALF_EVEN,),
    extensions={
        "start": (
            "form-delegated{numerics=LEVEL},dce",
            "reencode-storage{activations=i8 weights=i8 numerics=LEVEL}",
        )
    },
    interface=Interface.KEEP,
    boundary="minimize-conversions",
)

CIRCLE = replace(
    TARGET,
    name="circle",
    summary="Circle files: the ops of TensorFlow Lite, for the ONE runtime",
)
