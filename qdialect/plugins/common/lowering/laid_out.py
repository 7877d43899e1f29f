"""A tensor of `nn` in a lowering: stored integers, with its dimensions in any order.

TOSA's windows want channels last, ONNX and `nn` have them second. Transposes between the two
are never written where they would cancel: a `LaidOut` has the order of its dimensions, and
ops for which the order does not matter keep it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xdsl.ir import SSAValue

from qdialect.algebra.qparams import QParams

if TYPE_CHECKING:
    from numpy.typing import NDArray

Order = tuple[int, ...]


def identity_order(rank: int) -> Order:
    """Dimensions as `nn` has them."""
    return tuple(range(rank))


def channels_last(rank: int) -> Order:
    """[N, C, spatial...] as [N, spatial..., C]."""
    return (0, *range(2, rank), 1) if rank > 1 else identity_order(rank)


def matrix_shapes(
    lhs: tuple[int, ...], rhs: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The operands of `nn.matmul` as stacks of matrices: a vector is a row, or a column."""
    return lhs if len(lhs) > 1 else (1, *lhs), rhs if len(rhs) > 1 else (*rhs, 1)


@dataclass(frozen=True)
class LaidOut:
    """`value`, of which dimension d is dimension `order[d]` of the `nn` value of `shape`.

    A constant has `array` (in the order of `nn`), and becomes a value where it is used.
    """

    shape: tuple[int, ...]
    order: Order
    params: QParams | None
    value: SSAValue | None = None
    array: NDArray[Any] | None = None

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def is_constant(self) -> bool:
        """Whether the elements are known at compile time."""
        return self.array is not None

    def axis_position(self, dimension: int) -> int:
        """The position of a dimension of the `nn` value."""
        return self.order.index(dimension)

    @property
    def extents(self) -> tuple[int, ...]:
        """The shape in `order`."""
        return reordered(self.shape, self.order)


def reordered(items: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """`items`, one for each dimension of `nn`, in `order`."""
    return tuple(items[d] for d in order)


def permutation(source: Order, target: Order) -> Order:
    """The permutation that makes a value in the order `source` one in the order `target`."""
    return tuple(source.index(d) for d in target)
