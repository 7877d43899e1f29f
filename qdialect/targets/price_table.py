"""Measured prices of ops on a runtime: a JSON file that users can make on their machine.

    {"version": 3, "target": "onnxruntime", "runtime": "1.31.1", "cpu": "...",
     "sizes": [
      {"elements": 73728, "unit_ns": 0.37,
       "codes": {"nn.add": 0.4, ...}, "floats": {"nn.exp": 0.4, ...},
       "forms": {"nn.add": [0.4, 0.4], ...},
       "transposed": {"32": [9.1, 4.2], ...}, "apart": {"nn.avg_pool2d": 1.4, ...},
       "channels": {"nn.conv2d": [46.0, 21.0]}}, ...],
     "kernels": {
      "conv point": {"float": {"node": 900, "product": 0.017}, "u8 i8": {...}, ...}, ...}}

Prices hold for tensors of about that many elements; others go by the nearest.  They are per
element, in units of one rescale (a dequantize and a quantize) of that size, which takes
`unit_ns` nanoseconds per element.  `codes` are ops that run on codes, `floats` the same on
floats; `nn.conv2d` is that of one tap per channel.  `forms` are what the runtime makes of an
op in QDQ and in QOperator form, all of its optimizations on.
`transposed` are transposed convolutions by the products per element of the result: on floats
between casts, and in phases on codes.  `apart` are ops of `forms` on floats between casts that
the runtime does not put together (see `form-floats`).  `channels` are contractions of u8 and i8
per position of the result, with 3 and with 4 channels of the input (see `widen-channels`).  A table
without these two has no such prices.

`kernels` are nanoseconds of one thread by kernel of the runtime and state of the op that runs as
it: so many for an execution (`node`), for each product, for each element read, ...; what a kernel
is and what it has to do say `plugins.onnx.target_kernels`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from math import isfinite, log
from pathlib import Path
from typing import Any, cast

from qdialect.errors import InputError, Where
from qdialect.plugin import plugins

VERSION = 3

Pair = tuple[float, float]
Kernels = Mapping[str, Mapping[str, Mapping[str, float]]]
"""Nanoseconds by kernel, state and term."""


_INSTRUCTIONS = 3
"""In place of one for a sum of products of 8 bits."""
_DOT_PRODUCTS = frozenset({"u8 i8", "dynamic"})
_MULTIPLYING = frozenset(
    {
        *("conv point", "conv window", "conv image", "conv grouped"),
        *("product", "product row", "product of values"),
    }
)


@dataclass(frozen=True)
class Prices:
    """The figures measured on tensors of one size; see above."""

    elements: int
    unit_ns: float
    codes: Mapping[str, float] = field(default_factory=dict[str, float])
    floats: Mapping[str, float] = field(default_factory=dict[str, float])
    forms: Mapping[str, Pair] = field(default_factory=dict[str, Pair])
    transposed: Mapping[int, Pair] = field(default_factory=dict[int, Pair])
    apart: Mapping[str, float] = field(default_factory=dict[str, float])
    channels: Mapping[str, Pair] = field(default_factory=dict[str, Pair])


@dataclass(frozen=True)
class PriceTable:
    """Prices of a runtime on a machine, by size; see above."""

    target: str
    runtime: str
    cpu: str
    sizes: tuple[Prices, ...]
    kernels: Kernels = field(default_factory=dict[str, Any])
    _near: dict[int, Prices] = field(
        default_factory=dict[int, Prices], init=False, repr=False, compare=False
    )

    @cached_property
    def smallest(self) -> Prices:
        """The prices for the smallest tensors measured."""
        return min(self.sizes, key=lambda each: each.elements)

    @cached_property
    def largest(self) -> Prices:
        """The prices for the largest tensors measured."""
        return max(self.sizes, key=lambda each: each.elements)

    @property
    def unit_ns(self) -> float:
        """Nanoseconds that a rescale of an element takes where tensors are large."""
        return self.largest.unit_ns

    def near(self, elements: int) -> Prices:
        """The prices for tensors of so many elements: the nearest size, by ratio."""
        if elements not in self._near:
            sizes = {each.elements: each for each in self.sizes}
            self._near[elements] = nearest(sizes, elements)
        return self._near[elements]

    def without_dot_products(self) -> PriceTable:
        """What it would be on a processor of the same speed that has no instruction for sums of
        products of 8 bits.

        x86 then multiplies u8 by i8 with VPMADDUBSW, VPMADDWD and VPADDD in place of one VPDPBUSD
        (as many products each), so that a product takes three times as long (2.5 times as long:
        large products of 8 bits in onnxruntime#24491, AVX-512 without and with VNNI). Kernels that
        use none of them stay as they are: of floats, of other storages, and of one channel each.
        """

        def slower(kernel: str, state: str, terms: Mapping[str, float]) -> Mapping[str, float]:
            if state not in _DOT_PRODUCTS or kernel not in _MULTIPLYING:
                return terms
            return {n: _INSTRUCTIONS * v if n == "product" else v for n, v in terms.items()}

        kernels = {
            kernel: {state: slower(kernel, state, terms) for state, terms in states.items()}
            for kernel, states in self.kernels.items()
        }
        return replace(self, cpu=f"{self.cpu}, as without 8-bit dot products", kernels=kernels)

    def nanoseconds(self, kernel: str, state: str, terms: Mapping[str, float]) -> float | None:
        """What an execution of a kernel takes; None where it was not measured in this state."""
        each = self.kernels.get(kernel, {}).get(state)
        return None if each is None else sum(each.get(n, 0.0) * v for n, v in terms.items())


def nearest(measured: Mapping[int, Any], number: float) -> Any:
    """The figure measured at the number nearest to `number`, by ratio; the lower of two."""
    return measured[min(sorted(measured), key=lambda n: abs(log(n / max(number, 1))))]


def read_prices(path: Path, target: str) -> PriceTable:
    """The table in a file; InputError (`bad-prices`) where it is not one for `target`."""
    where = Where(str(path))
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise InputError(f"cannot read prices: {reason}", where=where, code="bad-prices") from None
    try:
        found = parse_prices(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not a price table: {error}", where=where, code="bad-prices") from None
    if found.target != target:
        raise InputError(
            f"these are prices of target '{found.target}', not of '{target}'",
            where=where,
            code="bad-prices",
        )
    return found


def parse_prices(text: str) -> PriceTable:
    """The table in a text; ValueError says what is wrong with it."""
    data: Any = json.loads(text)
    if not isinstance(data, dict):
        raise ValueError("it is no JSON object")
    fields = cast("dict[str, Any]", data)
    if fields.get("version") != VERSION:
        raise ValueError(f"version {fields.get('version')!r}, not {VERSION}")
    for name in ("target", "runtime", "cpu"):
        if not isinstance(fields.get(name), str):
            raise ValueError(f"'{name}' is missing or no str")
    sizes: Any = fields.get("sizes")
    if not isinstance(sizes, list) or not sizes:
        raise ValueError("'sizes' is no list of prices")
    found = tuple(_prices(each) for each in cast("list[Any]", sizes))
    if len({each.elements for each in found}) < len(found):
        raise ValueError("'sizes' has one number of elements twice")
    kernels = _section(fields, "kernels")
    return PriceTable(
        fields["target"],
        fields["runtime"],
        fields["cpu"],
        found,
        {
            name: {s: _each(_section(_section(kernels, name), s)) for s in states}
            for name, states in ((name, _section(kernels, name)) for name in kernels)
        },
    )


def _prices(data: Any) -> Prices:
    if not isinstance(data, dict):
        raise ValueError("one of 'sizes' is no JSON object")
    fields = cast("dict[str, Any]", data)
    elements = fields.get("elements")
    if not isinstance(elements, int) or isinstance(elements, bool) or elements < 1:
        raise ValueError(f"'elements' is {elements!r}, not a number of at least 1")
    unit = _price("unit_ns", fields.get("unit_ns"))
    if not unit:
        raise ValueError("'unit_ns' is 0")
    names = ("codes", "floats", "forms", "transposed", "apart", "channels")
    sections = {name: _section(fields, name) for name in names}
    return Prices(
        elements,
        unit,
        _each(sections["codes"]),
        _each(sections["floats"]),
        {op: _pair("forms", op, value) for op, value in sections["forms"].items()},
        {
            _products(key): _pair("transposed", key, value)
            for key, value in sections["transposed"].items()
        },
        _each(sections["apart"]),
        {op: _pair("channels", op, value) for op, value in sections["channels"].items()},
    )


def _each(section: Mapping[str, Any]) -> dict[str, float]:
    return {op: _price(op, value) for op, value in section.items()}


def _products(key: str) -> int:
    if not key.isascii() or not key.isdigit() or len(key) > 18 or int(key) < 1:
        raise ValueError(f"'transposed' is by numbers of products, not '{key}'")
    return int(key)


def _pair(section: str, name: str, value: Any) -> Pair:
    pair = cast("list[Any]", value)
    if not isinstance(value, list) or len(pair) != 2:
        raise ValueError(f"'{section}' of '{name}' are not two prices")
    return _price(name, pair[0]), _price(name, pair[1])


def _section(fields: Mapping[str, Any], name: str) -> dict[str, Any]:
    value: Any = fields.get(name, {})
    if not isinstance(value, dict):
        raise ValueError(f"'{name}' is no JSON object")
    return cast("dict[str, Any]", value)


def _price(name: str, value: Any) -> float:
    known = isinstance(value, int | float) and not isinstance(value, bool)
    if not known or not isfinite(value) or value < 0:
        raise ValueError(f"the price of '{name}' is {value!r}, not a number of at least 0")
    return float(value)


NO_DOT_PRODUCTS = "no-dot-products"
"""In place of a file: the shipped table, without 8-bit dot products."""


@cache
def shipped_prices(target: str) -> PriceTable:
    """The table that comes with the package."""
    return read_prices(next(p.prices[target] for p in plugins() if target in p.prices), target)
