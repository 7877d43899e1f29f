"""Make a pass of its options: their texts become the fields of its dataclass.

form-floats{where=all numerics=ties}   ->   FormFloats(where="all", numerics="ties")
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable
from enum import Enum
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from qdialect.errors import UsageError, did_you_mean
from qdialect.pipeline.text import PassSpec

T = TypeVar("T")

_TRUE = {"true", "1", "yes", "on"}
_FALSE = {"false", "0", "no", "off"}


def instantiate(cls: type[T], spec: PassSpec) -> T:
    """A pass of class `cls` with the options of `spec`.

    Raises UsageError (`bad-option`) for an option the pass does not have, one that
    is given twice or is missing, and a value that is not of the field's type.
    """
    hints = _hints(cls)
    fields = {field.name: field for field in dataclasses.fields(typing.cast("Any", cls))}
    values: dict[str, Any] = {}
    for key, texts in spec.options:
        name = key.replace("-", "_")
        if name not in fields:
            raise _unknown(spec.name, key, fields)
        if name in values:
            raise _bad(f"pass '{spec.name}': option '{key}' is given twice")
        try:
            values[name] = _convert(hints[name], texts)
        except ValueError as error:
            raise _bad(f"pass '{spec.name}': option '{key}' {error}") from None
    for name, field in fields.items():
        required = (
            field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        )
        if required and name not in values:
            raise _bad(f"pass '{spec.name}' needs option '{name.replace('_', '-')}'")
    try:
        return cls(**values)
    except ValueError as error:
        raise _bad(f"pass '{spec.name}': {error}") from None


@cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _bad(message: str, notes: tuple[str, ...] = ()) -> UsageError:
    return UsageError(message, code="bad-option", notes=notes)


def _unknown(name: str, key: str, fields: dict[str, Any]) -> UsageError:
    known = [field.replace("_", "-") for field in fields]
    hint = did_you_mean(key.replace("_", "-"), known)
    listed = f"its options are: {', '.join(known)}" if known else "it has no options"
    failed = f"failed to add `{name}`"
    return _bad(f"<Pass-Options-Parser>: no such option {key}{hint}", (failed, listed))


def _convert(hint: Any, texts: tuple[str, ...]) -> Any:
    """Texts as a value of a type; ValueError continues the sentence `option 'x' ...`."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _convert_union(arguments, texts)
    if origin in (tuple, list):
        values = [_convert(arguments[0], (text,)) for text in texts]
        return tuple(values) if origin is tuple else list(values)
    if hint is bool:
        return _boolean(texts)
    if len(texts) != 1:
        raise ValueError("needs a value" if not texts else "takes one value")
    (text,) = texts
    if origin is Literal:
        return _choice(text, {str(choice): choice for choice in arguments})
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _choice(text, {str(member.value): member for member in hint})
    return _scalar(hint, text)


def _convert_union(arguments: tuple[Any, ...], texts: tuple[str, ...]) -> Any:
    if type(None) in arguments and texts in (("none",), ("None",)):
        return None
    problem: ValueError | None = None
    for argument in arguments:
        if argument is type(None):
            continue
        try:
            return _convert(argument, texts)
        except ValueError as error:
            problem = problem or error
    raise problem or ValueError("has no type")


def _boolean(texts: tuple[str, ...]) -> bool:
    if not texts:
        return True
    text = texts[0].lower()
    if len(texts) > 1 or text not in _TRUE | _FALSE:
        raise ValueError(f"is true or false, not '{','.join(texts)}'")
    return text in _TRUE


def _choice(text: str, choices: dict[str, T]) -> T:
    if text not in choices:
        hint = did_you_mean(text, choices)
        raise ValueError(f"is one of {', '.join(choices)}, not '{text}'{hint}")
    return choices[text]


def _scalar(hint: Any, text: str) -> Any:
    readers: dict[Any, tuple[Callable[[str], Any], str]] = {
        int: (lambda t: int(t, 0), "an integer"),
        float: (float, "a number"),
        str: (str, "a text"),
    }
    if hint not in readers:
        raise ValueError(f"of type {hint} cannot be given as text")
    read, expected = readers[hint]
    try:
        return read(text)
    except ValueError:
        raise ValueError(f"is {expected}, not '{text}'") from None
