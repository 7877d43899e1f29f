"""Forms of composite ops: their declared pieces on stand-ins for operands and properties.

A form is built once, with extents of 2 and a number of its own for each real property. Where such
a number shows in a piece, the same place in a graph holds the property. For

    %0 = nn.mul %x, %alpha : (!f, tensor<f32>) -> !f
    %1 = nn.add %0, %beta : (!f, tensor<f32>) -> !f
    %2 = nn.clip %1 min 0.0 max 1.0 : (!f) -> !f

the form of `nn.hard_sigmoid` reads `alpha` and `beta`. `component_matching` compares a form with a
graph, and then the pieces of the op that was read. An op needs nothing but its declaration: the
classes of its operands and properties, and `Components`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import product
from math import prod
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import f32
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.irdl import OperandDef, VarOperandDef, VerificationContext
from xdsl.utils.exceptions import VerifyException

from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.ops import ConstantOp, NNOp, constant_array, make_constant
from qdialect.ir.ops.base import ranked, to_attribute
from qdialect.ir.ops.components import Build, Components, NoPiecesError, Pieces, built
from qdialect.ir.weights import BlobStore

_EXTENT = 2
_REALS = (0.3711, 0.4357, 0.5471, 0.6113)
"""What stands for real properties: numbers that no declaration writes."""
_MOST = 1 << 16
_UNFIT = (VerifyException, NoPiecesError, TypeError, ValueError, IndexError)
"""What an op raises that does not take the stand-ins."""

Place = tuple[SSAValue, str]
"""A scalar constant of a form and "", or a result and the name of a property of its op."""


@dataclass(frozen=True, eq=False)
class Form:
    """The pieces of an op on stand-ins; `final` is the value of its result."""

    probe: NNOp
    final: SSAValue
    build: Build
    #: properties and constant operands that the form is for
    given: Mapping[str, Any]
    #: where real properties show: by place, the property, and the factor that it has there
    shown: Mapping[Place, tuple[str, float]] = field(default_factory=dict[Place, tuple[str, float]])
    #: where constant operands show: by constant, the operand and which of its numbers
    arrays: Mapping[SSAValue, tuple[int, NDArray[Any]]] = field(default_factory=dict[SSAValue, Any])
    #: whether shapes and numbers are those of the graph, apart from what shows
    is_exact: bool = False

    @cached_property
    def roots(self) -> Sequence[str]:
        """The ops that may compute the result: a product is also a quotient or a square."""
        owner = cast("Operation", self.final.owner)
        return (owner.name, *(("nn.div", "nn.pow") if owner.name == "nn.mul" else ()))

    @cached_property
    def above(self) -> Sequence[Sequence[str]]:
        """The ops that the root has above it, products apart: a choice for each."""
        last = cast("Operation", self.final.owner)
        owners = [value.owner for value in last.operands if last.name != "nn.mul"]
        moved = ("nn.unsqueeze", "nn.transpose", "nn.constant")
        names = [op.name for op in owners if isinstance(op, Operation) and op.name not in moved]
        return [("nn.mul", "nn.div", "nn.pow") if n == "nn.mul" else (n,) for n in names]

    @property
    def arguments(self) -> Sequence[SSAValue]:
        """What stands for operands."""
        return [value for value in self.probe.operands if isinstance(value, BlockArgument)]

    @cached_property
    def size(self) -> int:
        """How many ops the pieces are."""
        block = self.probe.parent
        assert block is not None
        return sum(not isinstance(op, ConstantOp) for op in block.ops) - 1

    @property
    def names(self) -> Sequence[str]:
        """The names of the operands."""
        return [name for name, _ in self.probe.get_irdl_definition().operands]


@cache
def forms_of(kind: type[NNOp], components: Components, rank: int) -> Sequence[Form]:
    """The forms of an op whose result has `rank` dimensions; none for an op of any number of
    operands."""
    operands = [type(operand) for _, operand in kind.get_irdl_definition().operands]
    if VarOperandDef in operands:
        return ()
    found: list[Form] = []
    for given in components.forms:
        stand_ins = _stand_ins(kind, given)
        for build in (components.build, *components.also):
            for count in range(operands.count(OperandDef), len(operands) + 1):
                ranks = ((rank, *others) for others in product((rank, 1), repeat=count - 1))
                tried = (_form(kind, components, build, given, stand_ins, n) for n in ranks)
                found += [form for form in (next(filter(None, tried), None),) if form]
    return found


def _form(
    kind: type[NNOp],
    components: Components,
    build: Build,
    given: Mapping[str, Any],
    stand_ins: tuple[Mapping[str, Any], Mapping[str, float]],
    ranks: Sequence[int],
) -> Form | None:
    """The form on operands of these ranks; None if the op does not take them, or is one piece."""
    store, (properties, reals) = BlobStore(), stand_ins
    for constant in (False, True):
        block = Block(
            arg_types=[ranked(f32, (_EXTENT,) * n) for n in ranks[: 1 if constant else None]]
        )
        operands: list[SSAValue] = [*block.args]
        names = [name for name, _ in kind.get_irdl_definition().operands]
        for number in range(len(operands), len(ranks)):
            shape = (_EXTENT,) * ranks[number]
            array = stand_in(shape, number * _MOST)
            array = np.full(shape, given[names[number]], "f4") if names[number] in given else array
            block.add_op(made := make_constant(array, f32, store))
            operands.append(made.result)
        try:
            probe = kind(*operands, **properties)
            probe.verify_()
            if not components.roles_of(probe):
                return None
            block.add_op(probe)
            values = built(build, probe, Pieces(probe, store, {}, _MOST))
        except _UNFIT:
            return None
        if values is not None:
            form = Form(probe, values[0], build, given)
            return read(form, block, reals, store) if len(values) == 1 else None
    return None


def _stand_ins(
    kind: type[NNOp], given: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, float]]:
    """The properties of a form, and those of them that are real stand-ins."""
    properties, reals = dict[str, Any](), dict[str, float]()
    for name, definition in kind.get_irdl_definition().properties.items():
        samples: list[Any] = [_REALS[len(reals) % len(_REALS)], _EXTENT, True, (0,)]
        for sample in [given[name]] if name in given else samples:
            try:
                definition.constr.verify(to_attribute(sample), VerificationContext())
            except VerifyException:
                continue
            if isinstance(sample, float) and name not in given:
                reals[name] = sample
            if name in given or name in reals or definition.default_value is None:
                properties[name] = sample
            break
    return properties, reals


def stand_in(shape: Sequence[int], start: int) -> NDArray[np.float32]:
    """An array of numbers that no declaration writes, from `start` on."""
    return np.arange(start, start + prod(shape), dtype="f4").reshape(shape) + np.float32(2.5)


def read(form: Form, block: Block, reals: Mapping[str, float], store: BlobStore) -> Form:
    """The form, with the places where stand-ins show."""
    shown, arrays = dict[Place, tuple[str, float]](), dict[SSAValue, tuple[int, NDArray[Any]]]()
    places: dict[float, tuple[int, int]] = {}
    for number, value in enumerate(form.probe.operands):
        if isinstance(value.owner, ConstantOp):
            for index, each in enumerate(constant_array(value.owner, store).ravel()):
                places.setdefault(abs(float(each)), (number, index))

    def look(place: Place, number: Any) -> None:
        for name, stand_in in reals.items():
            if isinstance(number, float) and np.isclose(abs(number), stand_in):
                shown[place] = name, np.copysign(1.0, number)

    for op in block.ops:
        if isinstance(op, ConstantOp) and op.result not in form.probe.operands:
            array = constant_array(op, store).ravel()
            if array.size == 1:
                look((op.result, ""), float(array[0]))
            found = [places.get(float(number)) for number in array if number % 1 == 0.5]
            if found and len(found) == array.size and (known := [f for f in found if f]) == found:
                arrays[op.result] = known[0][0], np.array([index for _, index in known])
        elif isinstance(op, NNOp) and op is not form.probe:
            for name, value in op.values.items():
                look((op.results[0], name), value)
    return replace(form, shown=shown, arrays=arrays)


def rank_of(op: Operation) -> int:
    """The rank of the forms that the result of an op may have; a scalar counts as a vector."""
    return max(len(shape_of(op.results[0])), 1)
