"""Find the first value, in program order, that two models compute differently.

Both models run in the reference interpreter. Values are compared where both have one under the same
stable key (`nn.key`), in the same scale; values that only one of them has are skipped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.errors import QError
from qdialect.ir.context import QContext
from qdialect.ir.ops import keys_of
from qdialect.ir.quant import element_type, quant_element
from qdialect.ir.quant.elements import integer_width

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.interpreter import Difference, Interpreter
    from qdialect.interpreter.machine import Listener

    Array = NDArray[Any]
    Place = tuple[str, int]
    Known = dict[Place, tuple[SSAValue, Array]]


@dataclass(frozen=True)
class Divergence:
    """The value under `key` in both models, how far it is off, and the op of the first that
    gives it."""

    key: str
    difference: Difference
    op: Operation


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
    from qdialect.interpreter import Interpreter
    from qdialect.interpreter.kernels import KEPT_NODES

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
                known[place] = value, array

    def compare_with(op: Operation, results: Sequence[Array]) -> None:
        for place, value, array in _keyed(op, results):
            if place in known and _comparable(known[place][0].type, value.type):
                (first, reference), kind = known[place], value.type
                difference = _difference(first.type, reference, array, kind)
                if not (difference.is_equal or difference.sqnr_db >= least_db):
                    raise _Found(Divergence(_text(place), difference, cast(Operation, first.owner)))

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
        # Codes may be plain integers in a source file.
        return first is second or 0 < _width(a) == _width(b)
    return first.qparams.scale_list() == second.qparams.scale_list()


def _width(kind: Attribute) -> int:
    """The bits of an integer or of a code; 0 for floats."""
    if (element := quant_element(kind)) is not None:
        return 0 if element.qparams.storage.is_float else element.qparams.storage.width
    return integer_width(element_type(kind)) or 0


def _difference(type: Attribute, reference: Array, array: Array, other: Attribute) -> Difference:
    """In steps where both are codes, whatever their zero points."""
    from dataclasses import replace

    import numpy as np

    from qdialect.interpreter.compare import compare
    from qdialect.interpreter.quantize import load

    if quant_element(type) is None or type == other or reference.shape != array.shape:
        return compare(reference, array, type)
    if (element := quant_element(type)) is None or quant_element(other) is None:
        codes = array.view(reference.dtype)
        # All codes are others where the zero point is another.
        shifted = len(set((reference.astype(np.int64) - codes).flat)) == 1
        return compare(reference, reference if shifted else codes, type)
    real = np.abs(load(reference, type).approx - load(array, other).approx)
    wrong = real > min(element.qparams.scale_list()) / 2
    same = compare(reference, reference, type)
    if not wrong.any():
        return same
    with np.errstate(all="ignore"):
        power = np.square(load(reference, type).approx).sum() / np.square(real).sum()
    return replace(
        same,
        sqnr_db=float(10 * np.log10(power)),
        max_steps=float(real.max() / min(element.qparams.scale_list())),
        max_abs=float(real.max()),
        share_differing=float(wrong.mean()),
        first_index=tuple(int(i) for i in np.argwhere(wrong)[0]),
    )
