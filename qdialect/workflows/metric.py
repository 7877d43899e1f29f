"""How good a model is for what it is used for: a number, higher is better.

A metric is a function of the user's, or one of four that are here. It gets what the float model
answers and what another answers on the same samples, and is trusted with nothing else: before it
judges a model, it is tried on the float model's own answers and on zeros. One that fails, gives
no number, or the same for both, is refused.

    def accuracy(feeds, expected, actual): ...

Each of the three is a list of dictionaries, one for each sample (a run of the model), of arrays by
name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module, util
from inspect import getsourcefile
from pathlib import Path
from sys import path as module_path
from traceback import extract_tb
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from qdialect.errors import InputError, UsageError, Where
from qdialect.workflows.metrics_of_tasks import TASKS, Task

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Arrays = Mapping[str, NDArray[Any]]

Function = Callable[[Sequence["Arrays"], Sequence["Arrays"], Sequence["Arrays"]], "float"]


@dataclass(frozen=True)
class Metric:
    """A metric on some samples: `name` is as the user gave it, `takes` says what it looks at,
    `of_float` is what the float model's own answers get."""

    name: str
    takes: str
    of_float: float
    feeds: Sequence[Arrays]
    expected: Sequence[Arrays]
    function: Function

    def __call__(self, actual: Sequence[Arrays]) -> float:
        """What the answers of another model get; InputError (`bad-metric`)."""
        return _number(self.name, self.function, self.feeds, self.expected, actual)


def metric_on(name: str, feeds: Sequence[Arrays], expected: Sequence[Arrays]) -> Metric:
    """The metric that `name` stands for (`classify`, `package.module:function`,
    `file.py:function`), tried on the answers of the float model.

    InputError (`bad-metric`) for one that does not judge: it fails, gives no number, or the same
    for zeros; UsageError for a name that names nothing."""
    if name in TASKS:
        task = TASKS[name](feeds, expected)
        function, takes = _judging(task), task.takes
    else:
        function, takes = function_named(name), "all outputs"
    perfect = _number(name, function, feeds, expected, expected)
    zeros = [{key: np.zeros_like(array) for key, array in each.items()} for each in expected]
    if _number(name, function, feeds, expected, zeros) == perfect:
        raise _bad(
            name,
            f"gives {perfect:g} for the float model's outputs and for zeros: it does "
            "not judge outputs on these samples",
        )
    return Metric(name, takes, perfect, feeds, expected, function)


def _judging(task: Task) -> Function:
    return lambda feeds, expected, actual: task.judge(actual)


def function_named(name: str) -> Function:
    """The function that `module:function` or `path/to/file.py:function` names; modules are looked
    for here first, too."""
    where, colon, attribute = name.rpartition(":")
    if not colon or not where or not attribute:
        known = ", ".join(TASKS)
        raise UsageError(
            f"--metric takes {known}, module:function or file.py:function, not '{name}'",
            code="bad-metric",
        )
    try:
        module = _file(Path(where)) if where.endswith(".py") else _module(where)
    except Exception as error:
        raise _bad(name, f"cannot be imported: {_said(error)}") from None
    function = getattr(module, attribute, None)
    if not callable(function):
        raise _bad(name, f"'{where}' has no function '{attribute}'")
    return cast("Function", function)


def _module(name: str) -> Any:
    module_path.insert(0, "")
    try:
        return import_module(name)
    finally:
        module_path.remove("")


def _file(path: Path) -> Any:
    if not path.is_file():
        raise FileNotFoundError(f"no such file: {path}")
    spec = util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _number(
    name: str,
    function: Function,
    feeds: Sequence[Arrays],
    expected: Sequence[Arrays],
    actual: Sequence[Arrays],
) -> float:
    try:
        found = cast("Any", function(feeds, expected, actual))
    except InputError:
        raise
    except Exception as error:
        raise _bad(name, f"failed: {_said(error)}{_place(function, error)}") from None
    if isinstance(found, np.ndarray) and cast("Any", found).size == 1:
        found = cast("Any", found).item()
    if isinstance(found, bool) or not isinstance(found, int | float | np.number):
        raise _bad(name, f"gives {_shown(found)}, which is no number")
    number = float(cast("float", found))
    if not math.isfinite(number):
        raise _bad(name, f"gives {number}")
    return number


def _said(error: Exception) -> str:
    text = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _place(function: Function, error: Exception) -> str:
    file = getsourcefile(function) if callable(function) and hasattr(function, "__code__") else None
    lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == file]
    return f" (line {lines[-1]} of {file})" if lines else ""


def _shown(value: Any) -> str:
    text = repr(value).partition("\n")[0]
    return text if len(text) <= 40 else f"an object of type {type(value).__name__}"


def _bad(name: str, problem: str) -> InputError:
    return InputError(f"the metric {problem}", where=Where(name), code="bad-metric")
