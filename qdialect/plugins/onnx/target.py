"""ONNX Runtime on a CPU.

Integer kernels exist for the common ops; whatever lacks one is exported as
DequantizeLinear, float op, QuantizeLinear, so nothing is illegal, but a rescale
costs two kernels over the tensor.  Prices are measured (see `price_table.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import inf, prod
from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import TensorType

from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.ops.priced_shapes import priced_shape
from qdialect.ir.quant import quant_element
from qdialect.plugins.onnx.target_casts import (
    PRODUCTS,
    runs_on_codes,
    takes_bias_alone,
)
from qdialect.plugins.onnx.target_kernels import FLOAT, Work, cast_work, contraction, ways
from qdialect.targets.base import Target
from qdialect.targets.kernels import ANY, Kernel
from qdialect.targets.price_table import Prices, PriceTable, nearest, shipped_prices

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xdsl.ir import Operation

    from qdialect.algebra.qparams import QParams
    from qdialect.ir.ops.base import NNOp

_CASTS = ("quant.rescale", "quant.scast", "quant.dcast", "quant.qcast", "nn.table")

_ONE_TAP = {"nn.conv1d": "nn.conv2d", "nn.conv2d": "nn.conv2d", "nn.conv3d": "nn.conv2d"}
"""Convolutions priced as the one of one tap per channel, which is elementwise."""

_ENTRIES = "u8|i8|u16|i16|i32"


def _shapes(op: Operation) -> list[tuple[int, ...]]:
    """The shapes of its first operand and of its first result."""
    values = (*op.operands[:1], *op.results[:1])
    return [priced_shape(v) for v in values if isinstance(v.type, TensorType)]


def _size(op: Operation) -> int:
    """Elements of its first operand or first result, whichever has more."""
    return _largest(_shapes(op))


def _largest(shapes: list[tuple[int, ...]]) -> int:
    return max(map(_elements, shapes), default=1)


@lru_cache(maxsize=1024)
def _elements(shape: tuple[int, ...]) -> int:
    return prod(max(n, 1) for n in shape)


_BETTER_IN_PIECES = frozenset(
    {"nn.hard_sigmoid", "nn.hard_swish", "nn.prelu", "nn.swish", "nn.rms_norm"}
)
"""QLinearAdd, QLinearSigmoid and QLinearMul take 0.7 of the time of the op on floats and its casts
(a text recognizer with 28 of them)."""


def _summed(op: Operation) -> float:
    weight, v = shape_of(op.operands[1]), cast("NNOp", op).values
    return weight[0] // v["groups"] * prod(weight[2:]) / prod(v["strides"])


def _kind(op: Operation) -> str:
    """Which measured op `op` is like, between casts or in an integer kernel."""
    inner = op.name == "nn.softmax" and cast("NNOp", op).values["axis"] not in (
        -1,
        len(shape_of(op.operands[0])) - 1,
    )
    return f"{op.name} inner" if inner else op.name


_SUMMED = 4
"""Products of u8 and i8 that are summed at a time, and channels of the result in a block."""
_BLOCK = 16
"""Channels of the result that are computed at a time; fewer take as long as more blocks."""


def _multiple(n: int, unit: int) -> int:
    return -(-n // unit) * unit


@dataclass(frozen=True)
class _OnnxRuntime(Target):
    measured: PriceTable = field(default_factory=lambda: shipped_prices("onnxruntime"))

    def _prices(self, op: Operation) -> Prices:
        return self.measured.near(_size(op))

    def with_prices(self, prices: PriceTable) -> _OnnxRuntime:
        return replace(self, measured=prices)

    def form_prices(self, op: Operation) -> tuple[float, float] | None:
        if not op.results or quant_element(op.results[0].type) is None:
            return None
        prices = self._prices(op)
        pair = prices.forms.get(_kind(op))
        whole = _size(op) * prices.unit_ns
        return None if pair is None else (whole * pair[0], whole * pair[1])

    def encoding_price(
        self, op: Operation, products: int, activations: str, weights: str
    ) -> float | None:
        """As measured: no kernel takes what was not. No codes take less than u8 with weights of
        i8, term by term: dot products are of these, and others are turned into them, so that
        what is measured below it is noise."""
        state = FLOAT if activations == "f32" else f"{activations} {weights}"
        work = contraction(op, state)
        if work is None or work.kernel not in self.measured.kernels:
            return None
        known = self.measured.kernels[work.kernel]
        own = known.get(state)
        if own is None:
            return inf
        least = own if state == FLOAT else known.get("u8 i8", own)
        price = sum(max(own.get(n, 0.0), least.get(n, 0.0)) * v for n, v in work.terms.items())
        return price / self.measured.unit_ns

    def cast_price(self, name: str, codes: QParams) -> float:
        """The measured price on a large tensor, in units of a rescale there."""
        return inf if self.refuses_qparams(codes) else self.measured.largest.codes.get(name, 0.5)

    def start_price(self) -> float:
        """What an element takes longer on the smallest tensor measured, times its elements."""
        small, large = self.measured.smallest, self.measured.largest
        return max(small.unit_ns / large.unit_ns - 1, 0.0) * small.elements

    def op_price(self, op: Operation) -> float:
        """The measured price, on codes or on floats."""
        prices = self._prices(op)
        codes, floats = prices.codes, prices.floats
        if op.name in _ONE_TAP:
            return codes.get(_ONE_TAP[op.name], inf)
        elements = [quant_element(v.type) for v in (*op.operands, *op.results)]
        on_codes = elements[-1] is not None
        # No elementwise kernel takes parameters along a dimension: casts around the float op.
        along = not all(e is None or e.qparams.is_per_tensor for e in elements)
        has_kernel = not along or op.name in _CASTS
        if op.name in codes and has_kernel and (on_codes or op.name not in floats):
            return codes[op.name]
        # Not on codes: a rescale with the float op in the middle.
        price = floats.get(op.name, 0.5) + on_codes
        if op.name == "nn.batch_norm" and on_codes:
            # Convolutions take channels last, and a transpose goes past no batch norm.
            price += 2 * codes.get("nn.transpose", 0.0)
        return price

    def state_price(self, op: Operation, state: str) -> float | None:
        """The sum of what it runs, in the cheapest way (see `onnxruntime_kernels`)."""
        prices = [self._nanoseconds(way) for way in ways(op, state)]
        return min((price for price in prices if price is not None), default=None)

    def state_cast_price(self, name: str, elements: int) -> float | None:
        """As measured."""
        return self._nanoseconds((cast_work(name, elements),))

    def _nanoseconds(self, made: Iterable[Work]) -> float | None:
        prices = [self.measured.nanoseconds(*work) for work in made]
        return None if None in prices else sum(price or 0.0 for price in prices)

    def in_floats(self, op: Operation) -> bool:
        """Where the op on floats with separate casts was measured faster than what the runtime
        fuses."""
        prices = self._prices(op)
        price = prices.apart.get(_kind(op))
        forms = None if price is None else self.form_prices(op)
        if price is None or forms is None:
            return False
        return price * _size(op) * prices.unit_ns < min(forms)

    def moves_axis(self, op: Operation) -> bool:
        """Where what was measured along the last dimension, and two transposes, cost less;
        copies of whole pixels cost what a transpose does.  Its transposes for convolutions go
        past nearest upsampling, whose kernel for channels last takes ten times as long."""
        if op.name == "nn.resize_nearest":
            return True
        prices = self._prices(op)
        turn = prices.codes.get("nn.transpose")
        if op.name in prices.codes:
            return turn is not None and 3 * turn < prices.codes[op.name]
        there, last = prices.forms.get(f"{op.name} inner"), prices.forms.get(op.name)
        if there is None or last is None or turn is None:
            return False
        return min(last) + 2 * turn < min(there)

    def at_load(self, op: Operation) -> bool:
        """Where casts and product become no integer kernel: it folds no DequantizeLinear."""
        return isinstance(op, PRODUCTS) and not runs_on_codes(op)

    def parts_bias(self, op: Operation) -> bool:
        """Where a Gemm with a float bias would keep the product on floats."""
        return takes_bias_alone(op)

    def channels(self, op: Operation) -> tuple[int, int] | None:
        """Numbers of channels that its products of u8 and i8 are fast with, where that is worth
        the padding and slicing."""
        x, weight, result = op.operands[0], op.operands[1], op.results[0]
        elements = [quant_element(v.type) for v in (x, weight)]
        prices = self._prices(op)
        pair, moved = prices.channels.get("nn.conv2d"), prices.codes.get("nn.pad")
        kinds = [e and e.qparams.storage.spelling for e in elements]
        if pair is None or moved is None or kinds != ["u8", "i8"]:
            return None
        count, channels, *taps = shape_of(weight)
        whole = channels * prod(taps) % _SUMMED == 0
        inputs = channels if whole else _multiple(channels, _SUMMED)
        outputs = max(_multiple(count, _SUMMED), _BLOCK)
        if not channels or not count or shape_of(x)[1] != channels:
            return None
        if (inputs, outputs) == (channels, count):
            return None
        read, written = (_elements(priced_shape(v)) for v in (x, result))
        cost = read // channels * inputs if inputs != channels else 0
        cost += written if outputs != count else 0
        return (inputs, outputs) if moved * cost < (pair[0] - pair[1]) * written / count else None

    def should_lower(self, op: Operation) -> bool:
        """There is an integer kernel for a transposed convolution in phases: it pays where
        enough is summed.  That of PReLU branches: two others take a quarter of its time."""
        if op.name == "nn.prelu":
            return True
        if op.name == "nn.conv_transpose2d":
            measured = self._prices(op).transposed
            if not measured:
                return False
            floats, codes = nearest(measured, _summed(op))
            return codes < floats
        return super().should_lower(op)

    def should_raise(self, op: Operation) -> bool:
        """All but those whose pieces have integer kernels, where the op itself has none."""
        return op.name not in _BETTER_IN_PIECES


TARGET = _OnnxRuntime(
    "onnxruntime",
    "ONNX Runtime, CPU execution provider",
    tables=True,
    # MatMulNBits and MatMulBnb4; nothing runs f4E2M1FN on a CPU.
    block_weights=frozenset(
        {"i8", "u8", "i4", "u4", "i3", "u3", "i2", "u2", "nf4", "mxint8", "i16"}
    ),
    divides=True,
    # Of an op on both it makes casts around the op on floats.
    mixes_bytes=False,
    # Its prices of casts and of ops on floats are measured.
    boundary="minimize-conversions",
    dynamic_layers=frozenset({"nn.lstm"}),
    # MatMulIntegerToFloat, and QGemm without a scale of its result
    float_results=frozenset({"nn.matmul", "nn.fully_connected"}),
    # GatherElements: indices are read from whole bytes.
    kernels={
        "nn.table": (Kernel(("u8|i8|u16|i16", _ENTRIES), (_ENTRIES,)),),
        # Products that quantize their input as they run.
        "nn.dynamic_matmul": (Kernel((ANY, "i8|u8 per-axis")),),
        # Recurrent layers run on floats only, and their steps as nodes take longer.
        "nn.lstm": (),
        "nn.gru": (),
    },
    # Its fast x64 kernels take u8 activations with i8 weights; what is fast where the prices
    # are from, they tell.
    extensions={
        "integers": ("lower-transposed{numerics=LEVEL}",),
        "floats": (
            # Scales and shifts of float ops that stay; weights stay codes.
            "fold-constants{dequantize=true most=4096}",
            "form-depthwise{numerics=LEVEL}",
            "reencode-storage{activations=cheapest weights=cheapest numerics=LEVEL}",
        ),
        "end": (
            "merge-shuffles",
            "form-prelu{numerics=LEVEL}",
            "softmax-last{numerics=LEVEL}",
            "form-floats",
            "channels-last",
            "widen-channels",
            "finer-weights",
            "part-biases{numerics=LEVEL}",
            "dequantize-at-load{numerics=KERNELS}",
        ),
    },
)
