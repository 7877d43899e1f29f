"""Codes of weights of least error of each result, instead of the nearest ones.

Between the choice of qparams and the writing of constants, the codes of the weights of each
contraction are chosen again on the same qparams (`numerics.weight_rounding`), by the moments of
its operand on samples (`hessians`). Where the bias will be corrected afterwards, by which
errors of means vanish, the loss is that without means: (w' - w) Cov(x) (w' - w)^T.

Weights that several ops multiply with get one rounding, by the sum of their moments. A row whose
sums would not fit what the target adds up in keeps its codes. What is found depends on the
weights, the moments and the method alone, so results are kept: in memory, and in a folder that a
run goes on from.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from qdialect.analysis.accumulators import signed_shift
from qdialect.behaviors import Accumulator
from qdialect.errors import InputError, Where
from qdialect.numerics.sums import Span
from qdialect.numerics.weight_rounding import Grid, damped, descend, gptq, nearest
from qdialect.numerics.weights import Sums, positive_codes
from qdialect.profile.model_identity import identify
from qdialect.qparams import QParams
from qdialect.quantization.dynamic import DYNAMIC
from qdialect.quantization.grids import (
    Constant,
    Grids,
    bias_storage,
    sum_type,
)
from qdialect.quantization.hessians import (
    Moments,
    array_of,
    batches,
    measurable,
    moments,
    rows_of,
)
from qdialect.quantization.selection import Selection
from qdialect.quantization.values import offsets_of, real_array, reals_of
from qdialect.weights import replacing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Codes = NDArray[np.int64]
    Arrays = Mapping[str, NDArray[Any]]

Method = Literal["gptq", "descent"]
METHODS: tuple[Method, ...] = get_args(Method)


class Problem(NamedTuple):
    """Rows to round [groups, outputs, K] on a grid for a loss [groups, K, K]."""

    rows: Array
    grid: Grid
    hessian: Array
    method: Method

    def solved(self) -> Codes:
        """The codes, as offsets from their zero points."""
        hessian = damped(self.hessian)
        if self.method == "gptq":
            return gptq(self.rows, self.grid, hessian)
        return descend(self.rows, self.grid, hessian)


def in_turn(problems: Iterator[Problem]) -> Iterator[Codes]:
    """What is found for problems, one after another."""
    return (problem.solved() for problem in problems)


Solve = Callable[[Iterator[Problem]], Iterator["Codes"]]
"""Solves problems, in their order; here (`in_turn`) or elsewhere."""


@dataclass(frozen=True, eq=False)
class _Shared:
    """Ops that multiply with the same weights (`real`) in the same codes, and whether their means
    are corrected."""

    constant: Constant
    real: Array
    centered: bool
    ops: list[Operation] = field(default_factory=list[Operation])

    def problem(self, moments: Moments, method: Method) -> Problem:
        """The rows, on their grid."""
        op, params = self.ops[0], self.constant.qparams
        rows = rows_of(op, self.real)
        # What a step is worth for each weight is what codes one above their zero name.
        steps = rows_of(op, reals_of(self._zeros() + 1, params))
        assert rows is not None and steps is not None
        positive = positive_codes(params.storage)
        hessian = moments.covariance() if self.centered else moments.second()
        return Problem(rows, Grid(steps, -positive, positive), hessian, method)

    def codes(self, offsets: Codes) -> NDArray[Any]:
        """Offsets of rows from their zero points as codes of the constant."""
        codes = array_of(self.ops[0], offsets) + self._zeros()
        return codes.astype(self.constant.codes.dtype)

    def _zeros(self) -> NDArray[np.int64]:
        codes = self.constant.codes
        return (codes - offsets_of(codes, self.constant.qparams)).astype(np.int64)


@dataclass
class WeightRounding:
    """Rounds, with the samples and the engine to measure with; `state` is a folder to keep results
    in, `solve` has rows rounded elsewhere. It is called before biases are corrected."""

    samples: Sequence[Arrays]
    engine: str
    method: Method = "gptq"
    state: Path | None = None
    solve: Solve = in_turn
    #: what was found, by the digest of what it depends on
    _known: dict[str, Codes] = field(default_factory=dict[str, "Codes"])

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"method: one of {', '.join(METHODS)}, not '{self.method}'")

    def __call__(self, selection: Selection, grids: Grids) -> None:
        """Choose codes in `grids` again, and say how those are chosen that are written later."""
        shared = _shared(selection, grids)
        names = self._names(shared, selection)
        missing = {
            op: each for each in shared if self._find(names[each]) is None for op in each.ops
        }
        order: deque[_Shared] = deque()

        def problems() -> Iterator[Problem]:
            for each, found in self._moments(selection, missing):
                order.append(each)
                yield each.problem(found, self.method)

        for rounded in self.solve(problems()):
            self._keep(names[order.popleft()], rounded)
        for each in shared:
            if (found := self._find(names[each])) is not None:
                _write(each, found, selection, grids)
        self._for_later(selection)

    def _moments(
        self, selection: Selection, missing: Mapping[Operation, _Shared]
    ) -> Iterator[tuple[_Shared, Moments]]:
        """The moments of all ops that share weights, as soon as all are there; of samples that
        overflow inside there are none."""
        begun: dict[_Shared, tuple[int, Moments]] = {}
        for batch in batches(list(missing)):
            measured = moments(selection.values, batch, self.samples, self.engine)
            for op in batch:
                each, found = missing[op], measured.pop(op)
                count, before = begun.pop(each, (0, None))
                found = found if before is None else before.joined(found)
                if count + 1 < len(each.ops):
                    begun[each] = count + 1, found
                elif found.count:
                    yield each, found

    def _for_later(self, selection: Selection) -> None:
        """Have codes chosen so of the ops whose weights are chosen when they are written."""
        left = selection.left.items()
        ops = [op for op, why in left if why.code == DYNAMIC and measurable(op)]
        known: dict[Operation, Moments] = {}
        for batch in batches(ops):
            known.update(moments(selection.values, batch, self.samples, self.engine))

        def round_rows(op: Operation, rows: Array, grid: Grid) -> Codes:
            if op not in known or not known[op].count:
                return nearest(rows, grid)
            whole = grid.whole(rows.shape)
            problem = Problem(rows[None], whole, known[op].second(), self.method)
            return problem.solved()[0]

        if known:
            selection.values.round_rows = round_rows

    # -- what is known already -----------------------------------------------

    def _names(self, shared: Sequence[_Shared], selection: Selection) -> dict[_Shared, str]:
        """A name of all that codes depend on: the model, the samples, and what is rounded."""
        module = selection.values.function.parent_op()
        assert isinstance(module, ModuleOp)
        whole = blake2b(digest_size=16)
        whole.update(f"{identify(module, selection.values.ctx).digest} {self.method}".encode())
        for sample in self.samples:
            for name, array in sample.items():
                whole.update(f"{name} {array.dtype} {array.shape}".encode())
                whole.update(np.ascontiguousarray(array).data)
        numbers = {op: number for number, op in enumerate(selection.values.block.ops)}
        names: dict[_Shared, str] = {}
        for each in shared:
            hasher = whole.copy()
            said = [numbers[op] for op in each.ops], each.constant.qparams, each.centered
            hasher.update(repr(said).encode())
            hasher.update(np.ascontiguousarray(each.real).data)
            names[each] = hasher.hexdigest()
        return names

    def _find(self, name: str) -> Codes | None:
        if name not in self._known and self.state is not None:
            # What cannot be read is found again.
            with suppress(OSError, ValueError, EOFError):
                self._known[name] = np.load(self._path(name)).astype(np.int64)
        return self._known.get(name)

    def _keep(self, name: str, found: Codes) -> None:
        self._known[name] = found
        if self.state is None:
            return
        path = self._path(name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as temporary, temporary.open("wb") as file:
                np.save(file, found.astype(np.int32))
        except OSError as error:
            reason = error.strerror or str(error)
            where = Where(str(path.parent))
            raise InputError(
                f"cannot keep state here: {reason}", where=where, code="unwritable-file"
            ) from None

    def _path(self, name: str) -> Path:
        assert self.state is not None
        return self.state / f"rounding-{name}.npy"


def _shared(selection: Selection, grids: Grids) -> list[_Shared]:
    """What is to be rounded: codes of constant weights that are not exact."""
    groups: dict[tuple[SSAValue, QParams, tuple[int, ...]], _Shared] = {}
    recipe, blobs = selection.values.recipe, selection.values.ctx.blobs
    for op, behavior in selection.ops.items():
        acc = behavior.accumulator
        constant = None if acc is None else grids.constants.get((op, acc.rhs))
        if acc is None or constant is None or not measurable(op):
            continue
        real = real_array(op.operands[acc.rhs], blobs)
        if real is None or not np.any(constant.real() - real):
            continue
        rows = rows_of(op, real)
        assert rows is not None
        key = op.operands[acc.rhs], constant.qparams, rows.shape
        corrected = recipe.correct_bias and acc.bias is not None
        made = _Shared(constant, real, corrected)
        groups.setdefault(key, made).ops.append(op)
    return list(groups.values())


def _write(each: _Shared, offsets: Codes, selection: Selection, grids: Grids) -> None:
    """Put codes in place of those in `grids`, but for rows whose sums do not fit in some op."""
    before = each.constant
    made = Constant(each.codes(offsets), before.qparams)
    fits = np.array([rows_fit(op, made, selection, grids) for op in each.ops]).all(axis=0)
    axis = _accumulator(each.ops[0], selection).rhs_axis(each.ops[0])
    shape = [-1 if d == axis else 1 for d in range(made.codes.ndim)]
    codes = np.where(fits.reshape(shape), made.codes, before.codes)
    for op in each.ops:
        acc = _accumulator(op, selection)
        grids.constants[op, acc.rhs] = Constant(codes, before.qparams)


def rows_fit(
    op: Operation, weights: Constant, selection: Selection, grids: Grids
) -> NDArray[np.bool_]:
    """Which rows of weights, along the axis of channels, have sums that fit, with the bias."""
    acc, target = _accumulator(op, selection), selection.values.ctx.target
    runtime, params = grids.operand(op, acc.lhs), weights.qparams
    assert runtime is not None
    bias = None
    if acc.bias is not None and acc.bias < len(op.operands):
        bias = real_array(op.operands[acc.bias], selection.values.ctx.blobs)
    stored = bias_storage(op, acc, target)
    kind, most = sum_type(op, grids, target), min(stored.max, -stored.min)
    sums = Sums(runtime.scale, Span.of(runtime), bias, kind, bias_most=most)
    rows = np.moveaxis(offsets_of(weights.codes, params), acc.rhs_axis(op), 0)
    rows = rows.reshape(len(rows), -1).astype(np.int64)
    excess = sums.excess(rows, params.scale_array().reshape(-1), signed_shift(params))
    return np.asarray(excess <= 1)


def _accumulator(op: Operation, selection: Selection) -> Accumulator:
    acc = selection.ops[op].accumulator
    assert acc is not None
    return acc
