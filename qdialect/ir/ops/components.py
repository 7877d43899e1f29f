"""What composite ops are made of: each as a small float program with named pieces.

A target may keep a composite op whole or lower it to other ops. Calibration must know
the ranges of those other ops before anybody has decided, so each composite declares its
pieces here once, by role:

    Components(roles=("matmul", "bias_add"), build=...)

`build` writes the pieces of one op and gives the value that stands for its result. The
key of a piece is the key of the op, a slash and the role (`fc1/matmul`). The last role is
the result of the composite itself and goes under the key of the op (`fc1`). An op need
not have all roles: without a bias a convolution is one piece, and no composite.

A session holds the table (`ctx.components`), so that a backend adds its own ops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation, SSAValue

from qdialect.ir.behaviors.shapes import tensor_type
from qdialect.ir.ops.component_keys import (
    OTHERS,
    given_keys,
    hold_keys,
    inner_keys,
    key_attribute,
    numbered,
    role_keys,
)
from qdialect.ir.ops.constants import constant_array, constant_of, make_constant
from qdialect.ir.ops.keys import KEY, keys_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from qdialect.ir.weights import BlobStore


class NoPiecesError(Exception):
    """The pieces cannot be written: `code` and message are those of a refusal."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code


@dataclass
class Pieces:
    """Where the pieces of one op are written: before the op, with keys by role."""

    op: Operation
    store: BlobStore
    keys: Mapping[str, tuple[str, ...]]
    #: about so many ops may be written (`Target.most_pieces`)
    most: int
    #: the values of each role; several if pieces are repeated
    values: dict[str, list[SSAValue]] = field(default_factory=dict[str, "list[SSAValue]"])
    #: whether the float type lacks a number that the declaration asks for
    rounds_constants: bool = False

    def add(self, role: str, piece: Operation) -> SSAValue:
        """A piece; its result by `role`, of which there may be several."""
        return self.put(role, piece, self.emit(piece))

    def put(self, role: str, piece: Operation, value: SSAValue) -> SSAValue:
        """What `piece` makes is a value of `role`."""
        self.put_keys(role, piece)
        self.values.setdefault(role, []).append(value)
        return value

    def put_keys(self, role: str, piece: Operation) -> None:
        """The keys of a role, on the op that makes its next value; numbered but the first."""
        if keys := self.keys.get(role, ()):
            count = len(self.values.get(role, ()))
            piece.attributes[KEY] = key_attribute(numbered(keys, count))
        given = inner_keys(self.op, role)
        if [*self.keys][-1:] == [role]:
            # The last piece is the op itself.
            given[OTHERS] = given_keys(self.op).get(OTHERS, ())
        hold_keys(piece, given)

    def emit(self, op: Operation) -> SSAValue:
        """An op that is no piece by itself, such as a constant; its result."""
        block = self.op.parent
        assert block is not None
        op.location = self.op.location
        block.insert_op_before(op, self.op)
        return op.results[0]

    def constant(self, array: NDArray[np.float64]) -> SSAValue:
        """A constant of the element type of the op's first operand."""
        element = tensor_type(self.op.operands[0]).element_type
        numbers = self.rounded(array, str(element))
        return self.emit(make_constant(numbers, element, self.store))

    def rounded(self, array: NDArray[np.float64], element: str) -> NDArray[np.floating]:
        """Numbers as a float type has them."""
        numbers = array.astype({"f16": "f2", "f64": "f8"}.get(element, "f4"))
        self.rounds_constants |= bool((numbers != array).any())
        return numbers

    def number(self, value: float) -> SSAValue:
        """A scalar, see `constant`."""
        import numpy as np

        return self.constant(np.array(value))

    def plain(self, value: SSAValue) -> SSAValue:
        """An operand that is floats whatever the others are, as pieces take it."""
        return value

    def alike(self, value: SSAValue, model: SSAValue) -> SSAValue:
        """A value as a piece takes it beside `model`, where both must have the same qparams."""
        return value

    def array(self, value: SSAValue) -> NDArray[np.float64] | None:
        """A constant operand as float64, else None."""
        op = constant_of(value)
        return None if op is None else constant_array(op, self.store).astype("f8")


Build = Callable[[Operation, Pieces], "SSAValue | Sequence[SSAValue] | None"]
"""Writes the pieces of an op; what stands for its result, or for each of several."""


def built(build: Build, op: Operation, pieces: Pieces) -> Sequence[SSAValue] | None:
    """What stands for the results of an op, written by `build`; None if that cannot."""
    made = build(op, pieces)
    return (made,) if isinstance(made, SSAValue) else made


@dataclass(frozen=True, eq=False)
class Components:
    """The roles of a composite op, in order, and the program of its pieces.

    `present` says which of them an op has (all, unless given); one is none. `build`
    writes these, or gives None before it has written anything if it cannot tell their
    values (weights that are no constants), or raises NoPiecesError with the reason. `sums`
    are roles of products that are only being added to: on quantized operands they stay
    accumulators. `as_result` are roles that are stored as the result is, since every piece
    behind commutes with rounding (a relu). `inner` names the op of a piece that is a composite
    itself. `also` are other ways in which files write the op; they only serve to recognize it.
    `forms` list the properties and constant operands that give another program, or that the pieces
    do not show, with their values. `results` are the roles of the results after the first, which
    has the last role.
    """

    roles: tuple[str, ...]
    build: Build
    present: Callable[[Operation], tuple[str, ...]] | None = None
    sums: frozenset[str] = frozenset()
    as_result: frozenset[str] = frozenset()
    inner: Mapping[str, str] = field(default_factory=dict[str, str])
    also: tuple[Build, ...] = ()
    forms: tuple[Mapping[str, Any], ...] = ({},)
    results: tuple[str, ...] = ()

    def roles_of(self, op: Operation) -> tuple[str, ...]:
        """The roles that `op` has, in order; none if it is one piece."""
        found = self.roles if self.present is None else self.present(op)
        return found if len(found) > 1 else ()

    def result_roles(self, op: Operation) -> tuple[str, ...]:
        """The roles of the results of `op`, in order; none if it is one piece."""
        last = self.roles_of(op)[-1:]
        return (*last, *self.results[: len(op.results) - 1]) if last else ()

    def inner_roles(self, op: Operation, table: Mapping[str, Components]) -> tuple[str, ...]:
        """Roles that pieces of the pieces of `op` may have, at any depth, as `role/inner`."""
        return tuple(self._below(self.roles_of(op), table, frozenset({op.name})))

    def _below(
        self, roles: Iterable[str], table: Mapping[str, Components], above: frozenset[str]
    ) -> Iterator[str]:
        for role in roles:
            kind = self.inner.get(role, "")
            if kind not in table or kind in above:
                continue
            parts = table[kind].roles[:-1]
            yield from (f"{role}/{part}" for part in parts)
            deeper = table[kind]._below(parts, table, above | {kind})
            yield from (f"{role}/{part}" for part in deeper)

    def keys_of(self, op: Operation) -> dict[str, tuple[str, ...]]:
        """The keys of every piece of `op`, by role."""
        roles = self.roles_of(op)
        return {role: keys_of(op) if role == roles[-1] else role_keys(op, role) for role in roles}
