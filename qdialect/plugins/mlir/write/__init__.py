"""Writes modules as MLIR text, with the weights in a file beside it or inside the text, and as
MLIR bytecode, with the weights in it.

Invariant: `read_module` of what `save_module` wrote is the same module, and a reader never
sees half of a file.
"""

from __future__ import annotations

import os
from collections.abc import Container, Generator
from contextlib import contextmanager, suppress
from io import StringIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute

from qdialect.errors import InputError, QError, Where, unwritable
from qdialect.ir.context import QContext
from qdialect.ir.ops.locations import op_where
from qdialect.ir.quant.text_version import TextVersion, printing_for
from qdialect.ir.weights import Load, alone, replacing
from qdialect.plugins.mlir.bytecode.layout import SUFFIX
from qdialect.plugins.mlir.write.printer import BLOB, MLIRPrinter
from qdialect.plugins.mlir.write.resources import Resources
from qdialect.plugins.mlir.write.style import PLAIN, Style

if TYPE_CHECKING:
    from qdialect.ir.ops.constants import BlobAttr
    from qdialect.plugins.mlir.bytecode.write import Piece

#: module attribute that names the weight store beside the text
BLOBS = "nn.blobs"

_MARK = b"qdialect.element_types"


def print_module(
    module: ModuleOp,
    ctx: QContext,
    stream: IO[str],
    *,
    generic: bool = False,
    debuginfo: bool = False,
    inline_weights: bool = False,
    external: Container[str] | None = None,
    keep_names: bool = True,
    text_version: TextVersion | str | None = None,
    resources: Resources | None = None,
    style: Style = PLAIN,
) -> None:
    """Write `module` and a final newline.

    `text_version`: whose spelling quant types get, "v22" or "v24"; "v22" is an InputError
    where a type has none. Default: as "v22", with types it does not know as "v24".

    `style`: what mlir-opt's printing flags choose.

    Values keep their names, or with `keep_names=False` get those mlir-opt gives them.

    Weights are written as references into the store, or with `inline_weights` as
    `dense<"0x...">`, so that the text stands alone.  `external` names the keys a
    reader will find; other weights are written inline.

    `resources` are written in place of the external resources of the session.
    """
    if inline_weights:
        external = ()
    printer = MLIRPrinter(
        stream=stream,
        print_generic_format=generic,
        print_debuginfo=debuginfo,
        ctx=ctx,
        external=external,
        style=style,
    )
    keys = blob_keys(module) if external is not None else set[str]()
    drop = external is not None and not any(key in external for key in keys)
    with _blobs_attribute(module, None if drop else module.attributes.get(BLOBS)):
        if not keep_names or style.needs_names:
            printer.name_values(module)
        try:
            with printing_for(TextVersion(text_version) if text_version else None):
                printer.print_op(module)
        except QError as error:
            error.where = error.where or op_where(module)
            raise
    external_resources = ctx.external_resources if resources is None else resources
    printer.print_resources(ctx.loaded_dialects, external_resources, style.resources_up_to)
    stream.write("\n")


def module_text(module: ModuleOp, ctx: QContext, **options: Any) -> str:
    """`print_module` into a string."""
    stream = StringIO()
    print_module(module, ctx, stream, **options)
    return stream.getvalue()


def save_module(
    module: ModuleOp,
    ctx: QContext,
    path: str | os.PathLike[str],
    *,
    generic: bool = False,
    debuginfo: bool = False,
    inline_weights: bool = False,
    keep_names: bool = True,
    text_version: TextVersion | str | None = None,
    style: Style = PLAIN,
    as_bytecode: bool = False,
    bytecode_version: int | None = None,
    load: Load | None = None,
) -> None:
    """Write `x.mlir`, and its weights to `x.safetensors` unless they go inline.

    A file called `.mlirbc`, or one with `as_bytecode`, is MLIR bytecode: it has locations
    always, names of values never, and the weights in it as resources, or with `inline_weights`
    as elements of attributes.

    Both files are written in full under other names first and then renamed, so that
    no reader sees half of one.  Whenever this is ended, the text that is there finds its
    weights: where it is replaced, the store keeps the old ones until that is done.
    """
    target = Path(path)
    if target.suffix == SUFFIX or as_bytecode:
        pieces = bytecode(
            module,
            ctx,
            version=bytecode_version,
            inline_weights=inline_weights,
            text_version=text_version,
        )
        _save_bytecode(target, pieces, load)
        return
    keys = set[str]() if inline_weights else blob_keys(module)
    store = target.with_suffix(".safetensors")
    if keys:
        _refuse_foreign(store)
        if os.fsencode(store.name).decode(errors="replace") != store.name:
            raise InputError(
                "the text would name its weights, and this name is not UTF-8; use another name",
                where=Where(str(target)),
                code="unwritable-file",
                notes=("--inline-weights puts the weights into the text",),
            )
    named = StringAttr(store.name) if keys else None
    with _blobs_attribute(module, named):
        data = module_text(
            module,
            ctx,
            generic=generic,
            debuginfo=debuginfo,
            inline_weights=inline_weights,
            keep_names=keep_names,
            text_version=text_version,
            style=style,
        ).encode()
    try:
        with alone(target.parent) as begin:
            with replacing(target, load) as temporary:
                temporary.write_bytes(data)
                begin()
                holds_more = bool(keys) and ctx.blobs.save_with_old(store, keys)
            if holds_more:
                with suppress(InputError):  # it may stay as it is
                    ctx.blobs.save(store, keys)
    except QError as error:
        error.where = error.where or op_where(module)
        raise


def bytecode(
    module: ModuleOp,
    ctx: QContext,
    *,
    version: int | None = None,
    inline_weights: bool = False,
    text_version: TextVersion | str | None = None,
) -> list[Piece]:
    """A module as MLIR bytecode, in pieces: large weights are views of the session's store.

    Default: version 4, or 6 where that keeps properties of ops that nobody knows.
    """
    from qdialect.plugins.mlir.bytecode.write import module_bytes

    with (
        _blobs_attribute(module, None),
        printing_for(TextVersion(text_version) if text_version else None),
    ):
        return [*module_bytes(module, ctx, version=version, inline_weights=inline_weights)]


def _save_bytecode(target: Path, pieces: list[Piece], load: Load | None) -> None:
    with replacing(target, load) as temporary, temporary.open("wb") as file:
        file.writelines(pieces)


def blob_keys(module: ModuleOp) -> set[str]:
    """The keys of all weights the module refers to."""
    found: set[str] = set()
    for op in module.walk():
        pending: list[Attribute] = [*op.properties.values(), *op.attributes.values()]
        while pending:
            attribute = pending.pop()
            if attribute.name == BLOB:
                found.add(cast("BlobAttr", attribute).key.data)
            elif isinstance(attribute, ArrayAttr):
                pending.extend(cast("ArrayAttr[Attribute]", attribute).data)
            elif isinstance(attribute, DictionaryAttr):
                pending.extend(attribute.data.values())
            elif isinstance(attribute, ParametrizedAttribute):
                pending.extend(attribute.parameters)
    return found


@contextmanager
def _blobs_attribute(module: ModuleOp, value: Attribute | None) -> Generator[None]:
    """The module with `nn.blobs` set to `value` (or without it), for a while."""
    before = dict(module.attributes)
    try:
        if value is None:
            module.attributes.pop(BLOBS, None)
        else:
            module.attributes[BLOBS] = value
        yield
    finally:
        module.attributes.clear()
        module.attributes.update(before)


def _refuse_foreign(store: Path) -> None:
    """Do not overwrite a safetensors file that somebody else made."""
    try:
        with store.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            ours = _MARK in file.read(min(length, 1 << 20))
    except FileNotFoundError:
        return
    except OSError as error:
        raise unwritable(store, error) from None
    if not ours:
        raise InputError(
            "would overwrite a file that is not a weight store of qdialect",
            where=Where(str(store)),
            code="unwritable-file",
        )
