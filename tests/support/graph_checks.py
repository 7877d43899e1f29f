"""What must hold of `qd.optimize` at `exact` on any ONNX graph, with ONNX Runtime as the judge.

A graph counts where the runtime runs it as written (its optimizations off). Then it must be
read, optimized for each target, and written in both forms, and

    names       inputs and outputs keep their names
    bits        what is written as QDQ gives the same bits, optimizations off, on three inputs:
                of anything, with many ties of roundings, of extreme numbers
    loads       what is written in either form loads and runs, optimizations off, and also with
                them on if the graph itself does
    twice       optimizing what was optimized changes nothing (where that is asked for)
    imported    of networks: the interpreter computes the same, up to roundings
    returned    of networks: import and export alone change no bit

Graphs with integer kernels (QLinearConv and its like) are compared with their meaning in floats,
which must be near to what the kernels give.
"""

# pyright: basic
from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from tests.support.processor import saturates_pairs

TARGETS = ("onnxruntime", "generic")
SUMS = 1e-5
"""Of the largest number: what another order of a sum of floats may change."""
LEAST_DB = 10.0
"""Integer kernels meet ties in another way than floats; a wrong scale leaves less than this."""
DRAWN = "the graph as it is drawn"
RUNTIME_ALONE = "the graph itself with optimizations"
Arrays = dict[str, np.ndarray]
Stage = Callable[[str], None]


class Failed(Exception):
    """A check does not hold: which, and how."""

    def __init__(self, kind: str, told: str) -> None:
        super().__init__(told)
        self.kind = kind


class Invalid(Exception):
    """The runtime does not run the graph as it is written."""


# -- one graph --------------------------------------------------------------------------------


@dataclass
class Case:
    """A graph with what the runtime computes of it."""

    model: onnx.ModelProto
    feeds: list[Arrays] = field(default_factory=list)
    wanted: list[list[Any]] = field(default_factory=list)
    runs_optimized: bool = False

    @staticmethod
    def of(
        model: onnx.ModelProto,
        optimized: bool = True,
        on_stage: Stage = lambda _: None,
        extents: bool = False,
    ) -> Case:
        """Invalid where the runtime does not run it; `optimized`: see also whether it runs with
        the runtime's optimizations, which ends the process for some graphs; `extents`: also on
        inputs whose dynamic extents are 0, 1 and others."""
        from qdialect.errors import QError
        from qdialect.plugins.onnx.write import OrtEngine
        from tests.generators.graphs.feeds import random_feeds, resized

        case, data = Case(model), model.SerializeToString()
        on_stage(DRAWN)
        sizes = [(model, kind) for kind in range(3)]
        sizes += [(other, 0) for other in (resized(model) if extents else ())]
        try:
            engine = OrtEngine(data, optimize=False)
            for sized, kind in sizes:
                feeds = random_feeds(sized, kind)
                try:
                    case.wanted.append(list(engine.run(feeds).values()))
                except QError:
                    if not kind and sized is model:
                        raise
                    continue
                case.feeds.append(feeds)
            again = OrtEngine(data, optimize=False) if extents else engine
            for feeds, wanted in zip(case.feeds, case.wanted, strict=True):
                if extents:  # what nobody writes is other memory now
                    del [np.full(n, np.nan, np.float32) for n in range(1, 3000, 7)][:]
                pairs = zip(wanted, again.run(feeds).values(), strict=True)
                if extents and not all(same(*map(np.asarray, pair)) for pair in pairs):
                    raise Invalid("the runtime gives memory that nobody wrote")
        except QError as error:
            raise Invalid(str(error)) from None
        on_stage("")
        if optimized:
            on_stage(RUNTIME_ALONE)
            try:
                OrtEngine(data, optimize=True).run(case.feeds[0])
                case.runs_optimized = True
            except QError:
                pass
            on_stage("")
        return case

    @property
    def has_kernels(self) -> bool:
        kinds = {node.op_type for node in self.model.graph.node}
        return any(kind.startswith("QLinear") or kind == "QGemm" for kind in kinds)


def check_graph(
    model: onnx.ModelProto,
    folder: Path,
    twice: bool = False,
    optimized: bool = True,
    on_stage: Stage = lambda _: None,
    network: bool = False,
) -> list[str]:
    """What was met that is no failure; Invalid or Failed. Of a `network` (scales as quantizers
    choose them) more must hold than of any graph."""
    import qdialect as qd
    from qdialect.plugins.onnx.write import write_model

    case, path, met = Case.of(model, optimized, on_stage), folder / "m.onnx", list[str]()
    if not case.runs_optimized:
        met.append("does not run with the runtime's optimizations")
    path.write_bytes(model.SerializeToString())
    given = qd.load(path)
    if network:
        _run_here(case, given)
        found = _run(write_model(given.module, given.ctx).whole(), case, "returned")
        for feeds, one, other in zip(case.feeds, case.wanted, found, strict=True):
            met += equal(case, lambda: (given, given), feeds, one, other, "returned")
    elif case.has_kernels:
        found = _run(write_model(given.module, given.ctx).whole(), case, "returned")
        for one, other in zip(case.wanted, found, strict=True):
            _near(one, other)
        case.wanted = found
    for target in TARGETS:
        better = qd.optimize(given, target)
        made = write_model(better.module, better.ctx).whole()
        found = _run(made, case, f"{target} qdq")
        for feeds, one, other in zip(case.feeds, case.wanted, found, strict=True):
            pair = (given, better)
            met += equal(case, lambda pair=pair: pair, feeds, one, other, target)
        kernels = write_model(better.module, better.ctx, form="qoperator").whole()
        _run(kernels, case, f"{target} qoperator")
        if twice:
            again = qd.optimize(better, target)
            if str(again) != str(better):
                raise Failed("twice", f"{target}: fired {dict(again.ctx.remarks.fired())}")
    return met


def _run_here(case: Case, model: Any) -> None:
    """The interpreter computes what the runtime does, up to roundings, on numbers of any kind
    but extreme ones."""
    import qdialect as qd

    for feeds, expected in list(zip(case.feeds, case.wanted, strict=True))[:2]:
        _near(expected, list(qd.run(model, feeds).values()), "imported", least_steps=0)


def _run(model: onnx.ModelProto, case: Case, what: str) -> list[list[Any]]:
    from qdialect.errors import QError
    from qdialect.plugins.onnx.write import OrtEngine

    data = model.SerializeToString()
    try:
        engine = OrtEngine(data, optimize=False)
        found = [list(engine.run(feeds).values()) for feeds in case.feeds]
    except QError as error:
        raise Failed("loads", f"{what}: {str(error)[:300]}") from None
    names = [output.name for output in case.model.graph.output]
    if engine.outputs != names:
        raise Failed("names", f"{what}: outputs {engine.outputs}, not {names}")
    if case.runs_optimized:
        try:
            OrtEngine(data, optimize=True).run(case.feeds[0])
        except QError as error:
            raise Failed("loads optimized", f"{what}: {str(error)[:300]}") from None
    return found


def equal(
    case: Case,
    models: Callable[[], tuple[Any, Any]],
    feeds: Arrays,
    wanted: list[Any],
    found: list[Any],
    what: str,
) -> list[str]:
    """What excuses results that differ; Failed where nothing does. The interpreter runs `models`,
    before and after, to see whether only the order of a sum is another."""
    met: list[str] = []
    names = [output.name for output in case.model.graph.output]
    for a, b, name in zip(wanted, found, names, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        if a.shape != b.shape or a.dtype != b.dtype:
            told = f"'{name}' is {b.dtype}{list(b.shape)}, not {a.dtype}{list(a.shape)}"
            raise Failed("bits", f"{what}: {told}")
        if same(a, b):
            continue
        if undefined(case.model, feeds):
            met.append("not a number quantized")
        elif a.dtype.kind == "f" and np.array_equal(a, b, equal_nan=True):
            met.append("zeros of the other sign")
        elif (_is_near(a, b) or feeds is case.feeds[-1]) and _same_in_reference(*models(), feeds):
            met.append("sums in another order")
        elif sums_saturate(*models()) and _same_in_reference(*models(), feeds):
            met.append("sums that saturate in pairs")
        else:
            count = int((~((a == b) | ((a != a) & (b != b)))).sum())
            raise Failed("bits", f"{what}: '{name}' differs in {count} of {a.size} numbers")
    return met


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether all bits are the same, those of one not-a-number as of another."""
    if a.dtype.isbuiltin == 2:  # of ml_dtypes
        a, b = a.astype(np.float32), b.astype(np.float32)
    if a.dtype.kind != "f":
        return bool(np.array_equal(a, b))
    return bool(
        np.array_equal(a, b, equal_nan=True) and not (np.signbit(a) ^ np.signbit(b))[a == a].any()
    )


def _is_near(a: np.ndarray, b: np.ndarray) -> bool:
    if a.dtype.kind != "f" or not a.size:
        return False
    sound = np.isfinite(a)
    largest = np.abs(a[sound]).max() if sound.any() else 0
    return bool(np.allclose(a, b, rtol=0, atol=SUMS * largest, equal_nan=True))


def sums_saturate(*models: Any) -> bool:
    """Whether products of u8 and i8 in one of the models leave 16 bits in pairs, in which this
    processor adds them up where the runtime has integer kernels."""
    from qdialect.algebra.sums import PAIRS
    from qdialect.analysis.accumulators import products_of
    from qdialect.analysis.codes import qparams_of

    def leaves(model: Any, op: Any) -> bool:
        behavior = model.ctx.behaviors.get(op)
        if behavior is None or behavior.accumulator is None:
            return False
        storages = [q and q.storage.spelling for q in map(qparams_of, op.operands[:2])]
        products = products_of(model.ctx, op, PAIRS) if storages == ["u8", "i8"] else None
        return storages == ["u8", "i8"] and (products is None or not products.fits)

    return saturates_pairs() and any(
        leaves(model, op) for model in models for op in model.module.walk()
    )


def _same_in_reference(given: Any, better: Any, feeds: Arrays) -> bool:
    """Whether the interpreter, which sums in one order, finds the same bits."""
    import qdialect as qd

    try:
        one, other = (list(qd.run(model, feeds).values()) for model in (given, better))
    except qd.QError:
        return False
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(one, other, strict=True))


def undefined(model: onnx.ModelProto, feeds: Arrays) -> bool:
    """Whether a float that no integer of the type is near is made an integer, which nobody
    defines."""
    from qdialect.errors import QError
    from qdialect.plugins.onnx.write import OrtEngine

    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    read: list[tuple[str, np.dtype[Any] | None]] = []
    for node in model.graph.node:
        if node.op_type in ("QuantizeLinear", "DynamicQuantizeLinear"):
            read.append((node.input[0], None))  # saturates
        elif node.op_type == "Cast":
            given = {each.name: each.i for each in node.attribute}
            if given.get("saturate", 1) not in (0, 1):
                return True  # the runtime writes nothing, and gives what was there
            dtype = onnx.helper.tensor_dtype_to_np_dtype(given["to"])
            if dtype.kind in "iu":
                read.append((node.input[0], dtype))
    known = {output.name for output in model.graph.output}
    probe.graph.output.extend(
        onnx.ValueInfoProto(name=n) for n in dict.fromkeys(n for n, _ in read) if n not in known
    )
    try:
        found = OrtEngine(probe.SerializeToString(), optimize=False).run(feeds)
    except QError:
        return False
    return any(_is_far(np.asarray(found[n]), dtype) for n, dtype in read if n in found)


def _is_far(floats: np.ndarray, dtype: np.dtype[Any] | None) -> bool:
    if floats.dtype.kind != "f":
        return False
    if dtype is None:
        return bool(np.isnan(floats).any())
    limits, whole = np.iinfo(dtype), np.trunc(floats.astype(np.float64))
    return not bool(((whole >= limits.min) & (whole <= limits.max)).all())


def _near(wanted: list[Any], found: list[Any], kind: str = "meaning", least_steps: int = 1) -> None:
    """Failed where the noise is too much for roundings that go the other way."""
    for a, b in zip(wanted, found, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        if a.shape != b.shape or (a.dtype != b.dtype and kind == "meaning"):
            raise Failed(kind, f"{b.dtype}{list(b.shape)}, not {a.dtype}{list(a.shape)}")
        a, b = a.astype(np.float64), b.astype(np.float64)
        sound = np.isfinite(a) & np.isfinite(b)
        if kind == "imported" and not np.array_equal(np.isfinite(a), np.isfinite(b)):
            raise Failed(kind, "infinite or not a number in other places")
        a, apart = a[sound], (a[sound] - b[sound])
        noise, steps = float((apart**2).sum()), float(np.abs(apart).max(initial=0))
        least = 1e-6 * (1 if least_steps else a.size)
        if noise > float((a**2).sum()) * 10 ** (-LEAST_DB / 10) + least and steps > least_steps:
            raise Failed(kind, f"up to {steps:g} off what the runtime gives")


def failure(model: onnx.ModelProto, folder: Path, *args: Any, **more: Any) -> tuple[str, str]:
    """The kind of what came out ("" if all is well, "invalid"), and the words; the others
    are those of `check_graph`."""
    return whole_failure(lambda: check_graph(model, folder, *args, **more))


def whole_failure(check: Callable[[], list[str]]) -> tuple[str, str]:
    """The same of any check that gives what it met."""
    from qdialect.errors import QError

    try:
        return "", ", ".join(dict.fromkeys(check()))
    except Invalid as error:
        return "invalid", str(error)
    except Failed as error:
        return error.kind, str(error)
    except QError as error:
        kind = "refused" if type(error).__name__ != "PassFailure" else "crashed"
        return f"{kind} {error.code}", f"{type(error).__name__}: {str(error)[:300]}"
    except Exception as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if "qdialect" in f.filename]
        place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
        return f"crashed {type(error).__name__} at {place}", str(error).strip()[:300]
