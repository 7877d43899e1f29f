"""Running functions of a module with mlir-opt and mlir-runner, many in one process."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from quant_support import find_mlir_opt

PIPELINE = (
    "builtin.module(func.func(convert-elementwise-to-linalg,canonicalize,cse),"
    "one-shot-bufferize{bufferize-function-boundaries=true "
    "unknown-type-conversion=identity-layout-map "
    "function-boundary-type-conversion=identity-layout-map},"
    "func.func(convert-linalg-to-loops,lower-affine),convert-scf-to-cf,"
    "expand-strided-metadata,lower-affine,convert-math-to-libm,convert-to-llvm,"
    "reconcile-unrealized-casts)"
)
SKIP = "no mlir-opt 22: set QDIALECT_MLIR_OPT, or install qdialect[mlir]"

_INTEGERS = {"i8": 8, "i16": 16, "i32": 32, "i4": 8}
_FLOATS = {"f32": "i32", "f64": "i64", "f16": "i16"}


@dataclass(frozen=True)
class Call:
    """`function` applied to `array`, from and to rank-1 or rank-2 tensors of these types."""

    function: str
    array: NDArray[np.generic]
    source: str
    target: str


def tools() -> tuple[str, str]:
    """mlir-opt and mlir-runner; skips the test without them."""
    opt = find_mlir_opt()
    runner = Path(opt).with_name("mlir-runner") if opt else None
    if opt is None or runner is None or not runner.exists():
        pytest.skip(SKIP)
    return opt, str(runner)


def run_calls(text: str, calls: list[Call]) -> list[NDArray[np.int64]]:
    """The results of `calls` on the functions in `text` (a module in generic form): integers
    as they are stored, floats as their bits."""
    opt, runner = tools()
    body = text.strip()
    assert body.endswith("}) : () -> ()")
    main = "\n".join(_call(index, call) for index, call in enumerate(calls))
    program = (
        body.removesuffix("}) : () -> ()")
        + "func.func private @printMemrefI64(tensor<*xi64>) "
        + "attributes {llvm.emit_c_interface}\n"
        + f"func.func @main() {{\n{main}\n  return\n}}\n"
        + "}) : () -> ()"
    )
    lowered = _run([opt, "--allow-unregistered-dialect", f"--pass-pipeline={PIPELINE}"], program)
    libraries = Path(opt).parent.parent / "lib"
    shared = ",".join(str(libraries / f"libmlir_{name}runner_utils.so") for name in ("", "c_"))
    printed = _run(
        [runner, "-e", "main", "-entry-point-result=void", f"-shared-libs={shared}"], lowered
    )
    return [_numbers(part) for part in printed.split("Unranked Memref")[1:]]


def _run(command: list[str], text: str) -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]
    return done.stdout


def _numbers(text: str) -> NDArray[np.int64]:
    data = text.partition("data =")[2]
    return np.array([int(n) for n in re.findall(r"-?\d+", data)], np.int64)


def _call(index: int, call: Call) -> str:
    shape = "x".join(map(str, call.array.shape)) + "x"
    source, target = f"tensor<{shape}{call.source}>", f"tensor<{shape}{call.target}>"
    bits = _FLOATS.get(call.target, call.target)
    lines = [
        f"  %x{index} = arith.constant {_dense(call.array, call.source)} : {source}",
        f"  %y{index} = func.call @{call.function}(%x{index}) : ({source}) -> {target}",
    ]
    value = f"%y{index}"
    if call.target in _FLOATS:
        lines.append(f"  %b{index} = arith.bitcast {value} : {target} to tensor<{shape}{bits}>")
        value = f"%b{index}"
    wide = f"tensor<{shape}i64>"
    if bits != "i64":
        lines.append(f"  %w{index} = arith.extsi {value} : tensor<{shape}{bits}> to {wide}")
        value = f"%w{index}"
    lines += [
        f"  %u{index} = tensor.cast {value} : {wide} to tensor<*xi64>",
        f"  func.call @printMemrefI64(%u{index}) : (tensor<*xi64>) -> ()",
    ]
    return "\n".join(lines)


def _dense(array: NDArray[np.generic], kind: str) -> str:
    if kind in _INTEGERS:
        return f"dense<{array.tolist()}>"
    wanted = {"f32": np.float32, "f64": np.float64, "f16": np.float16}[kind]
    digits = 2 * np.dtype(wanted).itemsize
    unsigned = array.astype(wanted).view(f"u{digits // 2}")
    return f"dense<{_nested(unsigned.tolist(), digits)}>"


def _nested(value: object, digits: int) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_nested(part, digits) for part in value)}]"
    return f"0x{value:0{digits}X}"
