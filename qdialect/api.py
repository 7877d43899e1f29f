"""The embedding API: models in, models out, no global state, nothing printed.

Every function raises `QError` (see `qdialect.errors`) for what the caller or the
input got wrong. The work is done in `qdialect.workflows`, which is imported when a function
is called.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from qdialect.workflows.model import (
    Form,
    Model,
    TextVersion,
    from_torch,
    load,
    resolved_target,
    run_passes,
    save,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch.fx import GraphModule

    from qdialect.engines.table import EngineName
    from qdialect.pipeline.manager import Instrumentation
    from qdialect.plugins.torch.values import LayerErrors
    from qdialect.quantizer.profile.record import Channels, Profile
    from qdialect.quantizer.recipe import Recipe
    from qdialect.targets.base import Target
    from qdialect.workflows.check import Checked
    from qdialect.workflows.compare import Differences
    from qdialect.workflows.inspect import Inspection
    from qdialect.workflows.quantize import Quantized

Engine = Literal["numpy", "onnxruntime"]
"""Engines in which values inside of a model can be observed; `EngineName` are all."""

__all__ = [
    "Engine",
    "Form",
    "Model",
    "TextVersion",
    "calibrate",
    "check",
    "check_numerics",
    "compare_torch",
    "diff",
    "from_torch",
    "inspect",
    "load",
    "optimize",
    "quantize",
    "run",
    "run_passes",
    "save",
    "to_torch",
]


def optimize(
    model: Model,
    target: str | Target = "onnxruntime",
    numerics: str | None = None,
    *,
    check: int = 0,
    verify_each: bool = False,
    instrumentation: Sequence[Instrumentation] = (),
) -> Model:
    """A new model that computes the same (within `numerics`) and runs faster on `target`.

    Without `numerics` it is `exact`, but where quantizes multiply by rounded reciprocals, as
    PyTorch's do, and the target divides: they do too, which is `ties`.
    With `check` it is compared with the given one on so many random inputs (see `qdialect.check`).
    """
    from qdialect.workflows import optimize as work

    return work.optimize(
        model,
        resolved_target(target),
        None if numerics is None else check_numerics(numerics),
        check=check,
        verify_each=verify_each,
        instrumentation=instrumentation,
    )


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
    from qdialect.workflows.check import check_optimized

    return check_optimized(before, after, samples, inputs=inputs, form=form)


def run(
    model: Model, inputs: Mapping[str, NDArray[Any]], engine: EngineName = "numpy"
) -> dict[str, NDArray[Any]]:
    """All outputs by name.

    Arrays of types that numpy lacks are taken as the package `ml_dtypes` has them, and given so
    if one was taken; else 4-bit integers are one to a byte, bf16 is in float32, and smaller
    floats are their bits.
    """
    from qdialect.workflows import run as work

    return work.run(model, inputs, engine)


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
    of them (see `qdialect.quantizer.profile.data`), for `qdialect.quantizer.profile.file` to save.

    `channels` says what is kept of single channels; with `components` the pieces that
    composite ops would be lowered to are observed too.
    """
    from qdialect.quantizer.profile.record import Settings
    from qdialect.workflows import calibrate as work

    samples = work.open_data(model, Path(data), whole_files)
    start = work.new_profile(model, Settings(engine, channels, components))
    return work.calibrate(model, samples, start, range(len(samples)))


def quantize(
    model: Model,
    data: str | os.PathLike[str] | None = None,
    *,
    profile: Profile | None = None,
    profile_of_another_model: bool = False,
    recipe: Recipe | None = None,
    target: str | Target = "onnxruntime",
    numerics: str | None = None,
    engine: Engine | None = None,
    keep_sensitive: int = 0,
    require_all: bool = False,
    whole_files: bool = False,
    effort: int = 0,
) -> Quantized:
    """A float model as a quantized one for `target`, calibrated on `data` (as `calibrate`
    takes it) or by a profile of the model, and what was left float and why.  With
    `profile_of_another_model` what of the profile has the same key and shape is used.

    `keep_sensitive` leaves that many ops float, those whose quantization alone costs most
    (it takes `data`).  Without a `recipe` the data also decides how ranges are chosen;
    `engine` runs the model (default: ONNX Runtime where installed).  `numerics` defaults to
    `exact`, or to `ties` for a target that rounds ties another way than casts do.  `effort` 1 or 2
    tries rewrites of the float model and roundings of its weights, and keeps what data confirms
    (`Quantized.steps`); it takes `data`.
    """
    from qdialect.errors import UsageError
    from qdialect.quantizer.recipe import Recipe
    from qdialect.workflows.quantize import Quantization

    if effort not in (0, 1, 2):
        raise UsageError(f"effort is 0, 1 or 2, not {effort}")
    runs_on = resolved_target(target)
    work = Quantization(
        model,
        recipe or Recipe.of_target(runs_on),
        runs_on,
        None if numerics is None else check_numerics(numerics),
        data=None if data is None else Path(data),
        profile=profile,
        another_model=profile_of_another_model,
        engine=engine,
        whole_files=whole_files,
        require_all=require_all,
        search=recipe is None,
        effort=effort,
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
    from qdialect.workflows.compare import Differences, compare_models

    return Differences(compare_models(a, b, inputs, samples=samples, engine=engine))


def inspect(model: Model, target: str | Target | None = None) -> Inspection:
    """What is in the model: ops, quantization, unknown ops, interface, weights; where a target is
    given, which ops it refuses, and what of them, as kernels run them, it takes on codes."""
    from qdialect.workflows.inspect import inspect_module
    from qdialect.workflows.model import resolved_target

    if target is None:
        return inspect_module(model.module, model.ctx)
    from qdialect.workflows.taken import AS_KERNELS_RUN, taken_of

    asked = resolved_target(target)
    found = inspect_module(model.module, model.ctx, asked)
    run = run_passes(model, AS_KERNELS_RUN)
    found.taken = taken_of(run.module, run.ctx, asked)
    return found


def to_torch(model: Model, *, trainable: bool = False) -> GraphModule:
    """The model as a `torch.nn.Module` that computes what the interpreter does: codes exactly,
    floats within the error of float32.

    Submodules are named after the keys of the ops, and weights, which are shared with the model
    and not to be written, after the keys of the constants. It can be exported and compiled.

    With `trainable` values inside are floats: weights are float parameters of their own that are
    rounded to their grids as the module runs, and a quantize rounds to its grid, through which
    gradients pass inside of the range. What a module gives then differs by the errors of float32
    sums, a step where such a sum is that near a tie, and a step for each op of a module without
    `quant.arithmetic`, whose ties are those of the reals.

    Raises UnsupportedError for an op that has no form in torch, with its key.
    """
    from qdialect.plugins.torch.write import torch_module

    return torch_module(model.function(), model.ctx.blobs, trainable=trainable)


def compare_torch(
    reference: Any, model: Any, inputs: Mapping[str, Any] | Sequence[Any]
) -> LayerErrors:
    """How far the values inside of `model` are from those of `reference`, by key: each a `Model`,
    a module of `to_torch`, an `ExportedProgram` or a module, which gives what its submodules
    return. `inputs` are tensors or arrays, in order or by name; printed, it is a table."""
    from qdialect.plugins.torch.values import compare_with_torch

    given = list(inputs.values()) if isinstance(inputs, Mapping) else list(inputs)
    return compare_with_torch(reference, model, given)


def check_numerics(level: str) -> str:
    """`level`, if it is a contract class; UsageError (`unknown-level`) otherwise."""
    from qdialect.algebra.contract import level_named

    return str(level_named(level))
