"""A model and what every workflow does with it: load it, run passes on it, save it.

The model that a function gets stays as it is: passes run on a copy.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import copyfile
from typing import TYPE_CHECKING, Any, Literal

from qdialect.errors import InputError, UsageError, Where

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.dialects.func import FuncOp

    from qdialect.ir.context import QContext
    from qdialect.ir.weights import Load
    from qdialect.pipeline.manager import Instrumentation
    from qdialect.plugins.onnx.write.written import Written
    from qdialect.plugins.tflite.files import TfliteForm, WrittenTflite
    from qdialect.plugins.torch.program import Program
    from qdialect.targets.base import Target

Kernels = Literal["litert-xnn", "litert-opt", "litert-ref"]
"""Kernels of LiteRT: with the XNNPACK delegate, without it, and those of reference."""
Form = Literal["qdq", "qoperator"]
"""How an ONNX model writes quantized ops."""
LOADED = (".onnx", ".pt2", ".tflite", ".circle", ".mlir", ".mlirbc")
SAVED = (".onnx", ".tflite", ".circle", ".mlir", ".mlirbc")
"""The suffixes of files that models are read from and written to."""
TFLITE = (".tflite", ".circle")
TextVersion = Literal["v22", "v24"]
"""The MLIR release whose spelling of quant types is written; see docs/howto."""


@dataclass
class Model:
    """A module with its session: weights, target, and the remarks of what was done.

    `source` is the file it was loaded from, as long as it has not been changed; None where no
    runtime runs that, so that only what the module says can run: it has ops of others, or it was
    read otherwise than it is written, as `corrections` say.
    """

    module: ModuleOp
    ctx: QContext
    source: Path | None = None
    corrections: Sequence[str] = ()

    def __str__(self) -> str:
        from qdialect.plugins.mlir.write import module_text

        return module_text(self.module, self.ctx)

    def _repr_html_(self) -> str:
        from qdialect.workflows.inspect import module_html

        return module_html(self.module, self.ctx)

    def copied(self, target: Target) -> Model:
        """A copy to change, for a target."""
        made = Model(self.module.clone(), self.ctx.clone())
        made.ctx.target = target
        return made

    def text(self, text_version: TextVersion | None = None) -> str:
        """The MLIR text, with quant types spelled for a release (see `save`)."""
        from qdialect.plugins.mlir.write import module_text

        return module_text(self.module, self.ctx, text_version=_known_version(text_version))

    def function(self) -> FuncOp:
        """`main`, or the only function; InputError where there is neither."""
        from qdialect.interpreter import Interpreter

        return Interpreter(self.ctx, self.module).function()


def load(
    path: str | os.PathLike[str],
    ctx: QContext | None = None,
    *,
    dims: Mapping[str, int] | None = None,
    typical_dims: Mapping[str, int] | None = None,
    as_written: bool = False,
    kernels: Kernels | None = None,
) -> Model:
    """The model in a `.onnx`, `.pt2`, `.tflite`, `.circle`, `.mlir` or `.mlirbc` file, verified.

    Functions in TOSA, StableHLO and TFLite are raised to `nn` and `quant` (`raised`), unless
    `as_written`. Of a TFLite file `kernels` says which kernels of LiteRT its ops mean: of those,
    "litert-xnn" by default, no two round alike.

    `dims` are numbers that symbolic extents of its inputs get, by name; `typical_dims` numbers
    they are only priced as (default: 1 in a first dimension, 128 in others).

    `ctx` is a session of your own, with your dialects and behaviors registered; without
    one, a new session that installed plug-ins extend, and that keeps ops it does not know.
    """
    from qdialect.pipeline.plugins import Plugins

    source, spelled_out = Path(path), False
    session = Plugins().session(allow_unregistered=True) if ctx is None else ctx
    corrected = len(session.corrections)
    if source.suffix == ".onnx":
        from qdialect.plugins.mlir.read import verify_module
        from qdialect.plugins.onnx.read import import_model, is_spelled_out

        module = import_model(source, session, dims)
        verify_module(module, session)
        spelled_out = is_spelled_out(module)
    elif source.suffix == ".pt2":
        from qdialect.plugins.torch.archive import read_archive

        module = _of_program(read_archive(source), session, dims)
    elif source.suffix in TFLITE:
        return _of_tflite(source, session, dims, typical_dims, as_written, kernels)
    elif source.suffix in (".mlir", ".mlirbc"):
        from qdialect.plugins.mlir.read import load_module

        module = load_module(source, session)
        if dims:
            from qdialect.ir.ops.named_extents import bind_extents

            bind_extents(module, dims)
    else:
        raise UsageError(f"cannot tell the kind of '{source}': use {either_of(LOADED)}")
    if typical_dims:
        from qdialect.ir.ops.named_extents import price_extents

        price_extents(module, typical_dims)
    corrections = session.corrections[corrected:]
    runs = not spelled_out and not corrections
    model = Model(module, session, source if runs else None, corrections)
    return model if as_written or source.suffix == ".onnx" else raised(model)


def load_kept(source: Path, kernels: Kernels) -> Model:
    """The model in a file with each op as the format has it, not as we read it: what runs it is
    the runtime of the format, op by op, or the interpreter of a dialect. For `kernels` see `load`.
    """
    from qdialect.packages import package
    from qdialect.pipeline.plugins import Plugins

    session = Plugins().session(allow_unregistered=True)
    if source.suffix == ".onnx":
        from qdialect.plugins.onnx.read import import_model

        return Model(import_model(source, session, keep=True), session)
    if source.suffix == ".pt2":
        from qdialect.plugins.torch.archive import read_archive
        from qdialect.plugins.torch.read import import_program

        package("torch")  # which takes its time
        return Model(import_program(read_archive(source), session, keep=True), session)
    chosen = kernels if source.suffix in TFLITE else None
    return load(source, session, as_written=True, kernels=chosen)


def either_of(suffixes: Sequence[str]) -> str:
    """`.onnx, .mlir or .mlirbc`."""
    return f"{', '.join(suffixes[:-1])} or {suffixes[-1]}"


def _of_tflite(
    source: Path,
    session: QContext,
    dims: Mapping[str, int] | None,
    typical_dims: Mapping[str, int] | None,
    as_written: bool,
    kernels: Kernels | None,
) -> Model:
    """The verified model of a TFLite or Circle file."""
    from qdialect.ir.ops.named_extents import bind_extents, price_extents
    from qdialect.plugins.tflite.files import read_module

    model = Model(read_module(source, session, kernels), session, source)
    if not as_written:
        model = raised(model)
    # Only ops of ours take a number further.
    if dims:
        bind_extents(model.module, dims)
    if typical_dims:
        price_extents(model.module, typical_dims)
    return replace(model, source=None if dims else source)


def from_torch(
    exported: Any, ctx: QContext | None = None, *, dims: Mapping[str, int] | None = None
) -> Model:
    """The model of a `torch.export.ExportedProgram`, as `load` has it of its `.pt2` file."""
    from qdialect.pipeline.plugins import Plugins
    from qdialect.plugins.torch.live import read_exported

    session = Plugins().session(allow_unregistered=True) if ctx is None else ctx
    return Model(_of_program(read_exported(exported), session, dims), session)


def _of_program(program: Program, session: QContext, dims: Mapping[str, int] | None) -> ModuleOp:
    """The verified module of an exported program."""
    from qdialect.ir.ops.named_extents import bind_extents
    from qdialect.plugins.mlir.read import verify_module
    from qdialect.plugins.torch.functional import functional
    from qdialect.plugins.torch.read import import_program
    from qdialect.rewrite.remarks import Remark

    program = functional(program)
    for output in program.outputs:
        if output.kind in ("buffer_mutation", "input_mutation"):
            what = "input" if output.kind == "input_mutation" else "buffer"
            reason = f"the {what} '{output.target}' is written: its last value is an output"
            name = "import-torch"
            session.remarks.add(
                Remark("note", name, name, "", "module", output.target, code=name, reason=reason)
            )
    module = import_program(program, session)
    if dims:
        bind_extents(module, dims)
    verify_module(module, session)
    return module


def raised(model: Model, dialect: str | None = None) -> Model:
    """`model` with functions in another dialect (all that are known, or `dialect`) as `nn` and
    `quant`. What has no counterpart stays, and remarks of the session say why; a
    model without such ops is given back as it is. For `kernels` see `load`."""
    from qdialect.analysis.index import every_op
    from qdialect.plugins.common.exports import imports

    used = {op.name.partition(".")[0] for op in every_op(model.module)}
    known = imports()
    for name in known if dialect is None else (dialect,):
        if name in used:
            passes = known[name]
            if name == "tflite":
                from qdialect.plugins.tflite.files import kernels_named

                kernels = kernels_named(model.module)
                passes = passes.replace("raise-tflite", f"raise-tflite{{kernels={kernels}}}", 1)
            model = replace(run_passes(model, passes, verify_each=False), source=model.source)
    return model


def save(
    model: Model,
    path: str | os.PathLike[str],
    *,
    form: Form = "qdq",
    inline_weights: bool = False,
    runtime: str | None = None,
    text_version: TextVersion | None = None,
    written: Written | None = None,
    kernels: Kernels | None = None,
    load: Load | None = None,
) -> None:
    """Write the model as `.onnx` (in `form`), `.tflite`, `.circle`, or as `.mlir` with its weights
    beside it.

    An ONNX model that had weights beside it, or has more than 2 GB, gets them in `path` +
    ".data"; `inline_weights` puts all into one file where that can hold it.

    "qdq", the default whatever the model was optimized for, means the same bit for bit
    on any runtime; "qoperator" uses the integer kernels of ONNX Runtime.  `runtime` is
    the oldest version of it that the file is for ("1.23"; default: the installed one).
    `text_version` is the MLIR release whose spelling of quant types `.mlir` gets: "v22"
    refuses types it does not know; by default those are spelled as in "v24".
    `written` is the model in this form and for this runtime, exported already.  `kernels` says
    for whose arithmetic a TFLite or Circle file is written (default: that of the file the model
    is from, else "litert-xnn").  `load` loads the file before it gets its name (`loadable`).
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise InputError("no such folder", where=Where(str(target.parent)), code="unwritable-file")
    if target.suffix == ".onnx":
        from qdialect.plugins.onnx.write import keeps_weights_beside, save_model, write_model

        if written is None:
            written = write_model(model.module, model.ctx, form=form, runtime=runtime)
        beside = keeps_weights_beside(model.module) and not inline_weights
        save_model(written, target, weights_beside=beside, load=load)
    elif target.suffix in TFLITE:
        from qdialect.plugins.tflite.files import save_tflite

        circle = target.suffix == ".circle"
        save_tflite(write_tflite(model, "circle" if circle else "tflite", kernels), target, load)
    elif target.suffix in (".mlir", ".mlirbc"):
        from qdialect.plugins.mlir.write import save_module

        save_module(
            model.module,
            model.ctx,
            target,
            inline_weights=inline_weights,
            text_version=_known_version(text_version),
            load=load,
        )
    else:
        raise UsageError(f"cannot tell the kind of '{target}': use {either_of(SAVED)}")


def write_tflite(model: Model, form: TfliteForm, kernels: str | None = None) -> WrittenTflite:
    """A model of `nn`, `quant` and kept ops as a file for `kernels` (default: those that the
    module names); UnsupportedError where an op has no form in it."""
    from qdialect.analysis.index import has_marked_ops
    from qdialect.plugins.common.exports import exports
    from qdialect.plugins.tflite.file.from_module import module_file
    from qdialect.plugins.tflite.files import WrittenTflite, checked_kernels, kernels_named

    chosen = kernels_named(model.module) if kernels is None else checked_kernels(kernels)
    lowered, export = Model(model.module, model.ctx), exports()["tflite"]
    if _has_ours(model.module):
        passes = export.passes(codes=False)
        if has_marked_ops(model.ctx, model.module) and _is_exact(model):
            # What kernels compute is written as their ops, or not at all.
            passes = passes.replace("numerics=relaxed", "numerics=exact")
        for pipeline in (passes, export.convert):
            lowered = run_passes(lowered, pipeline, target=export.target, verify_each=False)
    file = module_file(lowered.module, lowered.ctx, form)
    return WrittenTflite(file, chosen)


def _has_ours(module: ModuleOp) -> bool:
    """Whether there are ops of `nn` and the like, and not the `tflite` dialect alone."""
    from qdialect.analysis.index import every_op

    return any(
        op.name.startswith(("nn.", "quant.", "onnx.", "torch.")) and op.name != "nn.constant"
        for op in every_op(module)
    )


def _is_exact(model: Model) -> bool:
    return all(bound.contract == "exact" for bound in model.ctx.remarks.outputs)


def save_or_copy(
    model: Model,
    path: Path,
    *,
    form: Form = "qdq",
    inline_weights: bool = False,
    written: Written | None = None,
    load: Load | None = None,
) -> None:
    """Save a model; one that is an ONNX, TFLite or Circle file as it was loaded is copied to
    one."""
    source = model.source
    if source is None or source.suffix != path.suffix or path.suffix not in (".onnx", *TFLITE):
        save(model, path, form=form, inline_weights=inline_weights, written=written, load=load)
    else:
        copy_file(source, path, load)


def copy_file(source: Path, path: Path, load: Load | None = None) -> None:
    """Copy an ONNX (see `copy_model`), TFLite or Circle file, whole or not at all."""
    from qdialect.ir.weights import replacing
    from qdialect.plugins.onnx.write import copy_model

    if path.suffix == ".onnx":
        copy_model(source, path, load=load)
        return
    with replacing(path, load) as temporary:
        copyfile(source, temporary)


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

    With `verify_numerics` each pass is compared with the interpreter on so many random inputs
    (half of them at boundaries) and on `inputs`, by argument name: InputError (`numerics`) that
    names the rewrite which changed more than its contract allows.  The remarks of the passes
    are in the new model's `ctx.remarks`.
    """
    from qdialect.pipeline.manager import PassManager
    from qdialect.pipeline.plugins import Plugins
    from qdialect.pipeline.text import parse_pipeline
    from qdialect.quantizer.profile.model_identity import kept_identity

    passes = Plugins().registry().build(parse_pipeline(pipeline))
    ctx = model.ctx.clone()
    if target is not None:
        ctx.target = resolved_target(target)
    module = model.module.clone()
    watchers = list(instrumentation)
    if verify_numerics:
        from qdialect.workflows.validation.numerics_check import NumericsCheck

        watchers.append(NumericsCheck(verify_numerics, inputs=inputs))
    with kept_identity(module, ctx, [each for _, each in passes]):
        PassManager(ctx, passes, verify_each=verify_each, instrumentation=watchers).run(module)
    return Model(module, ctx)


def _known_version(version: str | None) -> str | None:
    if version not in (None, "v22", "v24"):
        raise UsageError(f"text_version is v22 or v24, not '{version}'", code="unknown-version")
    return version


def resolved_target(target: str | Target) -> Target:
    """A target by its name; one that is a `Target` already as it is."""
    if not isinstance(target, str):
        return target
    from qdialect.targets.installed import get_target

    return get_target(target)
