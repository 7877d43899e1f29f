"""IREE, its llvm-cpu backend."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from qdialect.plugins.common import tools
from qdialect.plugins.common.program import Program

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_COMPILE = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=generic",
)


class Iree:
    """`iree-compile` once, `iree-run-module` for every sample."""

    name = "iree"

    def missing(self) -> str | None:
        """The commands of IREE that are not found, or None."""
        absent = [c for c in ("iree-compile", "iree-run-module") if not tools.find(c, self.name)]
        return ", ".join(absent) or None

    def run(self, program: Program, samples: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """Compile the program for the CPU and run each sample; InputError if IREE fails."""
        compiler = tools.command("iree-compile", self.name)
        runner = tools.command("iree-run-module", self.name)
        with tools.workspace(self.name) as folder:
            (folder / "m.mlir").write_text(program.text, encoding="utf-8")
            arguments = [compiler, "m.mlir", *_COMPILE, "-o", "m.vmfb"]
            tools.execute(arguments, engine=self.name, folder=folder)
            return [self._sample(runner, program, sample, folder) for sample in samples]

    def _sample(
        self, runner: str, program: Program, sample: Sequence[Array], folder: Path
    ) -> list[Array]:
        arguments = [
            runner,
            "--device=local-task",
            "--module=m.vmfb",
            f"--function={program.function}",
        ]
        for index, array in enumerate(program.checked(sample)):
            np.save(folder / f"x{index}.npy", array)
            arguments.append(f"--input=@x{index}.npy")
        arguments += [f"--output=@y{index}.npy" for index in range(len(program.results))]
        tools.execute(arguments, engine=self.name, folder=folder)
        # IREE writes signless integers as raw bytes.
        return [
            np.load(folder / f"y{index}.npy").view(kind.dtype).reshape(kind.shape)
            for index, kind in enumerate(program.results)
        ]
