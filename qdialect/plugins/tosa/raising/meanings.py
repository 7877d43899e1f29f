"""What the integers of a TOSA function mean: a scale and a zero point for each value.

Scales come from three places, in this order:

* quantized types, and the marks that our export leaves (`scale`, `zero_point`, `axis`);
* the arithmetic: a rescale by m * 2**-k says that its result's scale is 2**k / m times that of its
  operand, an addition that its operands have one scale, a product multiplies scales;
* where nothing else is known the scale is free. One value of each group of values that the
  arithmetic ties together gets 1, and the others follow.

A stated scale is believed only where the arithmetic agrees with it, to within the rounding of the
multiplier.  No result depends on it: multipliers and shifts stay as they are, and the scales in
types only say what they stand for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

from xdsl.dialects.builtin import IntegerType, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from qdialect.algebra.qparams import QParams, Storage
from qdialect.ir.context import QContext
from qdialect.ir.quant import quant_element
from qdialect.plugins.common.lowering.debug_attributes import INTERFACE, marked_type
from qdialect.plugins.tosa.raising.facts import (
    Rescaling,
    constant_of,
    name_of,
    number,
    rescaling_of,
    scaled_cast,
)

SAME = frozenset(
    (
        *("identity", "reshape", "transpose", "slice", "reverse", "tile", "concat", "pad"),
        *("clamp", "maximum", "minimum", "add", "sub", "negate", "abs"),
        *("max_pool2d", "max_pool2d_adaptive", "avg_pool2d"),
        *("reduce_max", "reduce_min", "reduce_sum"),
    )
)
"""Ops whose integer operands and result have one scale."""
ONE_ZERO = SAME - frozenset(["add", "sub", "reduce_sum", "avg_pool2d", "negate", "abs"])
"""And one zero point."""
CONTRACTIONS = frozenset(
    ["conv2d", "conv3d", "depthwise_conv2d", "transpose_conv2d", "matmul", "matmul_t"]
)
_ALL_OPERANDS = ("concat", "maximum", "minimum", "add", "sub")
_CLOSE = Fraction(1, 1 << 24)


@dataclass
class _Group:
    """Values whose scales have known ratios: `parent` and this one's scale over its own."""

    parent: _Group | None = None
    ratio: Fraction = Fraction(1)
    stated: QParams | None = None
    scale: Fraction | None = None
    quantized: bool = False

    def root(self) -> tuple[_Group, Fraction]:
        """The group that stands for this one, and this one's scale over that one's."""
        group, ratio = self, Fraction(1)
        while group.parent is not None:
            ratio *= group.ratio
            group = group.parent
        return group, ratio


class Meanings:
    """The qparams of the integer values of one block, as TOSA lays them out."""

    def __init__(self, session: QContext, function: FuncOp, block: Block) -> None:
        self.session = session
        self.disagreeing: list[Operation] = []
        """Ops whose result's stated scale is not what they compute."""
        self._groups: dict[SSAValue, _Group] = {}
        self._zeros: dict[SSAValue, SSAValue] = {}
        self._zero_of: dict[SSAValue, int] = {}
        self._unsigned: set[SSAValue] = set()
        self._alike: dict[SSAValue, SSAValue] = {}
        self._scale_alike: dict[SSAValue, float] = {}
        self._stated = dict(_stated(function, block))
        for op in block.ops:
            found = scaled_cast(op, session)
            if found is not None:
                params = QParams.per_tensor("i32", found[1])
                self._stated.setdefault(found[0].operands[0], params)
        values = [*block.args, *(r for op in block.ops for r in op.results)]
        for value in values:
            if width_of(value.type):
                self._groups[value] = _Group(stated=self._stated.get(value))
        operations = list(block.ops)
        for op in operations:
            self._zero_points(op)
        self._tie_zeros(operations)
        for op in operations:
            self._scales(op)
        self._solve(operations)

    # -- what is found ----------------------------------------------------------------

    def stated(self, value: SSAValue) -> QParams | None:
        """The qparams that a mark or a type states, if the arithmetic agrees."""
        group = self._groups.get(value)
        return None if group is None else group.stated

    def scale(self, value: SSAValue) -> float:
        """The scale of a value; 1 of what is no integer."""
        group = self._groups.get(value)
        if group is None:
            return 1.0
        if group.stated is not None and group.stated.is_per_tensor:
            return group.stated.scale
        alike = self._scale_alike.get(_root(self._alike, value))
        if alike is not None:
            return alike
        root, ratio = group.root()
        return _as_float((root.scale or Fraction(1)) * ratio)

    def is_quantized(self, value: SSAValue) -> bool:
        """Whether the arithmetic around a value, or what is stated of it, gives it a scale."""
        group = self._groups.get(value)
        return group is not None and group.root()[0].quantized

    def zero_point(self, value: SSAValue) -> int:
        """The zero point of a value."""
        stated = self.stated(value)
        if stated is not None:
            return stated.zero_point_list()[0]
        return self._zero_of.get(self._zero_root(value), 0)

    def params(self, value: SSAValue, zero: int | None = None) -> QParams:
        """The qparams of a value, per tensor, with another zero point if one is given."""
        storage = self.storage(value)
        chosen = self.zero_point(value) if zero is None else zero
        return QParams.per_tensor(storage, self.scale(value), chosen)

    def storage(self, value: SSAValue) -> Storage:
        """How a value is stored."""
        stated = self.stated(value)
        if stated is not None:
            return stated.storage
        sign = "u" if self._zero_root(value) in self._unsigned else "i"
        return Storage.of(f"{sign}{width_of(value.type)}")

    # -- zero points --------------------------------------------------------------------

    def _zero_root(self, value: SSAValue) -> SSAValue:
        return _root(self._zeros, value)

    def _zero_points(self, op: Operation) -> None:
        if name_of(op) not in ONE_ZERO or not op.results:
            return
        result = op.results[0]
        operands = op.operands if name_of(op) in _ALL_OPERANDS else op.operands[:1]
        for operand in operands:
            a, b = self._zero_root(operand), self._zero_root(result)
            if a is not b and width_of(operand.type):
                self._zeros[b] = a

    def _tie_zeros(self, operations: list[Operation]) -> None:
        for op in operations:
            for value, zero, unsigned in self._said(op):
                root = self._zero_root(value)
                self._zero_of.setdefault(root, zero)
                if unsigned:
                    self._unsigned.add(root)

    def _said(self, op: Operation) -> Iterator[tuple[SSAValue, int, bool]]:
        """The zero points that an op states, and whether it reads without a sign."""
        name = name_of(op)
        rescaling = rescaling_of(op, self.session)
        if rescaling is not None:
            ends = op.operands[0], op.results[0]
            yield from zip(ends, rescaling.zeros, rescaling.unsigned, strict=True)
            return
        places = {
            **dict.fromkeys(
                ("conv2d", "conv3d", "depthwise_conv2d", "transpose_conv2d"), ((0, 3), (1, 4))
            ),
            **dict.fromkeys(("matmul", "matmul_t"), ((0, 2), (1, 3))),
            **dict.fromkeys(("avg_pool2d", "negate"), ((0, 1), (-1, 2))),
        }.get(name, ())
        for operand, place in places:
            value = op.results[0] if operand < 0 else op.operands[operand]
            if place >= len(op.operands) or not width_of(op.operands[place].type):
                continue
            if constant_of(op.operands[place], self.session) is not None:
                yield value, number(op, place, self.session), False

    # -- scales ---------------------------------------------------------------------------

    def _scales(self, op: Operation) -> None:
        """Tie the scales of operands and results together."""
        name = name_of(op)
        if not op.results or op.results[0] not in self._groups:
            return
        result = op.results[0]
        rescaling = rescaling_of(op, self.session)
        if rescaling is not None:
            self._rescaled(op, rescaling)
        elif name in SAME:
            operands = op.operands if name in _ALL_OPERANDS else op.operands[:1]
            for operand in operands:
                self._tie(operand, result, Fraction(1))
        elif name in CONTRACTIONS:
            self._quantized(op.operands[0])
            self._quantized(result)
            if name.startswith("matmul"):
                self._quantized(op.operands[1])
        elif name == "mul":
            self._multiplied(op)
        elif name == "select":
            for operand in op.operands[1:]:
                self._tie(operand, result, Fraction(1))

    def _multiplied(self, op: Operation) -> None:
        """A constant factor is a number; what it multiplies keeps its scale."""
        for factor, other in (op.operands[:2], op.operands[1::-1]):
            if constant_of(factor, self.session) is not None and factor in self._groups:
                self._groups[factor].root()[0].scale = Fraction(1)
                self._tie(other, op.results[0], Fraction(1))
                return

    def _quantized(self, value: SSAValue) -> None:
        if value in self._groups:
            self._groups[value].root()[0].quantized = True

    def _rescaled(self, op: Operation, rescaling: Rescaling) -> None:
        source, result = op.operands[0], op.results[0]
        if source not in self._groups:
            return
        self._quantized(source)
        self._quantized(result)
        ratios = rescaling.ratios
        self._believe(op, rescaling)
        if len(ratios) == 1 and ratios[0]:
            self._tie(source, result, 1 / ratios[0])

    def _believe(self, op: Operation, rescaling: Rescaling) -> None:
        """Drop what is stated of the result where the arithmetic says something else."""
        source, result = (self._groups[v].stated for v in (op.operands[0], op.results[0]))
        if source is None or result is None:
            return
        pairs, scales, expected = rescaling.pairs, source.scale_list(), result.scale_list()
        count = max(len(scales), len(pairs), len(expected))
        columns = ((list(column) * count)[:count] for column in (pairs, scales, expected))
        for (multiplier, shift), scale, other in zip(*columns, strict=True):
            found = Fraction(scale) / Fraction(other) * (1 << max(shift, 0))
            if abs(found - multiplier) > _slack(multiplier):
                self.disagreeing.append(op)
                self._groups[op.results[0]].stated = None
                return

    def _tie(self, one: SSAValue, other: SSAValue, ratio: Fraction) -> None:
        """The scale of `other` is `ratio` times that of `one`, unless more is known."""
        if one not in self._groups or other not in self._groups:
            return
        if ratio == 1:
            a_alike, b_alike = _root(self._alike, one), _root(self._alike, other)
            if a_alike is not b_alike:
                self._alike[b_alike] = a_alike
        (a, to_a), (b, to_b) = self._groups[one].root(), self._groups[other].root()
        if a is not b:
            b.parent, b.ratio = a, to_a * ratio / to_b
            a.quantized |= b.quantized

    def _solve(self, operations: list[Operation]) -> None:
        """Scales of the groups: as stated, or by products, or free."""
        for group in self._groups.values():
            if group.stated is not None:
                root, ratio = group.root()
                root.quantized = True
                if root.scale is None and group.stated.is_per_tensor:
                    root.scale = Fraction(group.stated.scale) / ratio
        for value, group in self._groups.items():
            if group.stated is not None and group.stated.is_per_tensor:
                self._scale_alike.setdefault(_root(self._alike, value), group.stated.scale)
        narrow = [v for v in self._groups if width_of(v.type) <= 16]
        for value in narrow:
            root, ratio = self._groups[value].root()
            if root.scale is None and not self._is_product(value):
                root.scale = 1 / ratio
        for op in operations:
            if op.results and op.results[0] in self._groups and self._is_product(op.results[0]):
                root, ratio = self._groups[op.results[0]].root()
                if root.scale is None:
                    a, b = (self.scale(v) for v in op.operands[:2])
                    root.scale = Fraction(a) * Fraction(b) / ratio

    def _is_product(self, value: SSAValue) -> bool:
        owner = value.owner
        return isinstance(owner, Operation) and name_of(owner) in ("matmul", "matmul_t", "mul")


def _root(parents: Mapping[SSAValue, SSAValue], value: SSAValue) -> SSAValue:
    while value in parents:
        value = parents[value]
    return value


def _slack(multiplier: int) -> Fraction:
    """How far a multiplier may be from the ratio it stands for: a unit in the last place that it
    uses, of at least 14."""
    used = min(multiplier & -multiplier, multiplier >> 14)
    return Fraction(max(used, 1)) + multiplier * _CLOSE


def width_of(kind: Attribute) -> int:
    """The bits of the integers of a tensor; 0 of other types, booleans and i64."""
    if not isinstance(kind, TensorType):
        return 0
    element: Attribute = cast("Any", kind).element_type
    quantized = quant_element(element)
    if quantized is not None:
        return quantized.qparams.storage.width
    width: int = cast("Any", element).width.data if isinstance(element, IntegerType) else 0
    return width if width in (4, 8, 16, 32) else 0


def _as_float(scale: Fraction) -> float:
    smallest, largest = Fraction(2) ** -120, Fraction(2) ** 120
    return float(min(max(scale, smallest), largest))


def _stated(function: FuncOp, block: Block) -> Iterator[tuple[SSAValue, QParams]]:
    """What types and marks say of values."""
    notes: list[Mapping[str, Attribute]] = [{} for _ in block.args]
    for index, entry in enumerate(function.arg_attrs or ()):
        if index < len(notes):
            notes[index] = entry.data
    for value in block.args:
        yield from _one(value, marked_type(notes[value.index], value.type, INTERFACE))
    for op in block.ops:
        for value in op.results:
            one = name_of(op) and len(op.results) == 1
            yield from _one(value, marked_type(op.attributes, value.type) if one else None)


def _one(value: SSAValue, mark: Attribute | None) -> Iterator[tuple[SSAValue, QParams]]:
    element = quant_element(value.type) or (None if mark is None else quant_element(mark))
    if element is None or element.qparams.layout.value == "block":
        return
    params, width = element.qparams, width_of(value.type)
    if params.storage.width != width and width:
        # Codes of fewer bits are laid out in 8, signed.
        params = params.with_storage(f"i{width}")
    yield value, params
