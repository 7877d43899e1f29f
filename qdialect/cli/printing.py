"""What the printing flags of `qopt-opt` ask for: styles, round trips, what passes said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from qdialect.cli.flags import Arguments
from qdialect.cli.terminal import line
from qdialect.errors import InputError, Where
from qdialect.ir.context import QContext
from qdialect.ir.ops.locations import op_where
from qdialect.plugins.mlir.read import read_module
from qdialect.plugins.mlir.write import module_text
from qdialect.plugins.mlir.write.style import HEX_ABOVE, Style

Spelling = dict[str, Any]
"""Keyword arguments of `module_text`."""


def chosen_style(args: Arguments) -> Style:
    """What the flags choose; UsageError for a number that is none."""
    return Style(
        elide_above=_limit(args, "mlir-elide-elementsattrs-if-larger"),
        hex_above=_hexadecimal(args),
        resources_up_to=_limit(args, "mlir-elide-resource-strings-if-larger"),
        skip_regions=args.switch("mlir-print-skip-regions"),
        value_users=args.switch("mlir-print-value-users"),
        names_by_location=args.switch("mlir-use-nameloc-as-prefix"),
        unique_names=args.switch("mlir-print-unique-ssa-ids"),
    )


def _limit(args: Arguments, name: str) -> int | None:
    return args.integer(name, 0) if args.has(name) else None


def _hexadecimal(args: Arguments) -> int | None:
    name = "mlir-print-elementsattrs-with-hex-if-larger"
    return None if args.text(name) == "-1" else args.integer(name, HEX_ABOVE)


def require_one_op(module: ModuleOp, text: str, name: str) -> None:
    """InputError unless the text is one op, which `--no-implicit-module` takes as it is."""
    count = 1 if _is_written(module) else len(list(module.ops))
    if count != 1:
        raise InputError(
            f"source must contain a single top-level operation, found: {count}",
            where=Where(name, 1, 1),
            code="syntax-error",
        )


def one_op_text(module: ModuleOp, ctx: QContext, spelling: Spelling) -> str:
    """The text of the op in a module that no text spells out, else of the module."""
    if _is_written(module):
        return module_text(module, ctx, **spelling)
    lines = module_text(module, ctx, **spelling).split("\n")
    first, last = lines.index("module {"), len(lines) - 1 - lines[::-1].index("}")
    inner = [line.removeprefix("  ") for line in lines[first + 1 : last]]
    return "\n".join((*lines[:first], *inner, *lines[last + 1 :]))


def _is_written(module: ModuleOp) -> bool:
    """Whether the text has the module: else it is at line 0."""
    where = op_where(module)
    return where is None or where.line is not None or bool(module.attributes or module.sym_name)


def verify_roundtrip(module: ModuleOp, ctx: QContext, new_session: Callable[[], QContext]) -> None:
    """InputError (`roundtrip`) unless what is written of a module reads as the same module: in
    the custom and in the generic form, and in bytecode. Operands of ops that commute may come back
    in another order, as in mlir-opt, which builds the regions of structured ops anew."""
    before = _lines(module, ctx)
    for form, written in (
        ("custom form", _text(module, ctx, False)),
        ("generic form", _text(module, ctx, True)),
        ("bytecode", _bytecode(module, ctx)),
    ):
        session = new_session()
        try:
            again = _read(written, session)
        except InputError as error:
            line = (error.where.line if error.where else None) or 0
            raise InputError(
                f"the {form} does not read: {error.message}",
                where=op_where(module),
                code="roundtrip",
                notes=tuple(written.splitlines()[line - 1 :][:1])
                if line and isinstance(written, str)
                else (),
            ) from None
        lines = _lines(again, session if form == "bytecode" else ctx)
        for one, other in zip(before, [*lines, "the end"], strict=False):
            if one != other:
                raise InputError(
                    f"the {form} reads as another module",
                    where=op_where(module),
                    code="roundtrip",
                    notes=(f"before: {one}", f"after: {other}"),
                )


def _text(module: ModuleOp, ctx: QContext, generic: bool) -> str:
    return module_text(
        module, ctx, generic=generic, inline_weights=True, keep_names=False, text_version="v24"
    )


def _bytecode(module: ModuleOp, ctx: QContext) -> bytes:
    from qdialect.plugins.mlir.bytecode.write import module_bytes

    return b"".join(module_bytes(module, ctx, inline_weights=True))


def _read(written: str | bytes, session: QContext) -> ModuleOp:
    if isinstance(written, str):
        return read_module(written, session, "<roundtrip>")
    from qdialect.plugins.mlir.bytecode.read import module_of

    return module_of(written, session, "<roundtrip>")


def _lines(module: ModuleOp, ctx: QContext) -> list[str]:
    """The generic form, with defaults that are left out, and operands that commute in order."""
    from qdialect.ir.verify.reports import op_name
    from qdialect.plugins.mlir.upstream import OTHER_DIALECTS
    from qdialect.plugins.mlir.upstream.attributes import default_of
    from qdialect.plugins.mlir.upstream.table import find_row

    module = module.clone()
    places: dict[SSAValue, int] = {}
    for op in module.walk():
        if op_name(op).partition(".")[0] in OTHER_DIALECTS:
            # mlir-opt knows which are properties, and tells them apart in either dictionary.
            op.attributes, op.properties = dict(sorted((op.attributes | op.properties).items())), {}
        for value in (*op.results, *(v for r in op.regions for b in r.blocks for v in b.args)):
            places[value] = len(places)
    for op in module.walk():
        row = find_row(op.name)
        if row is None:
            continue
        if "commutative" in row.traits:
            op.operands = sorted(op.operands, key=places.__getitem__)
        for name, entry in row.properties.items():
            default = None if name in op.properties else default_of(entry, ctx)
            if default is not None:
                op.properties[name] = default
    return _text(module, ctx, True).splitlines()


def debug_lines(sessions: Sequence[QContext], names: Sequence[str] | None) -> str:
    """What passes and rules did and refused, a line each: all, or those of `names`."""
    chosen = None if names is None else {name for text in names for name in text.split(",")}
    remarks = [remark for ctx in sessions for remark in ctx.remarks.remarks]
    shown = [r for r in remarks if chosen is None or chosen & {r.rule, r.pass_name}]
    return "".join(line(f"[{remark.pass_name}] {remark}") for remark in shown)
