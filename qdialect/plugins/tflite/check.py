"""TFLite files in LiteRT, for checks and races: arrays by the names of a function's arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qdialect.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray
    from xdsl.dialects.func import FuncOp

    from qdialect.plugins.tflite.engine import InChild
    from qdialect.plugins.tflite.files import Kernels, WrittenTflite

    Array = NDArray[Any]


@dataclass(frozen=True)
class InLitert:
    """A file that LiteRT has loaded in a child process."""

    model: InChild

    @staticmethod
    def of_file(path: Path, kernels: Kernels) -> InLitert:
        """A file as it is; InputError where LiteRT does not load it."""
        from qdialect.plugins.tflite.engine import InChild, loadable

        return InLitert(InChild(loadable(path), kernels, name=f"'{path.name}'"))

    @staticmethod
    def of_written(written: WrittenTflite, function: FuncOp) -> InLitert:
        """A file that would be written, whose main function is `function`."""
        from qdialect.plugins.tflite.engine import InChild

        name = f"the file of '{function.sym_name.data}'"
        return InLitert(InChild(written.for_litert, written.kernels, name=name))

    def run(self, inputs: Mapping[str, Array], names: Sequence[str]) -> list[Array]:
        """The outputs, of inputs by `names`, which are in the order of the file; InputError."""
        from qdialect.interpreter.narrow import as_laid_out

        for name in inputs:
            if name not in names:
                known = ", ".join(names)
                raise InputError(f"no input '{name}' (inputs: {known})", code="bad-input")
        return [as_laid_out(y) for y in self.model.run([inputs[name] for name in names])]

    def delegated(self) -> int | None:
        """How many ops XNNPACK runs; None where LiteRT does not say."""
        nodes = self.model.nodes()
        return None if nodes is None else sum(node.delegated for node in nodes)

    def close(self) -> None:
        """End the process."""
        self.model.child.close()
