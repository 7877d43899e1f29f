"""The types of the quant dialect: values of `values.py` and `QParams` as IR types."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from typing_extensions import override
from xdsl.ir import Data, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from qdialect.algebra.qparams.parameters import QParams, Storage
from qdialect.ir.quant.read import (
    Aliases,
    QuantSyntaxError,
    read_any,
    read_calibrated,
    read_quantile,
    read_uniform,
)
from qdialect.ir.quant.values import AnyParams, CalibratedRange
from qdialect.ir.quant.write import any_text, calibrated_text, quantile_text, uniform_text


@irdl_attr_definition
class UniformType(Data[QParams], TypeAttribute):
    """`!quant.uniform<i8:f32, 0.5:3>`: stored integers q mean (q - zero point) * scale."""

    name = "quant.uniform"

    @property
    def qparams(self) -> QParams:
        """Storage, expressed type, scales and zero points."""
        return self.data

    @classmethod
    def per_tensor(
        cls, storage: Storage | str, scale: float, zero_point: int = 0, expressed: str = "f32"
    ) -> UniformType:
        """One scale and zero point; see `QParams.per_tensor`."""
        return cls(QParams.per_tensor(storage, scale, zero_point, expressed))

    @classmethod
    def per_axis(
        cls,
        storage: Storage | str,
        axis: int,
        scales: Sequence[float],
        zero_points: Sequence[int] | None = None,
        expressed: str = "f32",
    ) -> UniformType:
        """One scale and zero point per index of `axis`; see `QParams.per_axis`."""
        return cls(QParams.per_axis(storage, axis, scales, zero_points, expressed))

    @classmethod
    def blockwise(
        cls,
        storage: Storage | str,
        blocks: Sequence[tuple[int, int]],
        grid: Sequence[int],
        scales: Sequence[float],
        zero_points: Sequence[int] | None = None,
        expressed: str = "f32",
    ) -> UniformType:
        """One scale and zero point per block; see `QParams.blockwise`."""
        return cls(QParams.blockwise(storage, blocks, grid, scales, zero_points, expressed))

    @classmethod
    @override
    def parse_parameter(cls, parser: AttrParser) -> QParams:
        return _read(parser, read_uniform)

    @property
    def text(self) -> str:
        """What stands behind `!quant.uniform`."""
        return uniform_text(self.data)

    @override
    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(self.text)


@irdl_attr_definition
class AnyType(Data[AnyParams], TypeAttribute):
    """`!quant.any<i8:f32>`: quantized, with parameters not known."""

    name = "quant.any"

    @classmethod
    @override
    def parse_parameter(cls, parser: AttrParser) -> AnyParams:
        return _read(parser, read_any)

    @override
    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(any_text(self.data))


@irdl_attr_definition
class CalibratedType(Data[CalibratedRange], TypeAttribute):
    """`!quant.calibrated<f32<-1.0:1.0>>`: to be quantized, with a known range of values."""

    name = "quant.calibrated"

    @classmethod
    @override
    def parse_parameter(cls, parser: AttrParser) -> CalibratedRange:
        return _read(parser, read_calibrated)

    @override
    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(calibrated_text(self.data))


@irdl_attr_definition
class QuantileType(Data[Storage], TypeAttribute):
    """`!quant.quantile<ui1:f16, {-1.0,1.0}>`: a storage type whose codes index a table.

    LLVM 24 syntax; earlier releases do not know it.
    """

    name = "quant.quantile"

    @classmethod
    @override
    def parse_parameter(cls, parser: AttrParser) -> Storage:
        return _read(parser, read_quantile)

    @override
    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(quantile_text(self.data))


QuantizedType = UniformType | AnyType | CalibratedType
"""A type of quantized elements (a `QuantileType` is a storage type, not one of these)."""

_Value = TypeVar("_Value")


_OF_THE_WHOLE = (
    "illegal storage min and storage max",
    "illegal quantized dimension",
    "illegal block size",
    "illegal min and max",
)
"""Errors that upstream reports where the name of the type stands."""
_NAME = re.compile(r"[a-z]+(?=\s*\Z)")


def _read(parser: AttrParser, reader: Callable[[str, int, Aliases], tuple[_Value, int]]) -> _Value:
    """Read from the raw text at the parser's current token and move the parser on."""

    def alias(name: str) -> Storage | str | None:
        target = parser.attribute_aliases.get(name)
        if isinstance(target, QuantileType):
            return target.data
        return None if target is None else str(target)

    try:
        value, end = reader(parser.lexer.input.content, parser.pos, alias)
    except QuantSyntaxError as error:
        position = error.position
        if error.message.startswith(_OF_THE_WHOLE):
            name = _NAME.search(parser.lexer.input.content, 0, parser.pos)
            position = name.start() if name else position
        parser.raise_error(error.message, position)
    # The lexer has no public way to move on.
    parser._resume_from(end)  # pyright: ignore[reportPrivateUsage]
    return value
