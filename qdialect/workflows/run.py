"""Running a model in an engine: inputs and outputs by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from qdialect.engines.installed import local_engine, require
from qdialect.interpreter import argument_names, output_names

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.workflows.model import Model

    Array = NDArray[Any]
    Run = Callable[[Mapping[str, Array]], dict[str, Array]]


def run(model: Model, inputs: Mapping[str, Array], engine: str) -> dict[str, Array]:
    """See `qdialect.api.run`."""
    import numpy as np

    from qdialect.interpreter.narrow import as_laid_out, as_narrow, is_narrow

    arrays = {name: np.asarray(array) for name, array in inputs.items()}
    outputs = open_engine(model, engine)({name: as_laid_out(a) for name, a in arrays.items()})
    if not any(map(is_narrow, arrays.values())):
        return outputs
    function = model.function()
    types = dict(zip(output_names(function), function.function_type.outputs, strict=True))
    return {name: as_narrow(array, types[name]) for name, array in outputs.items()}


def open_engine(model: Model, engine: str, *, optimize: bool = False) -> Run:
    """A function from inputs to outputs, both by name.

    For an engine that takes programs, a model that is not in dialects of MLIR alone is made an
    integer network first (`qopt optimize --target tosa --numerics bounded`) and lowered to TOSA.
    UnsupportedError where that has no TOSA, InputError (`no-engine`) without the engine.
    For LiteRT a model that is no such file is written as one (`convert-nn-to-tflite`).

    `optimize` lets ONNX Runtime rewrite the graph; without it the graph runs as written.
    """
    require(engine)
    local = local_engine(engine)
    if local is not None:
        if engine.startswith("litert") and not _is_tflite(model):
            return _in_litert(model, engine)
        return local.open(model.module, model.ctx, source=model.source, optimize=optimize)
    from qdialect.workflows.lower import integer_model, ready_model
    from qdialect.workflows.run_program import InEngine

    return InEngine(ready_model(integer_model(model)), engine)


def _is_tflite(model: Model) -> bool:
    return model.source is not None and model.source.suffix in (".tflite", ".circle")


def _in_litert(model: Model, engine: str) -> Run:
    from qdialect.plugins.tflite.engine import DEFAULT, InChild, by_name
    from qdialect.workflows.model import write_tflite

    kernels = DEFAULT if engine == "litert" else engine
    function = model.function()
    data = write_tflite(model, "tflite", kernels).for_litert
    loaded = InChild(data, kernels, name=f"the file of '{function.sym_name.data}'")
    return by_name(loaded, argument_names(function), output_names(function))


def run_all(run: Run, samples: Sequence[Mapping[str, Array]]) -> Iterator[dict[str, Array]]:
    """Outputs sample by sample; an engine that compiles does so once."""
    all_at_once = getattr(run, "all", None)  # `run_program.InEngine` has it
    yield from map(run, samples) if all_at_once is None else all_at_once(samples)
