"""The form an ONNX model is written in: by the prices of the target, or by the clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, thread_time
from typing import TYPE_CHECKING, Any

from qdialect.cli.execution import main_function
from qdialect.cli.samples import draw, suitable
from qdialect.errors import QError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from xdsl.dialects.builtin import ModuleOp

    from qdialect.api import Form, Model
    from qdialect.targets.base import Target

    Arrays = Mapping[str, NDArray[Any]]

FORMS: tuple[Form, ...] = ("qdq", "qoperator")
_WORTH = 0.95
"""QDQ runs anywhere, so another form has to be cheaper by more than measurements differ."""

SECONDS = 3.0
"""How long models are timed in turns."""
_NOISE = 1.02
"""Medians this close are the same."""


def cheapest_form(module: ModuleOp, target: Target) -> Form:
    """The form in which the kernels of the module's ops cost less; integer kernels where the
    runtime would replace quantizations of the QDQ form by others."""
    from qdialect.backends.onnx.kernels import is_merged

    qdq = kernels = 0.0
    for op in module.walk():
        if target.name == "onnxruntime" and is_merged(op):
            return "qoperator"
        prices = target.form_prices(op)
        if prices is not None:
            qdq, kernels = qdq + prices[0], kernels + prices[1]
    return "qoperator" if kernels < _WORTH * qdq else "qdq"


@dataclass(frozen=True)
class Timing:
    """Median milliseconds of processor time of the original and of each form; the fastest of
    them (None: the original), and why nothing was timed."""

    original: float
    forms: Mapping[str, float]
    chosen: Form | None
    reason: str = ""

    def __str__(self) -> str:
        if self.reason:
            return f"not timed: {self.reason}"
        parts = [f"original {self.original:.3g} ms"]
        parts += [f"{form} {self.forms[form]:.3g} ms" for form in self.forms]
        said = f"timed in ONNX Runtime, one thread: {', '.join(parts)}"
        if self.chosen is None:
            return f"{said}; neither form is faster, so the original is what is written"
        return f"{said}; {self.chosen} is written"


def timed(before: Model, after: Model, *, preferred: Form, inputs: Arrays | None) -> Timing:
    """Run the original and both forms in turns, as ONNX Runtime optimizes them."""
    from qdialect.backends.onnx import OrtEngine, export_model

    function = main_function(before)
    engines: dict[str, OrtEngine] = {}
    try:
        source: Any = before.source
        if source is None or Path(source).suffix != ".onnx":
            source = export_model(before.module, before.ctx)
        engines["original"] = OrtEngine(source, optimize=True)
        for form in FORMS:
            model = export_model(after.module, after.ctx, form=form)
            engines[form] = OrtEngine(model, optimize=True)
        given = inputs
        if given is None:
            given = draw(function, 0, **suitable(function, engines["original"].run))
        medians = _medians(engines, given, SECONDS)
    except QError as error:
        return Timing(0.0, {}, preferred, reason=error.message)
    original = medians.pop("original")
    fastest = min(medians.values())
    chosen: Form | None = next(
        form for form in (preferred, *FORMS) if medians[form] <= fastest * _NOISE
    )
    if medians[chosen] > original * _NOISE and before.source is not None:
        chosen = None
    return Timing(original, medians, chosen)


def keep_model(model: Model, path: Path) -> None:
    """Write the original: byte for byte where it is one file."""
    from qdialect import api
    from qdialect.backends.onnx.engine import is_one_file
    from qdialect.weights import replacing

    source = model.source
    if source is None or source.suffix != ".onnx" or not is_one_file(source):
        api.save(model, path)
        return
    data = source.read_bytes()
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def _medians(engines: Mapping[str, Any], inputs: Arrays, seconds: float) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in engines}
    for engine in engines.values():
        engine.run(inputs)
    names, end, turn = list(engines), monotonic() + seconds, 0
    while monotonic() < end or turn < 5:
        for name in names:
            start = thread_time()
            engines[name].run(inputs)
            times[name].append(1e3 * (thread_time() - start))
        names, turn = [*names[1:], names[0]], turn + 1
    return {name: sorted(own)[len(own) // 2] for name, own in times.items()}
