"""What a model is written as, of whatever form: an ONNX model, or a TFLite or Circle file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdialect.plugins.tflite.files import SUFFIXES, TfliteForm, WrittenTflite, module_of_file
from qdialect.workflows.model import Form, Model, raised, write_tflite

if TYPE_CHECKING:
    from pathlib import Path

    from xdsl.dialects.builtin import ModuleOp

    from qdialect.ir.context import QContext
    from qdialect.plugins.onnx.write.written import Written

FileForm = Form | TfliteForm
"""How a result is written; without one it is MLIR."""


def form_of(path: Path) -> FileForm | None:
    """The form of a result by its suffix, QDQ for ONNX; None for MLIR."""
    return "qdq" if path.suffix == ".onnx" else SUFFIXES.get(path.suffix)


def write_as(model: Model, form: FileForm) -> Written | WrittenTflite:
    """The model in a form; QError where it has none there."""
    if form in ("tflite", "circle"):
        return write_tflite(model, form)
    from qdialect.plugins.onnx.write import write_model

    return write_model(model.module, model.ctx, form=form)


def read_again(written: Written | WrittenTflite, ctx: QContext) -> tuple[QContext, ModuleOp]:
    """What was written, as a session and a module: that is what it means."""
    if isinstance(written, WrittenTflite):
        from qdialect.plugins.tflite.file.read import read_bytes

        session = ctx.clone()
        file = read_bytes(written.data, written.file.name)
        model = raised(Model(module_of_file(file, session, written.kernels), session))
        return model.ctx, model.module
    from qdialect.plugins.onnx.read import import_model

    session = ctx.clone()
    return session, import_model(written.whole(), session)
