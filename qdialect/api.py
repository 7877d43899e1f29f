"""The embedding API: models in, models out, no global state, nothing printed.

Every function raises `QError` (see `qdialect.errors`) for what the caller or the
input got wrong.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from qdialect.errors import InputError, UsageError, Where

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from xdsl.dialects.builtin import ModuleOp

    from qdialect.cli.checked import Checked
    from qdialect.cli.inspection import Inspection
    from qdialect.cli.notebook import Differences
    from qdialect.cli.quantization import Quantized
    from qdialect.context import QContext
    from qdialect.engines.table import EngineName
    from qdialect.pipeline.manager import Instrumentation
    from qdialect.profile.record import Channels, Profile
    from qdialect.quantization.recipe import Recipe
    from qdialect.targets.base import Target

Engine = Literal["numpy", "onnxruntime"]
"""Engines in which values inside of a model can be observed; `EngineName` are all."""
Form = Literal["qdq", "qoperator"]
TextVersion = Literal["v22", "v24"]
"""The MLIR release whose spelling of quant types is written; see docs/howto."""


@dataclass
class Model:
    """A module with its session: weights, target, and the remarks of what was done.

    `source` is the file it was loaded from, as long as it has not been changed.
    """

    module: ModuleOp
    ctx: QContext
    source: Path | None = None

    def __str__(self) -> str:
        from qdialect.formats.mlir.write import module_text

        return module_text(self.module, self.ctx)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from qdialect.cli.notebook import model_html

        return model_html(self)

    def text(self, text_version: TextVersion | None = None) -> str:
        """The MLIR text, with quant types spelled for a release (see `save`)."""
        from qdialect.formats.mlir.write import module_text

        return module_text(self.module, self.ctx, text_version=_known_version(text_version))


def load(
    path: str | os.PathLike[str],
    ctx: QContext | None = None,
    *,
    dims: Mapping[str, int] | None = None,
    typical_dims: Mapping[str, int] | None = None,
) -> Model:
    """The model in a `.onnx`, `.mlir` or `.qmod` file, verified.

    `dims` are numbers that symbolic extents of its inputs get, by name; `typical_dims` numbers
    they are only priced as (default: 1 in a first dimension, 128 in others).

    `ctx` is a session of your own, with your dialects and behaviors registered; without
    one, a new session that installed plug-ins extend, and that keeps ops it does not know.
    """
    from qdialect.pipeline.plugins import Plugins

    source = Path(path)
    session = Plugins().session(allow_unregistered=True) if ctx is None else ctx
    if source.suffix == ".onnx":
        from qdialect.formats.mlir.read import verify_module
        from qdialect.formats.onnx.read import import_model

        module = import_model(source, session, dims)
        verify_module(module, session)
    elif source.suffix in (".mlir", ".qmod"):
        from qdialect.formats.mlir.read import load_module

        module = load_module(source, session)
        if dims:
            from qdialect.ops.named_extents import bind_extents

            bind_extents(module, dims)
    else:
        raise UsageError(f"cannot tell the kind of '{source}': use .onnx, .mlir or .qmod")
    if typical_dims:
        from qdialect.ops.named_extents import price_extents

        price_extents(module, typical_dims)
    return Model(module, session, source)


def save(
    model: Model,
    path: str | os.PathLike[str],
    *,
    form: Form = "qdq",
    inline_weights: bool = False,
    runtime: str | None = None,
    text_version: TextVersion | None = None,
) -> None:
    """Write the model as `.onnx` (in `form`) or as `.mlir` with its weights beside it.

    An ONNX model that had weights beside it, or has more than 2 GB, gets them in `path` +
    ".data"; `inline_weights` puts all into one file where that can hold it.

    "qdq", the default whatever the model was optimized for, means the same bit for bit
    on any runtime; "qoperator" uses the integer kernels of ONNX Runtime.  `runtime` is
    the oldest version of it that the file is for ("1.23"; default: the installed one).
    `text_version` is the MLIR release whose spelling of quant types `.mlir` gets: "v22"
    refuses types it does not know; by default those are spelled as in "v24".
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise InputError("no such folder", where=Where(str(target.parent)), code="unwritable-file")
    if target.suffix == ".onnx":
        from qdialect.formats.onnx.write import keeps_weights_beside, save_model, write_model

        written = write_model(model.module, model.ctx, form=form, runtime=runtime)
        beside = keeps_weights_beside(model.module) and not inline_weights
        save_model(written, target, weights_beside=beside)
    elif target.suffix in (".mlir", ".qmod"):
        from qdialect.formats.mlir.write import save_module

        save_module(
            model.module,
            model.ctx,
            target,
            inline_weights=inline_weights,
            text_version=_known_version(text_version),
        )
    else:
        raise UsageError(f"cannot tell the kind of '{target}': use .onnx, .mlir or .qmod")


def run_passes(
    model: Model,
    pipeline: str,
    *,
    target: str | Target | None = None,
    verify_each: bool = True,
    verify_numerics: int = 0,
    inputs: Mapping[str, NDArray[Any]] | None = None,
    instrumentation: Sequence[Instrumentation] = (),
) -> Model:
    """A new model with the passes of `pipeline` applied; the given one stays as it is.

    With `verify_numerics` each pass is held against the interpreter on so many random inputs
    (half of them at boundaries) and on `inputs`, by argument name: InputError (`numerics`) that
    names the rewrite which changed more than its contract allows.  The remarks of the passes
    are in the new model's `ctx.remarks`.
    """
    from qdialect.pipeline.manager import PassManager
    from qdialect.pipeline.plugins import Plugins
    from qdialect.pipeline.text import parse_pipeline

    passes = Plugins().registry().build(parse_pipeline(pipeline))
    ctx = model.ctx.clone()
    if target is not None:
        ctx.target = _target(target)
    module = model.module.clone()
    watchers = list(instrumentation)
    if verify_numerics:
        from qdialect.validation.numerics_check import NumericsCheck

        watchers.append(NumericsCheck(verify_numerics, inputs=inputs))
    PassManager(ctx, passes, verify_each=verify_each, instrumentation=watchers).run(module)
    return Model(module, ctx)


def optimize(
    model: Model,
    target: str | Target = "onnxruntime",
    numerics: str = "exact",
    *,
    check: int = 0,
    verify_each: bool = False,
    instrumentation: Sequence[Instrumentation] = (),
) -> Model:
    """A new model that computes the same (within `numerics`) and runs faster on `target`.

    With `check` it is held against the given one on so many random inputs (see `qdialect.check`).
    """
    from qdialect.cli.bodies import with_bodies
    from qdialect.passes.pipelines import optimize_pipeline

    chosen = _target(target)
    pipeline = optimize_pipeline(chosen, check_numerics(numerics))

    start = with_bodies(model, pipeline, chosen)
    optimized = run_passes(
        start.model,
        pipeline,
        target=chosen,
        verify_each=verify_each,
        instrumentation=instrumentation,
    )
    optimized.ctx.remarks.remarks += start.remarks
    if check:
        from qdialect.cli.judge import check_optimized

        check_optimized(model, optimized, check)
    return optimized


def check(
    before: Model,
    after: Model,
    samples: int = 2,
    *,
    inputs: Mapping[str, NDArray[Any]] | None = None,
    form: Form | None = "qdq",
) -> Checked:
    """Hold an optimized model against the original, on `samples` random inputs or on
    `inputs`: what was compared, or InputError (`outside-contract`) where an output is
    further off than the rewrites that fired allow.

    What is compared is the ONNX model in `form`, a QOperator one as its QDQ meaning; with
    None the module itself.
    """
    from qdialect.cli.judge import check_optimized

    return check_optimized(before, after, samples, inputs=inputs, form=form)


def run(
    model: Model, inputs: Mapping[str, NDArray[Any]], engine: EngineName = "numpy"
) -> dict[str, NDArray[Any]]:
    """All outputs by name.

    Arrays of types that numpy lacks are taken as the package `ml_dtypes` has them, and given so
    if one was taken; else 4-bit integers are one to a byte, bf16 is in float32, and smaller
    floats are their bits.
    """
    import numpy as np

    from qdialect.cli.execution import open_engine
    from qdialect.engines.local import output_names
    from qdialect.reference import Interpreter
    from qdialect.reference.narrow import as_laid_out, as_narrow, is_narrow

    arrays = {name: np.asarray(array) for name, array in inputs.items()}
    outputs = open_engine(model, engine)({name: as_laid_out(a) for name, a in arrays.items()})
    if not any(map(is_narrow, arrays.values())):
        return outputs
    function = Interpreter(model.ctx, model.module).function()
    types = dict(zip(output_names(function), function.function_type.outputs, strict=True))
    return {name: as_narrow(array, types[name]) for name, array in outputs.items()}


def calibrate(
    model: Model,
    data: str | os.PathLike[str],
    *,
    engine: Engine = "numpy",
    channels: Channels = "none",
    components: bool = True,
    whole_files: bool = False,
) -> Profile:
    """What the values of a float model are on a data set: an .npz or .npy file or a folder
    of them (see `qdialect.profile.data`), for `qdialect.profile.file` to save.

    `channels` says what is kept of single channels; with `components` the pieces that
    composite ops would be lowered to are observed too.
    """
    from qdialect.cli.calibration import calibrate, new_profile, open_data
    from qdialect.profile.record import Settings

    samples = open_data(model, Path(data), whole_files)
    start = new_profile(model, Settings(engine, channels, components))
    return calibrate(model, samples, start, range(len(samples)))


def quantize(
    model: Model,
    data: str | os.PathLike[str] | None = None,
    *,
    profile: Profile | None = None,
    recipe: Recipe | None = None,
    target: str | Target = "onnxruntime",
    numerics: str | None = None,
    engine: Engine | None = None,
    keep_sensitive: int = 0,
    require_all: bool = False,
    whole_files: bool = False,
) -> Quantized:
    """A float model as a quantized one for `target`, calibrated on `data` (as `calibrate`
    takes it) or by a profile of the model, and what was left float and why.

    `keep_sensitive` leaves that many ops float, those whose quantization alone costs most
    (it takes `data`).  Without a `recipe` the data also decides how ranges are chosen;
    `engine` runs the model (default: ONNX Runtime where installed).  `numerics` defaults to
    `exact`, or to `ties` for a target that rounds ties another way than casts do.
    """
    from qdialect.cli.quantization import Quantization
    from qdialect.quantization.recipe import Recipe

    runs_on = _target(target)
    work = Quantization(
        model,
        recipe or Recipe.of_target(runs_on),
        runs_on,
        None if numerics is None else check_numerics(numerics),
        data=None if data is None else Path(data),
        profile=profile,
        engine=engine,
        whole_files=whole_files,
        require_all=require_all,
        search=recipe is None,
    )
    return work.run(keep_sensitive)


def diff(
    a: Model,
    b: Model,
    inputs: Mapping[str, NDArray[Any]] | None = None,
    *,
    samples: int = 1,
    engine: EngineName = "numpy",
) -> Differences:
    """How far the outputs of `b` are from those of `a`, the worst over all inputs.

    Without `inputs`, `samples` random ones are drawn.
    """
    from qdialect.cli.execution import compare_models
    from qdialect.cli.notebook import Differences

    return Differences(compare_models(a, b, inputs, samples=samples, engine=engine))


def inspect(model: Model) -> Inspection:
    """What is in the model: ops, quantization, unknown ops, interface, weights."""
    from qdialect.cli.inspection import inspect_module

    return inspect_module(model.module, model.ctx)


def check_numerics(level: str) -> str:
    """`level`, if it is a contract class; UsageError (`unknown-level`) otherwise."""
    from qdialect.numerics.contract import level_named

    return str(level_named(level))


def _known_version(version: str | None) -> str | None:
    if version not in (None, "v22", "v24"):
        raise UsageError(f"text_version is v22 or v24, not '{version}'", code="unknown-version")
    return version


def _target(target: str | Target) -> Target:
    if not isinstance(target, str):
        return target
    from qdialect.targets.installed import get_target

    return get_target(target)
