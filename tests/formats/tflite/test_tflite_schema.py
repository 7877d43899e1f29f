"""The tables of TFLite and Circle against the packages of their schemas, field by field.

Each table is written by our encoder with a value in each field, and read by the accessors of the
package: a field in another slot, of another type or with another default comes out otherwise.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from qdialect.plugins.tflite.file.flatbuffer_read import Bytes, Decoder
from qdialect.plugins.tflite.file.model import Kind
from qdialect.plugins.tflite.file.schema import CALLED, Field, schema_of
from qdialect.plugins.tflite.file.write import encode


def litert() -> Any:
    return pytest.importorskip("ai_edge_litert.schema_py_generated")


def gathered(package: str) -> Any:
    """The classes of a package with one module for each."""
    root = pytest.importorskip(package)
    found: dict[str, Any] = {}
    for module in pkgutil.iter_modules(root.__path__):
        loaded = importlib.import_module(f"{package}.{module.name}")
        if hasattr(loaded, module.name):
            found[module.name] = getattr(loaded, module.name)
    return SimpleNamespace(**found)


PACKAGES: Mapping[str, tuple[Kind, Any]] = {
    "ai_edge_litert": ("tflite", litert),
    "tflite": ("tflite", lambda: gathered("tflite")),
    "circle_schema": ("circle", lambda: gathered("circle_schema.v0_10.circle")),
}


def is_table(found: Any) -> bool:
    return isinstance(found, type) and hasattr(found, "GetRootAs")


def is_enum(name: str, found: Any) -> bool:
    return isinstance(found, type) and not hasattr(found, "Init") and not name.endswith("T")


def camel(name: str, kind: Kind) -> str:
    if kind == "circle" and name in CALLED.values():
        name = next(other for other, ours in CALLED.items() if ours == name)
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def value_of(kind: Kind, field: Field, seed: int) -> Any:
    """A value of a field that is not its default, and differs from those of others."""
    schema = schema_of(kind)
    if field.role == "string":
        return [f"a{seed}", "b"] if field.many else f"name {seed}"
    if field.role == "table":
        return [{}, {}] if field.many else {}
    if field.role == "union":
        return next(n for n in schema.enums[field.enum].numbers if n != "NONE"), {}
    if field.many:
        numbers = [seed % 2, 1, 0] if field.type == "bool" else [seed, 1, 0, 7]
        return np.array(numbers, field.type)
    if field.enum:
        return (
            [n for n in schema.enums[field.enum].numbers if n != field.default] or [field.default]
        )[-1]
    if field.type == "bool":
        return not field.default
    return float(seed) + 0.5 if field.type == "float32" else seed + 3


@pytest.mark.parametrize("package", PACKAGES)
def test_enums_are_those_of_the_package(package: str) -> None:
    kind, load = PACKAGES[package]
    ours, found = schema_of(kind), load()
    names = [n for n in vars(found) if n[0].isupper() and is_enum(n, getattr(found, n))]
    assert len(names) >= 20
    for name in names:
        theirs = {k: v for k, v in vars(getattr(found, name)).items() if isinstance(v, int)}
        known = dict(ours.enums[name].numbers)
        if package == "tflite":  # older than the table: what it has is the same
            known = {key: number for key, number in known.items() if key in theirs}
        assert known == theirs, name


@pytest.mark.parametrize("package", PACKAGES)
def test_no_table_is_missing(package: str) -> None:
    kind, load = PACKAGES[package]
    found = load()
    theirs = {name for name in vars(found) if is_table(getattr(found, name))}
    known = set(schema_of(kind).tables)
    assert theirs <= known and (package == "tflite" or theirs == known)
    assert len(theirs) > 150


@pytest.mark.parametrize("package", PACKAGES)
def test_fields_are_where_the_package_looks_for_them(package: str) -> None:
    kind, load = PACKAGES[package]
    schema, found = schema_of(kind), load()
    count = 0
    for table, fields in schema.tables.items():
        if not hasattr(found, table):
            continue
        accessors = getattr(found, table)
        known = [f for f in fields if hasattr(accessors, camel(f.name, kind))]
        assert known == list(fields) or package == "tflite", table
        methods = {n for n in vars(accessors) if n[0].isupper() and not n.endswith(_DERIVED)}
        expected = {camel(f.name, kind) for f in fields} | {f"{table}BufferHasIdentifier", "Init"}
        assert {n for n in methods if not n.startswith("GetRootAs")} <= expected, table
        for index, field in enumerate(known):
            if field.role == "tag":
                continue
            value = value_of(kind, field, index + 1)
            data = b"".join(encode(schema, b"TFL3", table, {field.name: value}))
            root = accessors.GetRootAs(data, 0)
            check(kind, root, field, value)
            others = [f for f in known if f is not field and plain(f)]
            if package == "tflite" and table == "OperatorCode":
                others = []  # its accessor takes the greater of both codes
            for other in others:
                default = getattr(root, camel(other.name, kind))()
                assert default == number(kind, other, other.default), (table, other.name)
            count += 1
    assert count > 200


_DERIVED = ("Length", "IsNone", "AsNumpy")


def plain(field: Field) -> bool:
    return field.role == "number" and not field.many


def number(kind: Kind, field: Field, value: Any) -> Any:
    named = field.enum and isinstance(value, str)
    return schema_of(kind).enums[field.enum].numbers[value] if named else value


def check(kind: Kind, root: Any, field: Field, value: Any) -> None:
    """An accessor gives what was written."""
    schema, name = schema_of(kind), camel(field.name, kind)
    get = getattr(root, name)
    if field.role == "union":
        assert get() is not None
        assert getattr(root, f"{name}Type")() == schema.enums[field.enum].numbers[value[0]]
    elif field.many:
        assert getattr(root, f"{name}Length")() == len(value), name
        if field.role == "number":
            assert [get(i) for i in range(len(value))] == list(value), name
        elif field.role == "string":
            assert [get(i).decode() for i in range(len(value))] == value
        else:
            assert get(1) is not None
    elif field.role == "string":
        assert get().decode() == value
    elif field.role == "table":
        assert get() is not None
    else:
        known = schema.enums[field.enum].numbers[value] if isinstance(value, str) else value
        assert get() == known, name


@pytest.mark.parametrize("kind", ["tflite", "circle"])
def test_what_is_written_is_read(kind: Kind) -> None:
    schema = schema_of(kind)
    for table, fields in schema.tables.items():
        values = {f.name: value_of(kind, f, i + 1) for i, f in enumerate(fields)}
        values = {f.name: values[f.name] for f in fields if f.role != "tag"}
        data = b"".join(encode(schema, b"TFL3", table, values))
        read = Decoder(Bytes(memoryview(data), "x"), schema).root(table)
        for field in fields:
            # Of a buffer, bytes stand inside or behind the flatbuffer.
            if field.role in ("number", "string") and table != "Buffer":
                found, given = read[field.name], values[field.name]
                assert (list(found) == list(given)) if field.many else found == given


def test_all_ops_with_options_have_tables() -> None:
    schema = schema_of("tflite")
    assert len(schema.enums["BuiltinOperator"].numbers) == 210
    used = set(schema.options.values())
    unions = (schema.enums["BuiltinOptions"], schema.enums["BuiltinOptions2"])
    tables = {name for union in unions for name in union.numbers} - {"NONE"}
    assert used <= tables
    # Those that stand for ops under other names, or for no op.
    assert tables - used == set()
