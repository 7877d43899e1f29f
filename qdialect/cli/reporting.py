"""`--report`: what was measured on a few samples, and the page written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qdialect.cli.execution import main_function
from qdialect.cli.files import save_text, writable
from qdialect.cli.layers import compare_layers
from qdialect.cli.samples import draw, suitable
from qdialect.errors import QError
from qdialect.report.layout import require_layout
from qdialect.report.page import Contents, LayerError, report_page

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.api import Model
    from qdialect.context import QContext
    from qdialect.targets.base import Target

    Arrays = Mapping[str, NDArray[Any]]

_SAMPLES = 2


def report_path(name: str | None) -> Path | None:
    """Where to write the report; an error now if that could not be done later."""
    if name is None:
        return None
    path = writable(name, (".html",))
    require_layout()
    return path


def write_comparison(
    path: Path, before: Model, after: Model, target: Target, inputs: Arrays | None = None
) -> None:
    """The report of what was done to a model, with what it did to values."""
    save_text(path, comparison_page(before, after, target, inputs))


def comparison_page(
    before: Model, after: Model, target: Target, inputs: Arrays | None = None
) -> str:
    """The page of `write_comparison`."""
    contents = Contents(
        f"{_name(before)}, before and after",
        f"Optimized by qdialect {_version()} for {target.name}.",
        (before.module, _for_target(before, target)),
        (after.module, _for_target(after, target)),
    )
    try:
        contents.layers, contents.measured = _layers(before, after, inputs)
    except QError as error:
        contents.problem = f"Values could not be compared: {error.message}."
    return report_page(contents)


def write_inspection(path: Path, model: Model) -> None:
    """The report of one model."""
    from qdialect.targets.installed import get_target

    target = get_target("onnxruntime")
    contents = Contents(
        _name(model),
        f"Looked at by qdialect {_version()}; prices of {target.name}.",
        (model.module, _for_target(model, target)),
    )
    save_text(path, report_page(contents))


def _name(model: Model) -> str:
    if model.source is not None:
        return model.source.name
    name = model.module.sym_name
    return name.data if name is not None else "module"


def _version() -> str:
    import qdialect

    return qdialect.__version__


def _for_target(model: Model, target: Target) -> QContext:
    session = model.ctx.clone()
    session.remarks = model.ctx.remarks
    session.target = target
    return session


def _layers(before: Model, after: Model, inputs: Arrays | None) -> tuple[Sequence[LayerError], str]:
    """Every value that both have, compared, and how."""
    from importlib.util import find_spec

    from qdialect.cli.keyed_values import keyed_values

    engine = "onnxruntime" if find_spec("onnxruntime") and find_spec("onnx") else "numpy"
    given = [inputs] if inputs is not None else _drawn(before, engine)
    pairs = [(keyed_values(before, engine, x), keyed_values(after, engine, x)) for x in given]
    found = [
        LayerError(f.key, f.type, f.sqnr_db, f.max_abs, f.max_steps, f.clipped)
        for f in compare_layers(pairs)
    ]
    what = "the inputs given" if inputs is not None else f"{len(given)} random inputs"
    where = {"numpy": "the reference interpreter", "onnxruntime": "ONNX Runtime as written"}
    return found, f"{len(found)} values on {what}, in {where[engine]}"


def _drawn(model: Model, engine: str) -> list[Arrays]:
    from qdialect.cli.keyed_values import keyed_values

    function = main_function(model)
    options = suitable(function, lambda inputs: keyed_values(model, engine, inputs))
    # Even seeds: spread over the range of the input, not gathered at boundaries.
    return [draw(function, 2 * n, **options) for n in range(_SAMPLES)]
