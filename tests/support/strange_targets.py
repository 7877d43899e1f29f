"""Targets with one restriction each, that no pass knows of, and what they refuse in a module.

The law: no pass makes an op that the target refuses. So behind a pass every refused op was there
before it, or stands for one that was refused too.
"""

# pyright: basic
from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from typing_extensions import override
from xdsl.dialects.builtin import (
    ModuleOp,
    TensorType,
)
from xdsl.ir import Attribute, Operation

from qdialect.ir.context import QContext
from qdialect.ir.ops.base import to_python
from qdialect.ir.quant import quant_element
from qdialect.rewrite.op_numbers import numbers_of
from qdialect.rewrite.refused import is_folded, refused_by_target
from qdialect.targets.base import Target
from qdialect.targets.kernels import Kernel

Refuses = Callable[[Operation, Sequence[Attribute], Sequence[Attribute]], str | None]


@dataclass(frozen=True)
class Restricted(Target):
    """A target that refuses what `also` refuses too."""

    also: Refuses = lambda op, operands, results: None

    @override
    def refuses(
        self, op: Operation, operands: Sequence[Attribute], results: Sequence[Attribute]
    ) -> str | None:
        return super().refuses(op, operands, results) or self.also(op, operands, results)


@dataclass(frozen=True)
class FewRescales(Target):
    """A target whose rescales go to smaller steps only, by price."""

    @override
    def rescale_price(self, source: Any, result: Any) -> float:
        coarser = min(result.scale_list()) > max(source.scale_list())
        return math.inf if coarser else super().rescale_price(source, result)


def _params(*sides: Sequence[Attribute]) -> list[Any]:
    return [e.qparams for side in sides for kind in side if (e := quant_element(kind))]


def _zero(op: Operation, operands: Sequence[Attribute], results: Sequence[Attribute]) -> str | None:
    bad = any(set(q.zero_point_list()) != {0} for q in _params(operands, results))
    return "zero points are 0" if bad else None


def _shifts(
    op: Operation, operands: Sequence[Attribute], results: Sequence[Attribute]
) -> str | None:
    scales = [s for q in _params(operands, results) for s in q.scale_list()]
    bad = any(math.frexp(scale)[0] != 0.5 for scale in scales)
    return "scales are powers of two" if bad else None


def _small_windows(
    op: Operation, operands: Sequence[Attribute], results: Sequence[Attribute]
) -> str | None:
    for name, most in (("strides", 1), ("dilations", 1)):
        given = op.properties.get(name)
        if given is not None and max(to_python(given), default=1) > most:
            return f"{name} above {most}"
    return None


def _casts_only(
    op: Operation, operands: Sequence[Attribute], results: Sequence[Attribute]
) -> str | None:
    return None if op.name in ("quant.qcast", "quant.dcast") else "casts only"


def _one_per_kind(
    op: Operation, operands: Sequence[Attribute], results: Sequence[Attribute]
) -> str | None:
    taken = ("add", "conv2d", "matmul", "relu", "max_pool2d", "reshape", "concat", "table")
    known = op.name.startswith("quant.") or op.name.removeprefix("nn.") in taken
    return None if known else "one op of each kind"


def _one_scale(
    op: Operation, operands: Sequence[Attribute], results: Sequence[Attribute]
) -> str | None:
    several = [q for q in _params(operands, results) if not q.is_per_tensor]
    return "all of a tensor has one scale" if several else None


def _alike(
    op: Operation, operands: Sequence[Attribute], results: Sequence[Attribute]
) -> str | None:
    storages = {q.storage for q in _params(operands, results)}
    return "one storage for all" if len(storages) > 1 and op.name != "quant.rescale" else None


def _flat(op: Operation, operands: Sequence[Attribute], results: Sequence[Attribute]) -> str | None:
    kinds: list[Any] = [*operands, *results]
    ranks = [len(kind.get_shape()) for kind in kinds if isinstance(kind, TensorType)]
    return "at most 3 dimensions" if max(ranks, default=0) > 3 else None


STRANGE: dict[str, Target] = {
    target.name: target
    for target in (
        Target("no floats", "", floats=False),
        Target(
            "16-bit codes only", "", storages=frozenset({"i16", "i32"}), activations="i16",
            symmetric=frozenset({"i16"}),
        ),
        Restricted("one op of each kind", "", also=_one_per_kind),
        Target(
            "one kernel", "", kernels={"nn.add": (Kernel(("i8",), ("i8",)),)}, runs_others=False
        ),
        Target("per tensor", "", per_axis=False, per_block=False),
        Restricted("per tensor, by a hook", "", also=_one_scale),
        Restricted("zero points of 0", "", also=_zero),
        Restricted("powers of two", "", also=_shifts),
        FewRescales("finer rescales", ""),
        Restricted("small windows", "", also=_small_windows),
        Restricted("one storage for each op", "", also=_alike),
        Restricted("3 dimensions", "", also=_flat),
        Target(
            "limits of kernels", "",
            kernels={
                "quant.rescale": (Kernel(limits={"extent": "1..4"}),),
                "nn.relu": (Kernel(limits={"extent": "1..4"}),),
                "nn.max_pool2d": (Kernel(limits={"strides": "1..1"}),),
                "nn.add": (Kernel(("i8",), ("i8",)), Kernel(("i16", "i16"), ("i16",))),
            },
        ),
        Restricted("casts only", "", also=_casts_only),
        Target(
            "lookups only", "", floats=False, runs_others=False,
            kernels={"nn.table": (Kernel(),)},
        ),
    )
}  # fmt: skip


def _key(op: Operation) -> tuple[Any, ...]:
    kinds = tuple(str(value.type) for value in (*op.operands, *op.results))
    return op.name, kinds, str(sorted((name, str(p)) for name, p in op.properties.items()))


def refused_ops(module: ModuleOp, session: QContext) -> dict[Operation, str]:
    """The ops of a module that the target of the session refuses, and why."""
    found = {op: refused_by_target(session, op) for op in module.walk()}
    return {op: reason for op, reason in found.items() if reason}


def newly_refused(
    before: ModuleOp, after: ModuleOp, session: QContext, *, in_steps: bool = False
) -> list[str]:
    """Refused ops of `after` that `before`, whose ops are numbered, has not, nor a refused one that
    they stand for: for the same reason, of that name, or in floats between casts; `in_steps`,
    several of these in a row, for any reason."""
    were = refused_ops(before, session)
    by_number: dict[int, list[tuple[str, str]]] = {}
    for op, reason in were.items():
        for number in numbers_of(op.location):
            by_number.setdefault(number, []).append((op.name, reason))
    known = Counter(map(_key, were))
    found: list[str] = []
    for op, reason in refused_ops(after, session).items():
        known[_key(op)] -= 1
        if is_folded(op):
            continue
        values = (*op.operands, *op.results)
        in_floats = not any(quant_element(value.type) for value in values)
        any_reason = in_steps or in_floats or op.name in ("quant.qcast", "quant.dcast")
        stands_for = [entry for n in numbers_of(op.location) for entry in by_number.get(n, ())]
        if known[_key(op)] < 0 and not any(
            any_reason or op.name == name or reason == why for name, why in stands_for
        ):
            kinds = ", ".join(str(v.type) for v in values)
            found.append(f"{op.name} ({kinds}): {reason}")
    return found
