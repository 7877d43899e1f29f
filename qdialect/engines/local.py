"""What an engine is that runs modules in this process; the interpreter is one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from xdsl.dialects.builtin import ModuleOp

from qdialect.ir.context import QContext

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]
    Run = Callable[[Mapping[str, Array]], dict[str, Array]]


class LocalEngine(Protocol):
    """Something that runs modules of ours."""

    @property
    def name(self) -> str:
        """The name in `engines.table.ENGINES`."""
        ...

    def missing(self) -> str | None:
        """What is not installed, or None."""
        ...

    def open(self, module: ModuleOp, ctx: QContext, *, source: Path | None, optimize: bool) -> Run:
        """A function from inputs to outputs, both by name; `source` is the file that the
        module says the same as."""
        ...


class Numpy:
    """The reference interpreter."""

    name = "numpy"

    def missing(self) -> str | None:
        """None: it needs no packages."""
        return None

    def open(self, module: ModuleOp, ctx: QContext, *, source: Path | None, optimize: bool) -> Run:
        """The interpreter on `module`; `source` and `optimize` do not matter."""
        from qdialect.interpreter import Interpreter, output_names
        from qdialect.interpreter.kernels import KEPT_NODES

        interpreter = Interpreter(ctx, module, functions=KEPT_NODES)
        names = output_names(interpreter.function())

        def run(inputs: Mapping[str, Array]) -> dict[str, Array]:
            return dict(zip(names, interpreter.run(inputs), strict=True))

        return run
