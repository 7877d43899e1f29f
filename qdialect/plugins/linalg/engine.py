"""mlir-opt and mlir-runner of MLIR 22: TOSA through linalg and LLVM, just in time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from qdialect.errors import InputError
from qdialect.plugins.common import tools
from qdialect.plugins.common.program import Program, Tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_ATTACH = "tosa-attach-target{profiles=pro_int,pro_fp extensions=doubleround,int4,int16}"
_BUFFERS = (
    "one-shot-bufferize{bufferize-function-boundaries=true "
    "unknown-type-conversion=identity-layout-map "
    "function-boundary-type-conversion=identity-layout-map}"
)
PIPELINE = (
    f"builtin.module({_ATTACH},func.func(tosa-optional-decompositions,tosa-to-linalg-named,"
    "tosa-to-linalg,tosa-to-arith{include-apply-rescale=true},tosa-to-tensor,"
    "convert-elementwise-to-linalg,linalg-fuse-elementwise-ops,canonicalize,cse),"
    f"{_BUFFERS},"
    "func.func(convert-linalg-to-loops,lower-affine),convert-scf-to-cf,expand-strided-metadata,"
    "lower-affine,func.func(convert-math-to-llvm),convert-math-to-libm,convert-to-llvm,reconcile-unrealized-casts)"
)
_LIMIT = 1 << 20


class MlirRunner:
    """The inputs are constants of a `main` that prints the results."""

    name = "mlir-runner"

    def missing(self) -> str | None:
        """The commands of MLIR that are not found, or None."""
        absent = [c for c in ("mlir-opt", "mlir-runner") if not tools.find(c, "mlir")]
        return ", ".join(absent) or None

    def run(self, program: Program, samples: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """Lower the program to LLVM and run all samples at once; InputError if MLIR fails."""
        opt, runner = tools.command("mlir-opt", "mlir"), tools.command("mlir-runner", "mlir")
        library = Path(runner).parent.parent / "lib"
        shared = ",".join(
            str(library / f"lib{name}.so") for name in ("mlir_runner_utils", "mlir_c_runner_utils")
        )
        for kind in program.results:
            if int(np.prod(kind.shape)) > _LIMIT:
                raise InputError("mlir-runner prints its results: they are too large here")
        with tools.workspace(self.name) as folder:
            text = _with_main(program, [program.checked(sample) for sample in samples])
            (folder / "m.mlir").write_text(text, encoding="utf-8")
            lower = [opt, "m.mlir", f"--pass-pipeline={PIPELINE}", "-o", "l.mlir"]
            tools.execute(lower, engine=self.name, folder=folder)
            # mlir-runner does not know the attribute that says for which TOSA the module was.
            text = (folder / "l.mlir").read_text("utf-8")
            (folder / "l.mlir").write_text(_TARGET.sub("", text, count=1), encoding="utf-8")
            said = tools.execute(
                [
                    runner,
                    "l.mlir",
                    "-e",
                    "qdialect_main",
                    "-entry-point-result=void",
                    f"-shared-libs={shared}",
                ],
                engine=self.name,
                folder=folder,
            )
        return _results(said, program.results, len(samples))


_ENV = r"tosa\.target_env = #tosa\.target_env<[^<>]*>"
_TARGET = re.compile(f", {_ENV}|{_ENV}(, )?")


_PRINTED = {"i32": "printMemrefI32", "i64": "printMemrefI64"}


def _with_main(program: Program, samples: Sequence[Sequence[Array]]) -> str:
    """The module with a function that calls the one of `program` on every sample and prints."""
    lines = ['  "func.func"() <{function_type = () -> (), sym_name = "qdialect_main"}> ({']
    for n, sample in enumerate(samples):
        names: list[str] = []
        for i, (array, kind) in enumerate(zip(sample, program.arguments, strict=True)):
            name = f"%x{n}_{i}"
            lines.append(
                f'    {name} = "arith.constant"() <{{value = {_dense(array)} : {kind.text}}}> '
                f": () -> {kind.text}"
            )
            names.append(name)
        kinds = ", ".join(kind.text for kind in program.arguments)
        gives = ", ".join(kind.text for kind in program.results)
        count = len(program.results)
        lines.append(
            f'    %y{n}:{count} = "func.call"({", ".join(names)}) '
            f"<{{callee = @{program.function}}}> : ({kinds}) -> ({gives})"
        )
        for i, kind in enumerate(program.results):
            lines += _print(f"%y{n}#{i}", f"%p{n}_{i}", kind)
    lines += ['    "func.return"() : () -> ()', "  }) : () -> ()"]
    for element, function in _PRINTED.items():
        lines.append(
            f'  "func.func"() <{{function_type = (tensor<*x{element}>) -> (), '
            f'sym_name = "{function}", sym_visibility = "private"}}> ({{}}) : () -> ()'
        )
    head, brace, tail = program.text.rstrip().rpartition("})")
    if not brace:
        raise InputError("not a module in the generic form", code="engine-text")
    return "\n".join((head.rstrip("\n"), *lines, f"}}){tail}", ""))


def _print(value: str, prefix: str, kind: Tensor) -> list[str]:
    """Floats as their bits; widen to at least 32 bits, forget the shape, print."""
    lines: list[str] = []
    if kind.dtype.kind == "f":
        bits = Tensor(kind.shape, kind.dtype, f"i{kind.dtype.itemsize * 8}")
        lines.append(f'    {prefix}b = "arith.bitcast"({value}) : ({kind.text}) -> {bits.text}')
        value, kind = f"{prefix}b", bits
    element = "i64" if kind.element == "i64" else "i32"
    function = _PRINTED[element]
    wide = Tensor(kind.shape, kind.dtype, element).text
    if kind.element != element:
        lines.append(f'    {prefix}w = "arith.extsi"({value}) : ({kind.text}) -> {wide}')
        value = f"{prefix}w"
    shapeless = f"tensor<*x{element}>"
    lines.append(f'    {prefix}s = "tensor.cast"({value}) : ({wide}) -> {shapeless}')
    lines.append(f'    "func.call"({prefix}s) <{{callee = @{function}}}> : ({shapeless}) -> ()')
    return lines


def _dense(array: Array) -> str:
    if array.size == 1:
        return f"dense<{array.reshape(-1)[0]}>" if array.dtype.kind == "i" else _hex(array)
    return _hex(array)


def _hex(array: Array) -> str:
    if array.dtype == np.bool_:
        listed = str(array.tolist()).lower()
        return f"dense<{listed}>"
    return f'dense<"0x{array.tobytes().hex().upper()}">'


_ITEM = re.compile(r"-?\d+")


def _results(said: str, kinds: Sequence[Tensor], samples: int) -> list[list[Array]]:
    parts = said.split("Unranked Memref ")[1:]
    if len(parts) != len(kinds) * samples:
        raise InputError(
            f"mlir-runner printed {len(parts)} results, not {len(kinds) * samples}",
            code="engine-failed",
        )
    found: list[list[Array]] = []
    for n in range(samples):
        outputs: list[Array] = []
        for kind, part in zip(kinds, parts[n * len(kinds) : (n + 1) * len(kinds)], strict=True):
            numbers = _ITEM.findall(part.partition("data =")[2])
            array = np.array(numbers, np.int64)
            if kind.dtype.kind == "f":
                array = array.astype(f"i{kind.dtype.itemsize}").view(kind.dtype)
            outputs.append(array.astype(kind.dtype).reshape(kind.shape))
        found.append(outputs)
    return found
