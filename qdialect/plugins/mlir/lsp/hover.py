"""What an editor shows of a value, an op, a type or a pass: Markdown in plain words and numbers."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cache

from xdsl.dialects.builtin import UnregisteredOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue, Use

from qdialect.algebra.qparams import QParams
from qdialect.algebra.ranges import Interval
from qdialect.analysis.codes import qparams_of
from qdialect.analysis.ranges import ranges
from qdialect.errors import UsageError
from qdialect.ir.context import QContext
from qdialect.ir.ops.keys import keys_of
from qdialect.ir.quant import CalibratedType, element_type, quant_element
from qdialect.plugins.mlir.lsp.checks import plugins
from qdialect.plugins.mlir.upstream.table import find_row
from qdialect.rewrite.remarks import location_text

LONGEST = 400
"""Characters of a type that are shown."""
SHOWN = 6
"""Scales and users that are shown one by one."""


def code(text: str, language: str = "mlir") -> str:
    """A block of code."""
    return f"```{language}\n{text}\n```"


def shortened(text: str, most: int = LONGEST) -> str:
    """A text of at most so many characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def number(value: float | Fraction) -> str:
    """A number as people read it: six digits."""
    return f"{float(value):.6g}"


# -- types -----------------------------------------------------------------------


def type_lines(kind: Attribute) -> list[str]:
    """What a type means: of quantized elements their parameters, in numbers."""
    element = element_type(kind)
    if isinstance(element, CalibratedType):
        span = element.data
        return [f"calibrated: values from {number(span.min)} to {number(span.max)}"]
    uniform = quant_element(kind)
    return [] if uniform is None else _parameters(uniform.qparams)


def _reals(params: QParams) -> tuple[float, float]:
    storage = params.storage
    pairs = list(zip(params.scale_list(), params.zero_point_list(), strict=True))
    low = min((storage.min - zero) * scale for scale, zero in pairs)
    return low, max((storage.max - zero) * scale for scale, zero in pairs)


def _parameters(params: QParams) -> list[str]:
    storage = params.storage
    scales, zeros = params.scale_list(), params.zero_point_list()
    low, high = _reals(params)
    lines = [
        f"storage: {storage.spelling}, codes {storage.min} to {storage.max}"
        f" ({'signed' if storage.signed else 'unsigned'}, {storage.width} bits)",
        f"means: (code - zero point) × scale, as {params.expressed}",
    ]
    if params.is_per_tensor:
        lines.append(f"scale: {scales[0]!r} (one step)")
        lines.append(f"zero point: {zeros[0]}")
    else:
        blocks = ", ".join(f"axis {axis} in blocks of {size}" for axis, size in params.blocks)
        axis = params.axis
        where = f"along axis {axis}" if axis is not None else blocks
        lines.append(
            f"scales: {len(scales)} {where}, {number(min(scales))} to {number(max(scales))}"
        )
        lines.append(f"first scales: {_some(map(number, scales), len(scales))}")
        points = sorted(set(zeros))
        lines.append(f"zero points: {_some(map(str, points), len(points))}")
    lines.append(f"holds: {number(low)} to {number(high)}")
    return lines


def _some(texts: Iterable[str], count: int) -> str:
    shown = [text for text, _ in zip(texts, range(SHOWN), strict=False)]
    more = f", and {count - len(shown)} more" if count > len(shown) else ""
    return ", ".join(shown) + more


def type_text(kind: Attribute, text: str) -> str:
    """A type by itself, `text` in the file."""
    shown = shortened(str(kind))
    lines = [] if shown == text else [f"stands for `{shown}`"]
    return _joined(code(shortened(text)), [*lines, *type_lines(kind)])


# -- values ----------------------------------------------------------------------


def value_text(values: Sequence[SSAValue], index: int | None, name: str, ctx: QContext) -> str:
    """The value `name`; without an index, all results that share the name."""
    chosen = list(values) if index is None else list(values[index : index + 1])
    if isinstance(values[0], BlockArgument):
        chosen = [values[0]]  # others are the same argument in other regions
    if not chosen:
        return f"`{name}` has {len(values)} results, from 0 on"
    parts: list[str] = []
    for position, value in enumerate(chosen):
        shown = f"{name}#{position}" if len(chosen) > 1 else name
        lines = [*type_lines(value.type), *_range_lines(value, ctx)]
        same = values if isinstance(value, BlockArgument) else [value]
        lines.append(_origin(value, [use for each in same for use in each.uses]))
        parts.append(_joined(code(f"{shown} : {shortened(str(value.type))}"), lines))
    return "\n\n".join(parts)


def _origin(value: SSAValue, uses: Sequence[Use]) -> str:
    owner = value.owner
    users: dict[str, None] = dict.fromkeys(use.operation.name for use in uses)
    by = f" by {_some((f'`{each}`' for each in users), len(users))}" if uses else ""
    used = f"used {len(uses)} times{by}" if len(uses) != 1 else f"used once{by}"
    if isinstance(value, BlockArgument):
        around = value.block.parent_op()
        return f"argument {value.index} of `{around.name if around else 'a block'}`; {used}"
    assert isinstance(owner, Operation)
    keys = ", ".join(keys_of(owner))
    return f"from `{owner.name}`{f' ({keys})' if keys else ''}; {used}"


def _range_lines(value: SSAValue, ctx: QContext) -> list[str]:
    """What is known of the values, whatever the inputs of the function are."""
    try:
        known = ranges(ctx)
        codes, real = known.of(value), known.real(value)
    except (ArithmeticError, LookupError, ValueError, NotImplementedError):
        return []  # an analysis of ops it was not made for
    if codes is None:
        return []
    params = qparams_of(value)
    if params is None:
        return [f"known range: {_interval(codes)}"]
    whole = (params.storage.min, params.storage.max) == (codes.low, codes.high)
    if whole:
        return ["known range: all codes"]
    shown = f"known range: codes {_interval(codes)}"
    return [shown + (f", values {_interval(real)}" if real is not None else "")]


def _interval(found: Interval) -> str:
    return f"{number(found.low)} to {number(found.high)}"


# -- ops -------------------------------------------------------------------------


@cache
def summary_of(kind: type[Operation]) -> str:
    """The documentation of an op's class."""
    own = kind.__dict__.get("__doc__") or ""
    return "" if own.startswith(f"{kind.__name__}(") else inspect.cleandoc(own)


def name_of(op: Operation) -> str:
    """The name of an op as the text has it."""
    return op.op_name.data if isinstance(op, UnregisteredOp) else op.name


def op_text(op: Operation, stated: Attribute | None, ctx: QContext) -> str:
    """An op: what it does, its key and its declaration."""
    name = name_of(op)
    lines: list[str] = []
    keys = keys_of(op)
    if keys:
        lines.append(f"key: {', '.join(keys)}")
    if stated is not None:
        lines.append(f"location: {location_text(stated) or stated}")
    behavior = None if isinstance(op, UnregisteredOp) else ctx.behaviors.get(op)
    if behavior is not None:
        from qdialect.ir.behaviors.describe import described

        lines += [f"{title}: {text}" for title, text in described(behavior)]
    parts = [_joined(f"**{name}**\n\n{_summary(type(op), name)}", lines)]
    if isinstance(op, FuncOp) and not isinstance(op, UnregisteredOp):
        parts.append(code(f"@{op.sym_name.data} : {shortened(str(op.function_type))}"))
    return "\n\n".join(parts)


def _summary(kind: type[Operation], name: str) -> str:
    """What is known of ops called `name`: the documentation, or what upstream's tables say."""
    if issubclass(kind, UnregisteredOp):
        return f"no dialect that is known has `{name}`"
    return summary_of(kind) or _declaration(name)


def _declaration(name: str) -> str:
    row = find_row(name)
    if row is None:
        return ""
    lists = {
        "operands": [f"{each.name}{each.repeat}" for each in row.operands],
        "results": [f"{each.name}{each.repeat}" for each in row.results],
        "attributes": [f"{e.name} ({e.presence})" for e in row.properties.values()],
        "regions": [f"{each.name}{each.repeat}" for each in row.regions],
        "traits": sorted(row.traits),
    }
    lines = [f"{title}: {', '.join(entries)}" for title, entries in lists.items() if entries]
    title = f"an op of upstream's `{name.partition('.')[0]}`"
    parts = [_joined(title, lines)]
    if row.format:
        parts.append("assembly format:\n" + code(row.format, "text"))
    return "\n\n".join(parts)


def op_name_text(name: str, ctx: QContext) -> str:
    """What ops of a name do; nothing if there are none."""
    kind = ctx.get_optional_op(name)
    if kind is None or issubclass(kind, UnregisteredOp):
        return ""
    return f"**{name}**\n\n{_summary(kind, name)}"


# -- passes ----------------------------------------------------------------------


def pass_text(name: str) -> str:
    """A pass: what it does, its options, and what its documentation says."""
    registry = plugins().registry()
    entry = next((each for each in registry.entries() if each.name == name), None)
    try:
        kind = registry.load(name)
    except UsageError:
        return ""
    lines: list[str] = []
    if entry is not None:
        for option, values, default, text in entry.options:
            shown = f"`{option.replace('_', '-')}=<{values}>`: {text}"
            lines.append(shown + (f" (default: {default})" if default else ""))
    module = inspect.getmodule(kind)
    doc = inspect.cleandoc((module.__doc__ if module else "") or kind.__doc__ or "")
    title = f"**{name}**" + (f": {entry.summary}" if entry is not None else "")
    return "\n\n".join(filter(None, (_joined(title, lines), _markdown(doc))))


def _markdown(doc: str) -> str:
    return re.sub(r"\n\n((?:    [^\n]*(?:\n|$))+)", r"\n\n```mlir\n\1```\n", doc)


def _joined(title: str, lines: Sequence[str]) -> str:
    return "\n\n".join([title, "\n".join(f"- {line}" for line in lines)] if lines else [title])
