"""The prices of target `litert`, as measured.

A rescale is QUANTIZE from codes to codes; XNNPACK runs it at the speed of memory, an op that it
does not take costs LiteRT's own kernel, a hundred times as much for some (`litert_kernels`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import inf

from xdsl.ir import Operation

from qdialect.algebra.qparams import QParams
from qdialect.ir.ops.priced_shapes import priced_shape
from qdialect.ir.quant import quant_element
from qdialect.plugins.tflite.target_kernels import CODES, FLOAT, I8, Work, cast_work, works
from qdialect.targets.base import Target
from qdialect.targets.price_table import Prices, PriceTable, shipped_prices

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
