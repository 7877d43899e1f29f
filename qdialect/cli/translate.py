"""`qopt-translate`: between MLIR and other formats, in the manner of mlir-translate."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qdialect.cli.flags import (
    BYTECODE_VERSION,
    EMIT_BYTECODE,
    FORCE,
    HELP,
    LOAD_PLUGIN,
    OUTPUT,
    QUANT_TEXT,
    VERSION,
    Arguments,
    Command,
    are_weights_inline,
    bytecode_version,
    is_bytecode_requested,
    parse,
    run_with_plugins,
    switch,
    value,
    write,
    write_binary,
)
from qdialect.cli.opt import version_line
from qdialect.cli.terminal import OK, guarded, say
from qdialect.errors import UsageError
from qdialect.workflows.loadable import loader

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from qdialect.ir.context import QContext

_LOWERED = {
    "tosa": "TOSA",
    "linalg": "linalg, arith and tensor",
    "quant": "the same, with quantized types and casts of upstream's quant at the interface",
    "iree": "the same, with the casts of IREE's iree_linalg_ext at the interface",
    "stablehlo": "StableHLO with quantized types, inside and at the interface",
}
_WITH_TYPES = ("quant", "iree", "stablehlo")
_RAISED = ("tosa", "stablehlo")
_ACTIONS = (
    "import-onnx",
    *(f"import-{name}" for name in _RAISED),
    "import-tflite",
    "export-onnx",
    "export-tflite",
    *(f"export-{name}" for name in _LOWERED),
)

COMMAND = Command(
    "qopt-translate",
    "Translates between MLIR and other formats.",
    (
        switch("import-onnx", "read an ONNX model, write MLIR"),
        switch("import-tflite", "read a TFLite or Circle file, write its ops as tflite.node"),
        *(
            switch(
                f"import-{name}",
                f"read functions in {_LOWERED[name]}, write them in nn and quant; "
                "what has no counterpart stays",
            )
            for name in _RAISED
        ),
        switch("export-onnx", "read MLIR, write an ONNX model"),
        switch("export-tflite", "read MLIR, write a TFLite file, or a Circle file for -o F.circle"),
        *(
            switch(
                f"export-{name}",
                f"read MLIR or an .onnx, write it in {what} (generic form)",
            )
            for name, what in _LOWERED.items()
        ),
        value(
            "interface",
            "WHAT",
            "of an export to TOSA or linalg: float, as the model has it, with the casts inside the "
            "function (default), or codes",
            choices=("float", "codes"),
        ),
        switch("strict-integer", "refuse to export floats, and say of each op why it is one"),
        OUTPUT,
        value(
            "form",
            "FORM",
            "how quantized ops are written in ONNX (default: qdq)",
            choices=("qdq", "qoperator"),
        ),
        value("opset", "N", "ONNX opset to write (default: that of the imported model)"),
        switch(
            "inline-weights", "write weights into the text, not into FILE.safetensors beside it"
        ),
        switch(
            "allow-unregistered-dialect allow-unregistered-dialects", "keep ops of unknown dialects"
        ),
        switch("mlir-print-op-generic print-op-generic", "write ops in the generic form"),
        switch("mlir-print-debuginfo print-debuginfo", "write locations"),
        QUANT_TEXT,
        EMIT_BYTECODE,
        BYTECODE_VERSION,
        FORCE,
        LOAD_PLUGIN,
        HELP,
        VERSION,
    ),
    ("[FILE]",),
    "FILE is - or absent for standard input. MLIR on standard output has its weights inside.",
)


def main(argv: Sequence[str] | None = None) -> int:
    """The console script."""
    return guarded(_run, argv)


def _run(argv: Sequence[str]) -> int:
    args = parse(COMMAND, argv)
    if args.switch("help"):
        write(COMMAND.help())
        return OK
    if args.switch("version"):
        write(version_line("qopt-translate"))
        return OK
    actions = [name for name in _ACTIONS if args.switch(name)]
    if len(actions) != 1:
        names = ", ".join(f"--{name}" for name in _ACTIONS)
        raise UsageError(f"give one of {names}", notes=(COMMAND.usage(),))
    return run_with_plugins(lambda args: _translate(args, actions[0]), args)


def _translate(args: Arguments, what: str) -> int:
    opset = args.integer("opset", 0, minimum=1) or None
    output = args.text("o")
    path = None if output in (None, "-") else Path(output)
    from qdialect.pipeline.plugins import Plugins

    ctx = Plugins().session(allow_unregistered=args.switch("allow-unregistered-dialect"))
    action, _, name = what.partition("-")
    if action == "export" and name in _LOWERED:
        _write_lowered(args, ctx, path, name)
    elif what == "import-onnx":
        _write_mlir(_read_onnx(args, ctx), ctx, path, args)
    elif what == "import-tflite":
        _write_mlir(_read_tflite(args, ctx), ctx, path, args)
    elif what == "export-tflite":
        _write_tflite(_read_mlir(args, ctx), ctx, path)
    elif action == "import":
        _write_raised(args, ctx, path, name)
    else:
        _write_onnx(_read_mlir(args, ctx), ctx, path, args, opset)
    return OK


def _source(args: Arguments) -> str:
    return args.positional[0] if args.positional else "-"


def _read_onnx(args: Arguments, ctx: QContext) -> ModuleOp:
    from qdialect.plugins.mlir.read import verify_module
    from qdialect.plugins.onnx.read import import_model

    source = _source(args)
    module = import_model(sys.stdin.buffer.read() if source == "-" else Path(source), ctx)
    verify_module(module, ctx)
    return module


def _read_tflite(args: Arguments, ctx: QContext) -> ModuleOp:
    from qdialect.plugins.mlir.read import verify_module
    from qdialect.plugins.tflite.file.read import read_bytes, read_file
    from qdialect.plugins.tflite.file.to_module import read_module

    source = _source(args)
    stdin = source == "-"
    file = read_bytes(sys.stdin.buffer.read(), "<stdin>") if stdin else read_file(source)
    module = read_module(file, ctx)
    verify_module(module, ctx)
    return module


def _read_mlir(args: Arguments, ctx: QContext) -> ModuleOp:
    from qdialect.plugins.mlir.bytecode.layout import MAGIC
    from qdialect.plugins.mlir.read import (
        bytecode_module,
        decode,
        load_module,
        read_module,
        verify_module,
    )

    source = _source(args)
    if source != "-":
        return load_module(source, ctx)
    data = sys.stdin.buffer.read()
    if data.startswith(MAGIC):
        module = bytecode_module(data, ctx, "<stdin>")
    else:
        module = read_module(decode(data, "<stdin>"), ctx, folder=Path())
    verify_module(module, ctx)
    return module


def _write_raised(args: Arguments, ctx: QContext, path: Path | None, name: str) -> None:
    from qdialect.workflows.model import Model, raised

    model = raised(Model(_read_mlir(args, ctx), ctx), name)
    kept = [r for r in model.ctx.remarks.remarks if r.pass_name == f"raise-{name}"]
    for remark in kept:
        say(remark)
    _write_mlir(model.module, model.ctx, path, args)


def _write_lowered(args: Arguments, ctx: QContext, path: Path | None, name: str) -> None:
    from qdialect.ir.weights import save_text
    from qdialect.plugins.mlir.write import module_text
    from qdialect.workflows.lower import integer_model, lowered_model
    from qdialect.workflows.model import Model, load

    source = _source(args)
    if source.endswith(".pt2"):
        module = load(source, ctx).module
    else:
        module = _read_onnx(args, ctx) if source.endswith(".onnx") else _read_mlir(args, ctx)
    strict, interface = args.switch("strict-integer"), args.text("interface")
    codes = name not in _WITH_TYPES and (interface == "codes" or (strict and interface is None))
    integers = integer_model(Model(module, ctx), codes, name)
    model = lowered_model(integers, name, codes=codes, strict=strict)
    if is_bytecode_requested(args):
        _write_bytecode(args, model.module, model.ctx, path)
        return
    # The weights are in the text, which other tools read: they know no store of ours.
    text = module_text(model.module, model.ctx, generic=True, inline_weights=True)
    if path is None:
        write(text)
        return
    save_text(path, text, loader(path))


def _write_mlir(module: ModuleOp, ctx: QContext, path: Path | None, args: Arguments) -> None:
    from qdialect.plugins.mlir.write import module_text, save_module

    spelling: dict[str, Any] = {
        "generic": args.switch("mlir-print-op-generic"),
        "debuginfo": args.switch("mlir-print-debuginfo"),
        "text_version": args.text("quant-text"),
    }
    if is_bytecode_requested(args):
        _write_bytecode(args, module, ctx, path)
    elif path is None:
        write(module_text(module, ctx, inline_weights=True, **spelling))
    else:
        inline = are_weights_inline(args)
        load = loader(path)
        save_module(module, ctx, path, inline_weights=inline, load=load, **spelling)


def _write_bytecode(args: Arguments, module: ModuleOp, ctx: QContext, path: Path | None) -> None:
    from qdialect.plugins.mlir.write import bytecode, save_module

    version, text_version = bytecode_version(args), args.text("quant-text")
    inline = args.switch("inline-weights")
    if path is None:
        write_binary(
            bytecode(module, ctx, version=version, inline_weights=inline, text_version=text_version)
        )
        return
    save_module(
        module,
        ctx,
        path,
        as_bytecode=True,
        bytecode_version=version,
        inline_weights=inline,
        text_version=text_version,
        load=loader(path),
    )


def _write_onnx(
    module: ModuleOp, ctx: QContext, path: Path | None, args: Arguments, opset: int | None
) -> None:
    from qdialect.plugins.onnx.write import keeps_weights_beside, save_model, write_model

    form = "qoperator" if args.text("form") == "qoperator" else "qdq"
    model = write_model(module, ctx, form=form, opset=opset)
    if path is not None:
        beside = keeps_weights_beside(module) and not args.switch("inline-weights")
        save_model(model, path, weights_beside=beside, load=loader(path))
    elif sys.stdout.isatty():
        raise UsageError("an ONNX model is binary: give -o FILE")
    else:
        sys.stdout.buffer.writelines(model.serialized())


def _write_tflite(module: ModuleOp, ctx: QContext, path: Path | None) -> None:
    from qdialect.plugins.tflite.files import save_tflite
    from qdialect.workflows.model import Model, write_tflite

    circle = path is not None and path.suffix == ".circle"
    written = write_tflite(Model(module, ctx), "circle" if circle else "tflite")
    if path is not None:
        save_tflite(written, path, loader(path, kernels=written.kernels))
    elif sys.stdout.isatty():
        raise UsageError("a TFLite file is binary: give -o FILE")
    else:
        sys.stdout.buffer.write(written.data)


if __name__ == "__main__":
    sys.exit(main())
