"""The page that `--report` writes: what was measured on a few samples, and the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from qdialect.errors import QError
from qdialect.ir.ops import keys_of
from qdialect.ir.quant import QCastOp, quant_element
from qdialect.report.histograms import Histogram, of_distribution, of_values, range_of
from qdialect.report.page import Contents, report_page
from qdialect.report.tables import FrontPoint
from qdialect.workflows.compare_values import KeyedValue, compare_layers, keyed_values, pairs_of
from qdialect.workflows.inputs import draw, suitable
from qdialect.workflows.target_report import target_report

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.ir.context import QContext
    from qdialect.quantizer.profile.record import Profile
    from qdialect.targets.base import Target
    from qdialect.workflows.model import Model
    from qdialect.workflows.quality import Measured

    Arrays = Mapping[str, NDArray[Any]]

_SAMPLES = 2


def comparison_page(
    before: Model,
    after: Model,
    target: Target,
    inputs: Sequence[Arrays] = (),
    profile: Profile | None = None,
    measured: Measured | None = None,
    front: Sequence[FrontPoint] = (),
    steps: Sequence[Sequence[str]] = (),
) -> str:
    """The report of what was done to a model, with what it did to values on `inputs` (none:
    random ones), what was `measured` of both, the `front` of all that was tried, and a table of the
    `steps` of effort. Ranges are
    shown over what `profile` tells of the first model."""
    how = "Quantized" if profile is not None else "Optimized"
    contents = Contents(
        f"{_name(before)}, before and after",
        f"{how} by qdialect {_version()} for {target.name}.",
        (before.module, _for_target(before, target)),
        (after.module, _for_target(after, target)),
        quantized=profile is not None,
        not_taken=target_report(after.module, after.ctx, target).rows(),
    )
    if measured is not None:
        contents.quality, contents.not_judged = measured.quality, measured.problem
        if measured.samples is not None:
            contents.judged = f"Loss on {measured.samples}, in {measured.where}"
        contents.executed, contents.where = measured.rows(), f"In {measured.where}"
    contents.front, contents.steps = front, steps
    try:
        _measure(contents, before, after, inputs)
    except QError as error:
        contents.problem = f"Values could not be compared: {error.message}."
    if profile is not None:
        contents.histograms = _profiled(before, after, profile)
        contents.ranged = f"the {profile.sample_count} samples of the profile"
    return report_page(contents)


def inspection_page(model: Model, name: str | None = None) -> str:
    """The report of one model, and of what the target `name` refuses of it."""
    from qdialect.targets.installed import get_target

    target = get_target(name or "onnxruntime")
    contents = Contents(
        _name(model),
        f"Looked at by qdialect {_version()}; prices of {target.name}.",
        (model.module, _for_target(model, target)),
        not_taken=target_report(model.module, model.ctx, target).rows() if name else None,
    )
    return report_page(contents)


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


def _measure(contents: Contents, before: Model, after: Model, inputs: Sequence[Arrays]) -> None:
    """Every value that both have, compared, and how the first's lie in the second's ranges."""
    engine = "onnxruntime" if find_spec("onnxruntime") and find_spec("onnx") else "numpy"
    samples = inputs or _drawn(before, engine)
    pairs = [(keyed_values(before, engine, x), keyed_values(after, engine, x)) for x in samples]
    by = _followed(before)
    clamps = {key: [each for each in chain if not each[1]] for key, chain in by.items()}
    contents.layers = compare_layers([(_as_codes(a, b, by), b, ()) for a, b in pairs])
    contents.histograms = _ranges([(_as_codes(a, b, clamps), b) for a, b in pairs])
    what = f"{len(samples)} {'inputs given' if inputs else 'random inputs'}"
    where = {"numpy": "the reference interpreter", "onnxruntime": "ONNX Runtime, in QDQ form"}
    contents.measured = f"{len(contents.layers)} values on {what}, in {where[engine]}"
    contents.ranged = what


def _followed(model: Model) -> dict[str, list[tuple[str, bool]]]:
    """By the key of an op: what its result only goes through, clamps and a quantize at the
    end; each by key, and whether it is the quantize."""
    found: dict[str, list[tuple[str, bool]]] = {}
    for op in model.module.walk():
        chain: list[tuple[str, bool]] = []
        last = op
        while len(last.results) == 1 and not (chain and chain[-1][1]):
            users = [use.operation for use in last.results[0].uses]
            keys = keys_of(users[0]) if len(users) == 1 else ()
            if not keys:
                break
            last = users[0]
            behavior = model.ctx.behaviors.get(last)
            is_cast = isinstance(last, QCastOp)
            if not is_cast and (behavior is None or behavior.clamp is None):
                break
            chain.append((keys[-1], is_cast))
        if chain:
            found |= dict.fromkeys(keys_of(op), chain)
    return found


Followed = Mapping[str, Sequence[tuple[str, bool]]]


Values = Mapping[str, KeyedValue]
Pairs = Sequence[tuple[Sequence[KeyedValue], Sequence[KeyedValue]]]


def _now(key: str, second: Values, values: Values, by: Followed) -> str:
    """The key in the first model of what `key` stands for in the second, where it is codes: an
    op there is its clamp, too, and its quantize, where these are gone."""
    value = second.get(key)
    if value is None or value.span is None:
        return key
    found = key
    for name, is_cast in by.get(key, ()):
        step = values[name].step if name in values else None
        if name in second or name not in values or (is_cast and step != value.step):
            break
        found = name
    return found


def _as_codes(
    first: Sequence[KeyedValue], second: Sequence[KeyedValue], by: Followed
) -> list[KeyedValue]:
    """`first`, where each value that the second has in codes is what these stand for."""
    values = {key: value for value in first for key in value.keys}
    has = {key: value for value in second for key in value.keys}
    same = [(v, _now(v.keys[-1], has, values, by)) for v in first]
    return [v if key == v.keys[-1] else replace(v, reals=values[key].reals) for v, key in same]


def _ranges(pairs: Pairs) -> list[Histogram]:
    """What values were before, and the ranges that their codes have now."""
    arrays: dict[str, list[NDArray[Any]]] = {}
    now: dict[str, KeyedValue] = {}
    for first, second in pairs:
        for name, one, other in pairs_of(first, second):
            if other.span is not None:
                now[name] = other
                arrays.setdefault(name, []).append(one.reals)
    histograms = [
        of_values(key, _storage(v.type), arrays[key], *(v.span or (0.0, 0.0)))
        for key, v in now.items()
    ]
    return [histogram for histogram in histograms if histogram is not None]


def _profiled(before: Model, after: Model, profile: Profile) -> list[Histogram]:
    """What the profile says of values, and the ranges that were chosen for them."""
    from qdialect.quantizer.profile.distribution import distribution

    histograms: dict[str, Histogram | None] = {}
    by = _followed(before)
    known = {key for op in after.module.walk() for key in keys_of(op)}
    for op in after.module.walk():
        for key in keys_of(op):
            element = quant_element(op.results[0].type) if op.results else None
            span = None if element is None else range_of(element.qparams)
            # An op on codes is the clamp behind it, too, where that is gone.
            clamps = [name for name, _ in by.get(key, ()) if name not in known]
            names = [name for name in (key, *clamps) if name in profile.entries]
            if element is not None and span is not None and names:
                data = distribution(profile.entries[names[-1]].tensor)
                storage = str(element.qparams.storage)
                histograms[key] = of_distribution(key, storage, data, *span)
    return [histogram for histogram in histograms.values() if histogram is not None]


def _storage(kind: str) -> str:
    return kind.partition("<")[2].partition(":")[0]


def _drawn(model: Model, engine: str) -> list[Arrays]:
    function = model.function()
    options = suitable(model, lambda inputs: keyed_values(model, engine, inputs))
    # Even seeds: spread over the range of the input, not gathered at boundaries.
    return [draw(function, 2 * n, **options) for n in range(_SAMPLES)]
