"""Random quant types, as text: every production of the grammar, legal values only.

The text is deliberately not canonical: spaces, hexadecimal integers, long form,
elided and explicit bounds, many spellings of floats.
"""

from __future__ import annotations

import math
import random
import struct
from dataclasses import dataclass

from qdialect.algebra.float_text import FORMATS
from qdialect.algebra.qparams.parameters import full_range


@dataclass(frozen=True)
class Features:
    """Which parts of the language may appear.

    `v24` adds what LLVM 22 does not know or does not keep; `wide_floats` the f80
    and f128 expressed types and `any_sub_channel_zero` negative sub-channel zero
    points, both of which crash mlir-opt 22.
    """

    v24: bool = True
    wide_floats: bool = True
    any_sub_channel_zero: bool = True


MLIR_22 = Features(v24=False, wide_floats=False, any_sub_channel_zero=False)


class TypeGenerator:
    """Random type texts from a seed."""

    def __init__(self, seed: int, features: Features = Features()) -> None:
        self.random = random.Random(seed)
        self.features = features

    def type(self) -> str:
        """One type: a scalar, or a tensor or tuple of some."""
        roll = self.random.random()
        if roll < 0.6:
            return self.quant()
        if roll < 0.9:
            rank = self.random.randrange(4)
            dims = [self.random.choice(["1", "4", "?", "128"]) + "x" for _ in range(rank)]
            return f"tensor<{'*x' if self.random.random() < 0.1 else ''.join(dims)}{self.quant()}>"
        return f"tuple<{self.quant()}, {self.quant()}>"

    def quant(self) -> str:
        body = self.random.choices(
            [self._any, self._uniform, self._per_axis, self._blocks, self._calibrated],
            [1, 4, 3, 3, 1],
        )[0]()
        if self.random.random() < 0.1:
            return f"!quant<{body}>"
        return f"!quant.{body}"

    # -- the productions ----------------------------------------------------

    def _any(self) -> str:
        expressed = f"{self._sep(':')}{self._float_type()}" if self.random.random() < 0.5 else ""
        return f"any<{self._storage()[0]}{expressed}>"

    def _calibrated(self) -> str:
        low, high = sorted((self._real(), self._real()))
        if low == high:
            high = low + 1.0 + abs(low)
        bounds = f"{self._float(low)}{self._sep(':')}{self._float(high)}"
        return f"calibrated<{self._float_type()}<{bounds}>>"

    def _uniform(self) -> str:
        storage, _, _ = self._storage()
        expressed = self._float_type()
        return (
            f"uniform<{storage}{self._sep(':')}{expressed}{self._sep(',')}{self._param(expressed)}>"
        )

    def _per_axis(self) -> str:
        storage, _, _ = self._storage()
        expressed = self._float_type()
        count = self.random.choice([1, 2, 3, 7])
        params = self._sep(",").join(self._param(expressed) for _ in range(count))
        axis = self._integer(self.random.choice([0, 1, 3, 2147483647]))
        return (
            f"uniform<{storage}{self._sep(':')}{expressed}{self._sep(':')}{axis}"
            f"{self._sep(',')}{{{params}}}>"
        )

    def _blocks(self) -> str:
        storage, width, signed = self._storage(tables=False)
        expressed = self._float_type()
        blocks = self._sep(",").join(
            f"{self.random.randrange(4)}{self._sep(':')}{self.random.choice([1, 2, 32, 1 << 40])}"
            for _ in range(self.random.randrange(4))
        )
        grid = [self.random.choice([1, 2, 3]) for _ in range(self.random.choice([1, 2, 3]))]
        return (
            f"uniform<{storage}{self._sep(':')}{expressed}{self._sep(':')}{{{blocks}}}"
            f"{self._sep(',')}{self._nested(grid, expressed, width, signed)}>"
        )

    def _nested(self, grid: list[int], expressed: str, width: int, signed: bool) -> str:
        if not grid:
            low, high = full_range(signed, width)
            if not self.features.any_sub_channel_zero:
                low, high = 0, min(high, (1 << (width - 1)) - 1)
            scale = self._float(self._scale(expressed))
            if self.random.random() < 0.5:
                return scale
            return f"{scale}{self._sep(':')}{self.random.randint(low, high)}"
        cells = [self._nested(grid[1:], expressed, width, signed) for _ in range(grid[0])]
        return f"{{{self._sep(',').join(cells)}}}"

    def _storage(self, tables: bool = True) -> tuple[str, int, bool]:
        """Text, width and signedness of a storage type."""
        roll = self.random.random()
        if self.features.v24 and roll < 0.1:
            name, width = self.random.choice([("f8E4M3FN", 8), ("f8E5M2", 8), ("f4E2M1FN", 4)])
            bounds = "<-6:6>" if self.random.random() < 0.5 else ""
            return name + bounds, width, True
        if self.features.v24 and tables and roll < 0.2:
            width = self.random.choice([1, 2, 4])
            bounds = ", <0:1>" if width > 1 and self.random.random() < 0.5 else ""
            count = 2 if bounds else 1 << width
            table = ", ".join(self._float(self._real()) for _ in range(count))
            kind = self.random.choice(["i", "si", "ui"])
            value = self.random.choice(["f16", "f32", "i8"])
            return (
                f"!quant.quantile<{kind}{width}:{value}, {{{table}}}{bounds}>",
                width,
                kind != "ui",
            )
        keyword = self.random.choice(["i", "u", "si", "ui"] if self.features.v24 else ["i", "u"])
        width = self.random.choice([1, 2, 3, 4, 5, 8, 8, 8, 12, 16, 24, 31, 32])
        signed = keyword in ("i", "si")
        low, high = full_range(signed, width)
        if self.random.random() < 0.3:
            if self.random.random() < 0.7:
                low, high = sorted(self.random.sample(range(low, high + 1), 2))
            bounds = f"{self._integer(low)}{self._sep(':')}{self._integer(high)}"
            return f"{keyword}{width}<{bounds}>", width, signed
        return f"{keyword}{width}", width, signed

    def _float_type(self) -> str:
        if self.random.random() < 0.5:
            return "f32"
        wide = ("f80", "f128")
        names = [name for name in FORMATS if self.features.wide_floats or name not in wide]
        return self.random.choice(names)

    def _param(self, expressed: str) -> str:
        scale = self._float(self._scale(expressed))
        if self.random.random() < 0.5:
            return scale
        zero = self.random.choice([0, 1, -1, 128, self.random.randint(-(1 << 63), (1 << 63) - 1)])
        return f"{scale}{self._sep(':')}{self._integer(zero)}"

    # -- numbers ------------------------------------------------------------

    def _scale(self, expressed: str) -> float:
        fmt = FORMATS[expressed]
        low, high = math.log2(fmt.smallest), math.log2(fmt.largest)
        choice = self.random.randrange(4)
        if choice == 0:
            value = round(self.random.random(), self.random.randint(1, 6))
        elif choice == 1:
            value = 2.0 ** self.random.uniform(max(low, -40), min(high, 40))
        elif choice == 2:
            value = 2.0 ** self.random.uniform(low, high)
        else:
            value = float(self.random.randint(1, 1 << 40))
        return min(max(value, fmt.smallest), fmt.largest)

    def _real(self) -> float:
        return self.random.choice(
            [0.0, -1.0, 1.5, self.random.gauss(0, 1), self.random.gauss(0, 1e30)]
        )

    def _float(self, value: float) -> str:
        """A literal that reads as `value`."""
        sign, value = ("-", -value) if value < 0 else ("", value)
        form = self.random.randrange(5)
        text = repr(value)
        if form == 0 and not sign:
            return f"0x{struct.unpack('>Q', struct.pack('>d', value))[0]:X}"
        if form == 1:
            text = f"{value:.17E}"
        mantissa, _, exponent = text.partition("e")
        if exponent:
            text = f"{mantissa if '.' in mantissa else mantissa + '.'}e{exponent}"
        if form == 2 and text.endswith(".0"):
            text = text[:-1]
        return sign + text

    def _integer(self, value: int) -> str:
        if self.random.random() < 0.2:
            return f"-0x{-value:x}" if value < 0 else f"0x{value:X}"
        return str(value)

    def _sep(self, mark: str) -> str:
        return self.random.choice([mark, mark, mark, f"{mark} ", f" {mark}", f" {mark}  "])
