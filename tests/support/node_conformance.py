"""The node tests of the `onnx` package, in qdialect, ONNX Runtime and the reference evaluator.

    python -m tools.docs conformance --output docs/reference/node-conformance.md
    python -m tools.docs conformance --only quantizelinear --list

Every test of one node is a model, inputs and the outputs to expect, within tolerances.
qdialect imports the model and interprets it.  A test counts as *native* if every node
became an op of our own, and as *kept* if a node stayed an ONNX node, which ONNX Runtime
or the reference evaluator then computes for the interpreter.  Many tests give as graph
inputs what models hold as constants (scales, shapes, axes); where a node stays for that
reason, the test is also run with its inputs but the first as constants.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from xdsl.ir import Operation

from qdialect.errors import QError
from qdialect.interpreter import Evaluation, Interpreter
from qdialect.ir.context import new_context
from qdialect.plugins.onnx.dialect import NodeOp
from qdialect.plugins.onnx.read import import_model
from qdialect.plugins.onnx.write import OrtEngine, evaluate_node
from tests.support.tables import step, table

Feeds = Mapping[str, Any]
Engine = Callable[[onnx.ModelProto, Feeds], Iterable[Any]]

NATIVE, KEPT, PASSED = "native", "kept", "passed"
FAILED, UNSUPPORTED = "failed", "unsupported"
ENGINES = ("qdialect", "ONNX Runtime", "reference")

#: op types whose tests are about quantization
QUANTIZATION = frozenset(
    {
        "QuantizeLinear",
        "DequantizeLinear",
        "DynamicQuantizeLinear",
        "QLinearConv",
        "QLinearMatMul",
        "ConvInteger",
        "MatMulInteger",
    }
)

#: the newest opset and IR version that ONNX Runtime takes
RUNTIME_OPSET, RUNTIME_IR = 23, 11


@dataclass(frozen=True)
class Verdict:
    """What one engine made of one test, and why it is not a pass."""

    word: str
    reason: str = ""

    @property
    def is_pass(self) -> bool:
        return self.word in (NATIVE, KEPT, PASSED)


@dataclass(frozen=True)
class Row:
    """One test: its name, its op type and the verdicts of `ENGINES`."""

    name: str
    family: str
    verdicts: tuple[Verdict, ...]


def cases(only: str = "") -> list[Any]:
    """The tests, function bodies left out, whose name contains `only`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests

        found = [case for case in load_model_tests(kind="node") if case.model is not None]
    chosen = (case for case in found if "_expanded" not in case.name and only in case.name)
    return sorted(chosen, key=lambda case: case.name)


def family_of(case: Any) -> str:
    """The op type a test is about: that of its last node that is no constant."""
    nodes = [node.op_type for node in case.model.graph.node if node.op_type != "Constant"]
    return nodes[-1] if nodes else "Constant"


# -- engines ------------------------------------------------------------------------------


class Mismatch(Exception):
    """Results other than the expected ones."""


def judge(case: Any, engine: Engine, word: str = PASSED) -> Verdict:
    """Run all data sets of a test."""
    try:
        for inputs, wanted in case.data_sets:
            names = [value.name for value in case.model.graph.input]
            given = zip(names, map(_plain, inputs), strict=False)
            feeds = {name: value for name, value in given if value is not None}
            results = list(engine(case.model, feeds))
            expected = [_plain(value) for value in wanted if value is not None]
            compare(results, expected, case.rtol, case.atol)
    except Mismatch as problem:
        return Verdict(FAILED, str(problem))
    except Exception as problem:
        lines = str(problem).strip().splitlines() or [type(problem).__name__]
        return Verdict(UNSUPPORTED, lines[0])
    return Verdict(word)


def _plain(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def on_runtime(model: onnx.ModelProto, feeds: Feeds) -> Iterable[Any]:
    """ONNX Runtime without optimizations; opset and IR version lowered if need be."""
    try:
        engine = OrtEngine(model, optimize=False)
    except QError:
        lowered = onnx.ModelProto()
        lowered.CopyFrom(model)
        for entry in lowered.opset_import:
            if entry.domain in ("", "ai.onnx"):
                entry.version = min(entry.version, RUNTIME_OPSET)
        lowered.ir_version = min(lowered.ir_version, RUNTIME_IR)
        checker: Any = onnx.checker
        checker.check_model(lowered)
        engine = OrtEngine(lowered, optimize=False)
    return engine.run(feeds).values()


def on_reference(model: onnx.ModelProto, feeds: Feeds) -> Iterable[Any]:
    """The reference evaluator of the `onnx` package."""
    from onnx.reference import ReferenceEvaluator

    evaluator: Any = ReferenceEvaluator(model)
    return evaluator.run(None, dict(feeds))


def on_ours(case: Any) -> Verdict:
    """The verdict on qdialect; natively if that is possible."""
    written = judge(case, _interpret_natively, NATIVE)
    if written.is_pass or written.word == FAILED:
        return written
    bound = judge(case, _interpret_bound, NATIVE)
    if bound.is_pass:
        return bound
    return judge(case, _interpret_with_kept, KEPT)


def _interpret_natively(model: onnx.ModelProto, feeds: Feeds) -> list[Any]:
    return _interpret(model, feeds, _no_kept_node)


def _interpret_with_kept(model: onnx.ModelProto, feeds: Feeds) -> list[Any]:
    return _interpret(model, feeds, _kept_node)


def _interpret_bound(model: onnx.ModelProto, feeds: Feeds) -> list[Any]:
    """With every input but the first as a constant."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    bound = [value for value in copy.graph.input[1:] if value.name in feeds]
    for value in bound:
        code, array = value.type.tensor_type.elem_type, feeds[value.name]
        if isinstance(array, list) or not code:
            raise QError("an input is no tensor")
        copy.graph.initializer.append(_tensor(value.name, array, code))
        copy.graph.input.remove(value)
    names = {value.name for value in copy.graph.input}
    return _interpret(copy, {n: v for n, v in feeds.items() if n in names}, _no_kept_node)


def _tensor(name: str, array: NDArray[Any], code: int) -> onnx.TensorProto:
    if array.dtype == helper.tensor_dtype_to_np_dtype(code):
        return numpy_helper.from_array(array, name)
    return helper.make_tensor(name, code, array.shape, array.reshape(-1).tolist())


def _interpret(model: onnx.ModelProto, feeds: Feeds, kept: Any) -> list[Any]:
    ctx = new_context()
    module = import_model(model, ctx)
    module.verify()
    given = {name: _held(value) for name, value in feeds.items()}
    return Interpreter(ctx, module, functions={NodeOp.name: kept}).run(given)


def _held(value: Any) -> Any:
    """An input as the interpreter holds it: bf16 as f32, small floats and integers as
    their codes."""
    if not _is_small(value):
        return value
    name = value.dtype.name
    if name == "bfloat16":
        return value.astype(np.float32)
    if name.startswith("float"):
        return value.view(np.uint8)
    return value.astype(np.uint8 if name.startswith("u") else np.int8)


def _is_small(value: Any) -> bool:
    """Whether numpy knows the type by `ml_dtypes` only."""
    dtype: Any = getattr(value, "dtype", None)
    return isinstance(dtype, np.dtype) and cast("Any", dtype).isbuiltin != 1


def _kept_node(op: Operation, operands: Sequence[Any], evaluation: Evaluation) -> list[Any]:
    return evaluate_node(cast("NodeOp", op), operands, evaluation.ctx.blobs)


def _no_kept_node(op: Operation, operands: Sequence[Any], evaluation: Evaluation) -> list[Any]:
    raise QError(f"{cast('NodeOp', op).op_type.data} is kept")


# -- comparing ----------------------------------------------------------------------------


def compare(results: Sequence[Any], wanted: Sequence[Any], rtol: float, atol: float) -> None:
    """Mismatch unless the results are the expected ones within the tolerances."""
    if len(results) < len(wanted):
        raise Mismatch(f"{len(results)} results instead of {len(wanted)}")
    for index, (got, want) in enumerate(zip(results, wanted, strict=False)):
        if isinstance(want, list):
            if not isinstance(got, list):
                raise Mismatch(f"result {index} is no sequence")
            compare(cast("list[Any]", got), cast("list[Any]", want), rtol, atol)
            continue
        if got is None or want is None:
            if got is not want:
                raise Mismatch(f"result {index} is {got} instead of {want}")
            continue
        _compare_arrays(index, np.asarray(got), np.asarray(want), rtol, atol)


def _compare_arrays(
    index: int, got: NDArray[Any], want: NDArray[Any], rtol: float, atol: float
) -> None:
    got = _like(got, want)
    if got.shape != want.shape:
        raise Mismatch(f"result {index} has shape {got.shape} instead of {want.shape}")
    if want.dtype.kind in "OUSb" or want.dtype.name.startswith(("int", "uint")):
        if not np.array_equal(got, want):
            raise Mismatch(f"result {index} has other values")
        return
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    pair = got.astype(wide), want.astype(wide)
    if not np.allclose(*pair, rtol=rtol, atol=atol, equal_nan=True):
        raise Mismatch(f"result {index} is off by {np.nanmax(np.abs(pair[0] - pair[1])):.3g}")


def _like(got: NDArray[Any], want: NDArray[Any]) -> NDArray[Any]:
    """What the interpreter holds differently from numpy, as numpy (see `_held`)."""
    if got.dtype == want.dtype:
        return got
    name = want.dtype.name
    if name == "bfloat16" and got.dtype == np.float32:
        return got.astype(want.dtype)
    if got.dtype.kind in "OU" and want.dtype.kind in "OU":
        return got.astype(object)
    if name.startswith("float") and _is_small(want) and got.dtype == np.uint8:
        return got.view(want.dtype)
    if _is_small(want) and got.dtype.kind in "iu":
        return got.astype(want.dtype)
    raise Mismatch(f"a result is {got.dtype} instead of {want.dtype}")


# -- report -------------------------------------------------------------------------------


def run(chosen: Iterable[Any]) -> Iterator[Row]:
    """Each test in each engine."""
    for case in chosen:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            verdicts = on_ours(case), judge(case, on_runtime), judge(case, on_reference)
        yield Row(case.name, family_of(case), verdicts)


def report(rows: Sequence[Row]) -> str:
    """The page."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("onnx", "onnxruntime", "numpy"))
    quantization = [row for row in rows if row.family in QUANTIZATION]
    parts = [
        "# Node conformance\n\n"
        "Written by `python -m tools.docs conformance --output docs/reference/node-conformance.md`;"
        f"\n{versions}.",
        f"The {len(rows)} tests of one node of the `onnx` package (no function bodies), in the"
        "\nimporter and interpreter of qdialect, in ONNX Runtime (optimizations off; opset and IR"
        "\nversion lowered where it refuses the newest) and in the reference evaluator of `onnx`."
        "\n*Native*: every node became an op of our own, which our interpreter computes from the"
        "\ndefinition; scales, shapes and the like may be bound as constants first. *Kept*: a node"
        "\nstayed an ONNX node, as it does in a model, and ONNX Runtime or else the reference"
        "\nevaluator computed it node by node. *Failed*: another result. *Unsupported*: refused.",
        "## All tests\n\n" + _summary(rows),
        "## Quantization, test by test\n\n" + _tests(quantization),
        "## By op\n\n" + _families(rows),
        "## Where qdialect does not pass\n\n" + _misses(rows),
    ]
    return "\n\n".join(parts) + "\n"


def _summary(rows: Sequence[Row]) -> str:
    lines: list[tuple[str, ...]] = []
    for index, engine in enumerate(ENGINES):
        found = Counter(row.verdicts[index].word for row in rows)
        passed = found[NATIVE] + found[KEPT] + found[PASSED]
        native, kept = (str(found[w]) if index == 0 else "" for w in (NATIVE, KEPT))
        bad = str(found[FAILED]), str(found[UNSUPPORTED])
        lines.append((engine, str(passed), native, kept, *bad))
    return table(("engine", "passed", "native", "kept", FAILED, UNSUPPORTED), lines)


def _tests(rows: Sequence[Row]) -> str:
    lines = [(row.name, *(verdict.word for verdict in row.verdicts)) for row in rows]
    return table(("test", *ENGINES), lines)


def _families(rows: Sequence[Row]) -> str:
    grouped: dict[str, list[Row]] = {}
    for row in rows:
        grouped.setdefault(row.family, []).append(row)
    lines: list[tuple[str, ...]] = []
    for family, members in sorted(grouped.items()):
        ours = Counter(row.verdicts[0].word for row in members)
        cells = [str(ours[word] or "") for word in (NATIVE, KEPT, FAILED, UNSUPPORTED)]
        for index in (1, 2):
            words = Counter(row.verdicts[index].word for row in members)
            cells.append("/".join(str(words[w]) for w in (PASSED, FAILED, UNSUPPORTED)))
        lines.append((family, str(len(members)), *cells))
    header = ("op", "tests", NATIVE, KEPT, FAILED, UNSUPPORTED, "ONNX Runtime p/f/u")
    return table((*header, "reference p/f/u"), lines)


def _misses(rows: Sequence[Row]) -> str:
    missed = [row for row in rows if not row.verdicts[0].is_pass]
    if not missed:
        return "Nowhere."
    lines = [
        (row.name, row.verdicts[0].word, row.verdicts[0].reason.replace("|", "\\|")[:100])
        for row in missed
    ]
    return table(("test", "verdict", "why"), lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, help="write the page here")
    parser.add_argument("--only", default="", help="tests with this in their name")
    parser.add_argument("--list", action="store_true", help="print every test that is not native")
    options = parser.parse_args(arguments)
    with step("the node tests"):
        rows = list(run(cases(options.only)))
    if not rows:
        print(f"no test has '{options.only}' in its name", file=sys.stderr)
        return 2
    if options.list:
        for row in rows:
            if row.verdicts[0].word != NATIVE:
                others = ", ".join(verdict.word for verdict in row.verdicts[1:])
                print(f"{row.name}: {row.verdicts[0].word} ({others}) {row.verdicts[0].reason}")
    print(_summary(rows))
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(report(rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
