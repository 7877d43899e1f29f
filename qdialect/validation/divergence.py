"""Find the first value, in program order, that two models compute differently.

Both models run in the reference interpreter. Values are compared where both have one under the same
stable key (`nn.key`), in the same scale; values that only one of them has are skipped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.context import QContext
from qdialect.errors import QError
from qdialect.ops import keys_of
from qdialect.quant import quant_element

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.reference import Difference, Interpreter
    from qdialect.reference.machine import Listener

    Array = NDArray[Any]
    Place = tuple[str, int]
    Known = dict[Place, tuple[Attribute, Array]]


@dataclass(frozen=True)
class Divergence:
    """The value under `key` in both models, and how far it is off."""

    key: str
    difference: Difference


class OutOfTime(Exception):
    """An interpreted run took longer than it may."""


class _Found(Exception):
    def __init__(self, divergence: Divergence) -> None:
        super().__init__(divergence.key)
        self.divergence = divergence


def interpreter(
    ctx: QContext, module: ModuleOp, *, until: float, listeners: Sequence[Listener] = ()
) -> Interpreter:
    """An interpreter that runs ONNX nodes without a declaration, too; it raises OutOfTime after the
    time `until` (seconds, as `time.monotonic`)."""
    from qdialect.engines.local import KEPT_NODES
    from qdialect.reference import Interpreter

    def watch(op: Operation, results: Sequence[Array]) -> None:
        if monotonic() > until:
            raise OutOfTime

    return Interpreter(ctx, module, listeners=[watch, *listeners], functions=KEPT_NODES)


def first_divergence(
    before: tuple[QContext, ModuleOp],
    after: tuple[QContext, ModuleOp],
    inputs: tuple[Mapping[str, Array], Mapping[str, Array]],
    *,
    until: float,
    symbol: str | None = None,
    least_db: float = inf,
) -> Divergence | None:
    """The first value of the second model that differs from that of the first under the same key,
    by so much that less than `least_db` is left; None if none does, or the models cannot run that
    far until the time `until`."""
    shared = _places(after[1])
    known: Known = {}

    def record(op: Operation, results: Sequence[Array]) -> None:
        for place, value, array in _keyed(op, results):
            if place in shared and _comparable(value.type, shared[place]):
                known[place] = value.type, array

    def compare_with(op: Operation, results: Sequence[Array]) -> None:
        for place, value, array in _keyed(op, results):
            if place in known and _comparable(known[place][0], value.type):
                difference = _difference(*known[place], array, value.type)
                if not (difference.is_equal or difference.sqnr_db >= least_db):
                    raise _Found(Divergence(_text(place), difference))

    try:
        interpreter(*before, until=until, listeners=[record]).run(inputs[0], symbol)
        interpreter(*after, until=until, listeners=[compare_with]).run(inputs[1], symbol)
    except _Found as found:
        return found.divergence
    except (QError, OutOfTime):
        pass
    return None


def _keyed(op: Operation, results: Sequence[Array]) -> list[tuple[Place, SSAValue, Array]]:
    return [
        ((key, index), value, results[index])
        for key in keys_of(op)
        for index, value in enumerate(op.results)
    ]


def _places(module: ModuleOp) -> dict[Place, Attribute]:
    return {
        (key, index): value.type
        for op in module.walk()
        for key in keys_of(op)
        for index, value in enumerate(op.results)
    }


def _text(place: Place) -> str:
    key, index = place
    return f"{key}#{index}" if index else key


def _comparable(a: Attribute, b: Attribute) -> bool:
    """Whether numbers of both types mean the same: codes of one scale, whatever the zero
    point, or no codes at all."""
    first, second = quant_element(a), quant_element(b)
    if first is None or second is None:
        return first is second
    return first.qparams.scale_list() == second.qparams.scale_list()


def _difference(type: Attribute, reference: Array, array: Array, other: Attribute) -> Difference:
    """In steps where both are codes, whatever their zero points."""
    from dataclasses import replace

    import numpy as np

    from qdialect.reference.compare import compare
    from qdialect.reference.quantize import load

    if quant_element(type) is None or type == other or reference.shape != array.shape:
        return compare(reference, array, type)
    element = quant_element(type)
    assert element is not None
    real = np.abs(load(reference, type).approx - load(array, other).approx)
    wrong = real > min(element.qparams.scale_list()) / 2
    same = compare(reference, reference, type)
    if not wrong.any():
        return same
    return replace(
        same,
        max_steps=float(real.max() / min(element.qparams.scale_list())),
        max_abs=float(real.max()),
        share_differing=float(wrong.mean()),
        first_index=tuple(int(i) for i in np.argwhere(wrong)[0]),
    )
