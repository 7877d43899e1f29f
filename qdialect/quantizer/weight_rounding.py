"""Codes of weights of least error of each result, instead of the nearest ones.

| method | codes of least error of the results of an op |
|---|---|
| `gptq` | column after column, on operands of the float model |
| `descent` | from there, one weight after another |
| `sequential` | as `descent`, on operands of the quantized model (`sequential`) |
| `adaround` | from there, with what is behind the op (`algebra.soft_rounding`) |
| `blocks` | from there, of several ops together, block after block (`reconstruction`) |

Between the choice of qparams and the writing of constants, the codes of the weights of each
contraction are chosen again on the same qparams (`algebra.weight_rounding`), by the moments of
its operand on samples (`hessians`). Where the bias will be corrected afterwards, by which
errors of means vanish, the loss is that without means: (w' - w) Cov(x) (w' - w)^T.

Weights that several ops multiply with get one rounding, by the sum of their moments. What is found
depends on the weights, the moments and the method alone (of one on operands of the quantized model,
on the recipe too), so results are kept: in memory, and in a folder that a run goes on from.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, get_args
from zipfile import BadZipFile

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from qdialect.algebra.soft_rounding import Expected, softly_rounded
from qdialect.algebra.weight_rounding import (
    Grid,
    damped,
    descend,
    gptq,
    nearest,
)
from qdialect.errors import InputError, Where
from qdialect.ir.weights import replacing
from qdialect.quantizer.cuts import Stretch, stretches
from qdialect.quantizer.dynamic import DYNAMIC
from qdialect.quantizer.grids import Grids
from qdialect.quantizer.hessians import Moments, batches, measurable, moments
from qdialect.quantizer.profile.model_identity import form_of
from qdialect.quantizer.quantized_copy import stages
from qdialect.quantizer.reconstruction import Solver, as_rows, problem_of
from qdialect.quantizer.selection import Selection
from qdialect.quantizer.sequential import STAGES, expected_of, paired, shifted_rows
from qdialect.quantizer.shared_weights import (
    SharedWeights,
    current,
    shared_weights,
    write_codes,
    write_shift,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Codes = NDArray[np.int64]
    Means = tuple[Array, Array]
    Arrays = Mapping[str, NDArray[Any]]

Method = Literal["gptq", "descent", "sequential", "adaround", "blocks"]
METHODS: tuple[Method, ...] = get_args(Method)
_COLUMNWISE = ("gptq", "descent")
"""Methods that see operands of the float model."""
_NAMES = ("dynamic", "weights_only", "keep_float")
"""What of a recipe has no order."""


class Problem(Protocol):
    """Something to round, wherever."""

    def solved(self) -> Codes:
        """The codes, as offsets from their zero points [groups, outputs, K]."""
        ...


class Quadratic(NamedTuple):
    """Rows to round [groups, outputs, K] on a grid for a loss [groups, K, K]; GPTQ, and `descent`
    from there."""

    rows: Array
    grid: Grid
    hessian: Array
    descent: bool

    def solved(self) -> Codes:
        hessian = damped(self.hessian)
        codes = gptq(self.rows, self.grid, hessian)
        return descend(self.rows, self.grid, hessian, codes) if self.descent else codes


class Soft(NamedTuple):
    """Rows to round for what they are to give; from the codes of another problem."""

    start: Quadratic
    expected: Expected

    def solved(self) -> Codes:
        rows, grid = self.start.rows, self.start.grid
        return softly_rounded(rows, grid, self.expected, self.start.solved())


class Rounded(NamedTuple):
    """Codes, as offsets from their zero points, and the means that the bias is corrected by."""

    codes: Codes
    means: Means | None


def in_turn(problems: Iterator[Problem]) -> Iterator[Codes]:
    """What is found for problems, one after another."""
    return (problem.solved() for problem in problems)


Solve = Callable[[Iterator[Problem]], Iterator["Codes"]]
"""Solves problems, in their order; here (`in_turn`) or elsewhere."""


@dataclass
class WeightRounding:
    """Rounds, with the samples and the engine to measure with; `state` is a folder to keep results
    in, `solve` has rows rounded elsewhere. It is called before biases are corrected."""

    samples: Sequence[Arrays]
    engine: str
    method: Method = "gptq"
    state: Path | None = None
    solve: Solve = in_turn
    #: what follows slopes through blocks of ops, for `blocks`
    solver: Solver | None = None
    #: what was found, by the digest of what it depends on
    _known: dict[str, Rounded] = field(default_factory=dict[str, Rounded])

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"method: one of {', '.join(METHODS)}, not '{self.method}'")
        if self.method == "blocks" and self.solver is None:
            raise ValueError("method 'blocks' takes a solver")

    def __call__(self, selection: Selection, grids: Grids) -> None:
        """Choose codes in `grids` again, and say how those are chosen that are written later."""
        shared = shared_weights(selection, grids)
        if not self._is_sequential:
            # Of what an op takes in the float model those were chosen already.
            shared = [each for each in shared if not each.alone]
        whole = self._digest(selection)
        numbers = {op: number for number, op in enumerate(selection.values.block.ops)}
        names = {each: _name(each, numbers, whole) for each in shared}
        if self.method != "blocks":
            self._by_layers(selection, grids, shared, shared, names)
        else:
            floats = shared
            for part in stretches(selection.values.block, [each.ops for each in shared]):
                layers = [shared[n] for n in part.groups]
                self._by_layers(selection, grids, layers, floats, names)
                floats = [each for each in floats if each not in layers]
                inside = {shared[n]: names[shared[n]] for n in part.whole}
                self._together(selection, grids, part, inside, floats)
        self._for_later(selection)

    def _by_layers(
        self,
        selection: Selection,
        grids: Grids,
        layers: Sequence[SharedWeights],
        floats: Sequence[SharedWeights],
        names: Mapping[SharedWeights, str],
    ) -> None:
        """Choose the codes of `layers`, stage after stage; those of `floats` are not chosen yet."""
        for first, others in self._stages(layers, selection):
            stage = [*first, *others]
            missing = [each for each in stage if self._find(names[each]) is None]
            order: deque[tuple[SharedWeights, Means | None]] = deque()
            problems = self._problems(selection, grids, missing, first, floats, order)
            for codes in self.solve(problems):
                each, means = order.popleft()
                self._keep(names[each], Rounded(codes, means))
            for each in stage:
                if (found := self._find(names[each])) is not None:
                    write_codes(each, found.codes, selection, grids)
                    for op in each.ops:
                        # It was of other codes.
                        grids.shifts.pop(op, None)
                    if found.means is not None:
                        write_shift(each, found.means, selection, grids)
            # What is below sees what was written here.
            floats = [each for each in floats if each not in stage]

    def _together(
        self,
        selection: Selection,
        grids: Grids,
        part: Stretch,
        named: Mapping[SharedWeights, str],
        floats: Sequence[SharedWeights],
    ) -> None:
        """Choose codes of weights in a block again, for what it gives; those of `floats` are not
        chosen yet."""
        assert self.solver is not None
        inside = {
            current(each, selection, grids): f"{name}-together"
            for each, name in named.items()
            if not each.centered or len(each.ops) == 1
        }
        if not inside or not part.results:
            return
        if any(self._find(name) is None for name in inside.values()):
            problem = problem_of(
                selection, grids, part, list(inside), floats, self.samples, self.engine
            )
            found = self.solver.solved(problem)
            for (each, name), codes in zip(inside.items(), found, strict=True):
                self._keep(name, Rounded(as_rows(each, codes), None))
        for each, name in inside.items():
            if (known := self._find(name)) is not None:
                write_codes(each, known.codes, selection, grids)

    @property
    def _is_sequential(self) -> bool:
        return self.method not in _COLUMNWISE

    def _stages(
        self, shared: Sequence[SharedWeights], selection: Selection
    ) -> Sequence[tuple[Sequence[SharedWeights], Sequence[SharedWeights]]]:
        """What is rounded one after the other: what is below nothing of its stage, and others."""
        if not self._is_sequential or not shared:
            return [(shared, [])]
        parts = stages(selection, [each.ops for each in shared], STAGES)
        first, second = ([[shared[n] for n in part[side]] for part in parts] for side in (0, 1))
        return list(zip(first, second, strict=True))

    def _problems(
        self,
        selection: Selection,
        grids: Grids,
        missing: Sequence[SharedWeights],
        first: Sequence[SharedWeights],
        floats: Sequence[SharedWeights],
        order: deque[tuple[SharedWeights, Means | None]],
    ) -> Iterator[Problem]:
        """What is to be found for each of the missing that something can be measured of; which it
        is goes into `order`, with means if its bias is corrected by them. The weights of `floats`
        are not rounded yet; what comes from above their stage, those that are `first` in it make
        up for, and others see it only to be rounded for it."""
        if not self._is_sequential:
            for each, found in self._moments(selection, missing):
                order.append((each, None))
                rows, grid = each.rows()
                hessian = found.covariance() if each.centered else found.second()
                yield Quadratic(rows, grid, hessian, self.method == "descent")
            return
        if not missing:
            return
        keep = self.method in ("adaround", "blocks")
        for each, both in paired(
            selection, grids, missing, floats, self.samples, self.engine, keep=keep
        ):
            found = both[0].joined(both[1])
            corrected = each.centered and len(each.ops) == 1
            mean, made = found.means()
            same = each not in first
            order.append((each, (made if same else mean, made) if corrected else None))
            rows, grid = each.rows()
            near = rows if same else shifted_rows(rows, both, each.centered)
            start = Quadratic(near, grid, found.moments(each.centered)[0], descent=True)
            if keep:
                result = expected_of(each, rows, found, selection, grids, same=same)
                yield Soft(start, result)
            else:
                yield start

    def _moments(
        self, selection: Selection, missing: Sequence[SharedWeights]
    ) -> Iterator[tuple[SharedWeights, Moments]]:
        """The moments of all ops that share weights, as soon as all are there; of samples that
        overflow inside there are none."""
        begun: dict[SharedWeights, tuple[int, Moments]] = {}
        of_op = {op: each for each in missing for op in each.ops}
        for batch in batches(list(of_op)):
            measured = moments(selection.values, batch, self.samples, self.engine)
            for op in batch:
                each, found = of_op[op], measured.pop(op)
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
            descent = self.method != "gptq"
            return Quadratic(rows[None], whole, known[op].second(), descent).solved()[0]

        if known:
            selection.values.round_rows = round_rows

    # -- what is known already -----------------------------------------------

    def _digest(self, selection: Selection) -> blake2b:
        """All that codes depend on but what is rounded: the model, the samples, the method; of a
        sequential one, the recipe. A plan is no part of it: what was found with ops in codes is
        taken where a plan has some of them on floats."""
        values = selection.values
        module = values.function.parent_op()
        assert isinstance(module, ModuleOp)
        whole = blake2b(digest_size=16)
        whole.update(f"{form_of(module, values.ctx).digest} {self.method}".encode())
        if self._is_sequential:
            recipe = replace(values.recipe, plan=None)
            for each in fields(recipe):
                value: Any = getattr(recipe, each.name)
                said = sorted(map(str, value)) if each.name in _NAMES else value
                whole.update(f"{each.name} {said}".encode())
        for sample in self.samples:
            for name, array in sample.items():
                whole.update(f"{name} {array.dtype} {array.shape}".encode())
                whole.update(np.ascontiguousarray(array).data)
        return whole

    def _find(self, name: str) -> Rounded | None:
        if name not in self._known and self.state is not None:
            # What cannot be read is found again.
            damaged = OSError, ValueError, EOFError, BadZipFile, KeyError
            with suppress(*damaged), np.load(self._path(name)) as file:
                means = (file["mean"], file["mean_made"]) if "mean" in file else None
                self._known[name] = Rounded(file["codes"].astype(np.int64), means)
        return self._known.get(name)

    def _keep(self, name: str, found: Rounded) -> None:
        self._known[name] = found
        if self.state is None:
            return
        path = self._path(name)
        arrays: dict[str, Any] = {"codes": found.codes.astype(np.int32)}
        if found.means is not None:
            arrays["mean"], arrays["mean_made"] = found.means
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as temporary, temporary.open("wb") as file:
                np.savez(file, **arrays)
        except OSError as error:
            reason = error.strerror or str(error)
            where = Where(str(path.parent))
            raise InputError(
                f"cannot keep state here: {reason}", where=where, code="unwritable-file"
            ) from None

    def _path(self, name: str) -> Path:
        assert self.state is not None
        return self.state / f"rounding-{name}.npz"


def _name(each: SharedWeights, numbers: Mapping[Operation, int], whole: blake2b) -> str:
    hasher = whole.copy()
    said = [numbers[op] for op in each.ops], each.constant.qparams, each.centered
    hasher.update(repr(said).encode())
    hasher.update(np.ascontiguousarray(each.real).data)
    return hasher.hexdigest()
