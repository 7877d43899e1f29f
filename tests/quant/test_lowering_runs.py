"""Lowered casts and rescales, run by mlir-runner, give what the interpreter gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from mlir_runner import Call, run_calls
from numpy.typing import NDArray

from qdialect.interpreter import Interpreter
from qdialect.ir.context import new_context
from qdialect.pipeline.manager import PassManager
from qdialect.pipeline.registry import PassRegistry
from qdialect.pipeline.text import parse_pipeline
from qdialect.plugins.mlir.read import read_module, verify_module
from qdialect.plugins.mlir.write import module_text

ROUNDINGS = ["half_even", "half_away", "half_up"]


@dataclass(frozen=True)
class Case:
    """One op between two element types on one shape, and what it is run on."""

    op: str
    source: str
    target: str
    array: NDArray[np.generic]
    stored: tuple[str, str]


def program(cases: list[Case]) -> str:
    functions: list[str] = []
    for index, case in enumerate(cases):
        dims = "x".join(map(str, case.array.shape)) + "x"
        source, target = f"tensor<{dims}{case.source}>", f"tensor<{dims}{case.target}>"
        functions.append(
            f"func.func @f{index}(%x: {source}) -> {target} {{\n"
            f"  %0 = quant.{case.op} : {source} to {target}\n"
            f"  return %0 : {target}\n}}"
        )
    return "\n".join(functions)


def compare(cases: list[Case], pipeline: str) -> int:
    """Runs all cases both ways; the number of elements compared."""
    text = program(cases)
    ctx = new_context()
    module = read_module(text, ctx)
    verify_module(module, ctx)
    reference = Interpreter(ctx, module)
    wanted = [reference.run([case.array], f"f{i}")[0] for i, case in enumerate(cases)]
    passes = PassRegistry().build(parse_pipeline(f"{pipeline},strip-func-quant-types,canonicalize"))
    PassManager(ctx, passes).run(module)
    assert not any(op.name.startswith("quant.") for op in module.walk()), str(module)
    calls: list[Call] = []
    for index, case in enumerate(cases):
        flat = case.array
        signed = flat.view(f"i{flat.dtype.itemsize}") if flat.dtype.kind == "u" else flat
        calls.append(Call(f"f{index}", signed, *case.stored))
    got = run_calls(module_text(module, ctx, generic=True), calls)
    assert len(got) == len(cases)
    for case, ours, theirs in zip(cases, wanted, got, strict=True):
        bits = ours.view(f"i{ours.dtype.itemsize}").astype(np.int64).reshape(-1)
        assert np.array_equal(theirs, bits), (case, np.flatnonzero(theirs != bits)[:5])
    return sum(case.array.size for case in cases)


def codes(low: int, high: int, columns: int = 4) -> NDArray[np.generic]:
    kind = np.int8 if low < 0 else np.uint8
    return np.arange(low, high + 1).astype(kind).reshape(-1, columns)


def floats(kind: type[np.floating]) -> NDArray[np.generic]:
    """Ties, ends, specials, and values all over the range."""
    rng = np.random.default_rng(1)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, -1e30, 200.0, 300.0, -129.5, 0.49999997]
    halves = np.concatenate([np.arange(-160, 160) * step for step in (0.5, 0.15, 0.35, 0.05)])
    spread = np.ldexp(rng.standard_normal(565), rng.integers(-10, 12, 565))
    with np.errstate(over="ignore"):
        return np.concatenate([special, halves, spread]).astype(kind).reshape(-1, 4)


AXIS = "{0.5:3,0.25:-7,0.1:0,1.5:127}"
GRID = "{{0.5:3,0.25:7},{0.125:0,1.0:100}}"
PER_TENSOR = "!quant.uniform<i8:f32, 0.5:3>"
BOUNDED = "!quant.uniform<i8<-100:91>:f32, 0.3:-7>"
PER_AXIS = f"!quant.uniform<i8:f32:1, {AXIS}>"
BLOCKS = f"!quant.uniform<i8:f32:{{0:32,1:2}}, {GRID}>"
UNSIGNED = "!quant.uniform<u8:f32, 0.7:130>"
ALL = [PER_TENSOR, BOUNDED, PER_AXIS, BLOCKS, UNSIGNED]


def every_code(type: str) -> NDArray[np.generic]:
    if "<u8" in type:
        return codes(0, 255)
    return codes(-100, 91) if "<-100:91>" in type else codes(-128, 127)


def rescales(options: str) -> list[Case]:
    """Between every two types whose parameters meet."""
    return [
        Case(f"rescale %x {options}", source, target, every_code(source), ("i8", "i8"))
        for source in (PER_TENSOR, PER_AXIS, BLOCKS, UNSIGNED)
        for target in ALL
        if {source, target} != {PER_AXIS, BLOCKS}
    ]


@pytest.mark.parametrize("rounding", [*ROUNDINGS, "reciprocal"])
def test_real_rescale_to_arith_on_all_codes(rounding: str):
    """Where the pass says `exact`; the others (ties that no pair hits) it refuses."""
    cases = [case for case in rescales(f"rounding {rounding}") if refusals(case) == 0]
    assert len(cases) >= 10
    assert compare(cases, "expand-rescale") == sum(case.array.size for case in cases)


@pytest.mark.parametrize("rounding", [*ROUNDINGS, "gemmlowp", "ruy"])
@pytest.mark.parametrize(
    "pair", [(1, 0), (3, 1), (1 << 30, 31), (1534018389, 32), (2147483647, 40)]
)
def test_fixed_point_rescale_to_arith_on_all_codes(rounding: str, pair: tuple[int, int]):
    cases = rescales(f"rounding {rounding} multiplier [{pair[0]}] shift [{pair[1]}]")
    compare(cases, "expand-rescale")


@pytest.mark.parametrize("rounding", [*ROUNDINGS, "gemmlowp", "ruy"])
def test_one_pair_per_cell(rounding: str):
    options = (
        f"rescale %x rounding {rounding} multiplier [1, 1534018389, 1073741824, 5] "
        "shift [0, 32, 33, 2]"
    )
    cases = [
        Case(options, source, target, codes(-128, 127), ("i8", "i8"))
        for source, target in [
            (PER_TENSOR, PER_AXIS),
            (PER_AXIS, PER_TENSOR),
            (PER_AXIS, PER_AXIS),
            (BLOCKS, PER_TENSOR),
            (BLOCKS, BLOCKS),
        ]
    ]
    compare(cases, "expand-rescale")


def test_wide_storage_and_unknown_extents():
    wide, narrow = "!quant.uniform<i32:f32, 0.001:5>", "!quant.uniform<i8:f32, 0.7:3>"
    array = np.random.default_rng(3).integers(-200_000, 200_000, (64, 4)).astype(np.int32)
    array[0] = [-(1 << 31), (1 << 31) - 1, 0, 5]
    op = "rescale %x rounding half_up multiplier [1569325056] shift [40]"
    compare([Case(op, wide, narrow, array, ("i32", "i8"))], "expand-rescale")


@pytest.mark.parametrize("rounding", [*ROUNDINGS, "reciprocal"])
def test_quantize_on_ties_ends_and_specials(rounding: str):
    wide = [f"!quant.uniform<i16:f32, {s}:-300>" for s in (0.01, 0.5)]
    op = f'qcast %x {{quant.rounding = "{rounding}"}}'
    cases = [
        Case(op, "f32", kind, floats(np.float32), ("f32", "i8"))
        for kind in ALL
        if "f32:{" not in kind
    ]
    cases += [Case(op, "f32", kind, floats(np.float32), ("f32", "i16")) for kind in wide]
    cases += [
        Case(op, "f32", "!quant.uniform<i32:f32, 0.001:7>", floats(np.float32), ("f32", "i32")),
        Case(op, "f64", "!quant.uniform<i8:f64, 0.3:2>", floats(np.float64), ("f64", "i8")),
        Case(op, "f16", "!quant.uniform<i8:f16, 0.3:2>", floats(np.float16), ("f16", "i8")),
        Case(op, "f32", BLOCKS, floats(np.float32)[:64], ("f32", "i8")),
    ]
    assert compare(cases, "lower-quant-ops") > 8000


def test_dequantize_all_codes():
    cases = [Case("dcast %x", kind, "f32", every_code(kind), ("i8", "f32")) for kind in ALL]
    whole = np.arange(-(1 << 15), 1 << 15).astype(np.int16).reshape(-1, 4)
    rng = np.random.default_rng(2)
    ends = rng.integers(-(1 << 31), 1 << 31, (64, 4)).astype(np.int32)
    cases += [
        Case("dcast %x", "!quant.uniform<i16:f32, 0.01:-9>", "f32", whole[:4096], ("i16", "f32")),
        Case("dcast %x", "!quant.uniform<i32:f32, 0.01:-9>", "f32", ends, ("i32", "f32")),
        Case("dcast %x", "!quant.uniform<i8:f64, 0.3:2>", "f64", codes(-128, 127), ("i8", "f64")),
        Case("dcast %x", "!quant.uniform<i8:f16, 0.3:2>", "f16", codes(-128, 127), ("i8", "f16")),
    ]
    compare(cases, "lower-quant-ops")


def refusals(case: Case) -> int:
    """How many rescales `expand-rescale` leaves in place under `exact`."""
    ctx = new_context()
    module = read_module(program([case]), ctx)
    PassManager(ctx, PassRegistry().build(parse_pipeline("expand-rescale"))).run(module)
    return sum(op.name == "quant.rescale" for op in module.walk())
