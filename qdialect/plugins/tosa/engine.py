"""The reference model of TOSA, by Arm: what the specification means, run."""

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


class TosaReference:
    """`tosa-opt` writes the flatbuffer, `tosa_reference_model` runs it."""

    name = "tosa-reference"

    def missing(self) -> str | None:
        """The command that is not found, or None."""
        needed = ("tosa-opt", "tosa_reference_model")
        return ", ".join(c for c in needed if not tools.find(c, self.name)) or None

    def run(self, program: Program, samples: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """Run each sample in the reference model; InputError if it fails."""
        opt = tools.command("tosa-opt", self.name)
        model = tools.command("tosa_reference_model", self.name)
        with tools.workspace(self.name) as folder:
            (folder / "m.mlir").write_text(program.text, encoding="utf-8")
            serialize = f"--tosa-serialize=tosa-flatbuffer-filename={folder / 'm.tosa'}"
            tools.execute([opt, "m.mlir", serialize], engine=self.name, folder=folder)
            return [self._sample(model, program, sample, folder) for sample in samples]

    def _sample(
        self, model: str, program: Program, sample: Sequence[Array], folder: Path
    ) -> list[Array]:
        inputs = program.checked(sample)
        for index, array in enumerate(inputs):
            np.save(folder / f"x{index}.npy", array)
        indices = range(len(inputs))
        taken = range(len(program.results))
        # A value that is returned twice has one name there.
        apart = sorted(set(program.first))
        names = (
            [f"TosaInput_{i}" for i in indices],
            [f"TosaOutput_{apart.index(first)}" for first in program.first],
        )
        tools.execute(
            [
                model,
                f"--tosa_file={folder / 'm.tosa'}",
                f"--flatbuffer_dir={folder}",
                f"--output_dir={folder}",
                f"--ifm_name={','.join(names[0])}",
                f"--ifm_file={','.join(f'x{i}.npy' for i in indices)}",
                f"--ofm_name={','.join(names[1])}",
                f"--ofm_file={','.join(f'y{i}.npy' for i in taken)}",
                "--tosa_level=NONE",
            ],
            engine=self.name,
            folder=folder,
        )
        return [
            np.load(folder / f"y{i}.npy").astype(kind.dtype).reshape(kind.shape)
            for i, kind in enumerate(program.results)
        ]
