"""Options of an op as attributes, and back: enums by names, subgraphs by symbols, bytes as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    SymbolRefAttr,
    f32,
    i1,
    i8,
    i32,
    i64,
)
from xdsl.ir import Attribute

from qdialect.plugins.tflite.file.schema import Field, Schema

_INTEGERS = {"bool": i8, "int32": i32, "uint32": i32, "int64": i64, "uint64": i64}


def refers_to_subgraph(field: Field) -> bool:
    """Whether a field has the number of a subgraph, or several."""
    return field.name.endswith(("subgraph_index", "subgraph_indices")) or field.name == "subgraph"


def to_attributes(
    schema: Schema, table: str, options: Mapping[str, Any], functions: Sequence[str]
) -> dict[str, Attribute]:
    """The fields of a table as attributes, without those that are absent; `functions` are the
    names of the subgraphs. ValueError for the number of a subgraph that is not there."""
    found: dict[str, Attribute] = {}
    for field in schema.tables[table]:
        value = options.get(field.name)
        if value is None or field.role == "tag":
            continue
        if refers_to_subgraph(field):
            numbers: list[int] = value.tolist() if field.many else [value]
            for number in numbers:
                if not 0 <= number < len(functions):
                    raise ValueError(f"{field.name} is {number} of {len(functions)} subgraphs")
            symbols = [SymbolRefAttr(functions[number]) for number in numbers]
            found[field.name] = ArrayAttr(symbols) if field.many else symbols[0]
        else:
            found[field.name] = _attribute(field, value)
    return found


def _attribute(field: Field, value: Any) -> Attribute:
    if field.role == "string":
        return StringAttr(value)
    if field.many:
        if field.type == "uint8":
            return StringAttr(value.tobytes().hex())
        if field.type == "float32":
            return DenseArrayBase.from_list(f32, value.tolist())
        return DenseArrayBase.from_list(_INTEGERS[field.type], [int(n) for n in value])
    if isinstance(value, str):
        return StringAttr(value)
    if isinstance(value, bool):
        return IntegerAttr(int(value), i1)
    if isinstance(value, float):
        return FloatAttr(value, f32)
    type = i64 if field.type in ("int64", "uint64") else i32
    return IntegerAttr(value, type, truncate_bits=True)


def to_options(
    schema: Schema, table: str, attributes: Mapping[str, Attribute], functions: Mapping[str, int]
) -> dict[str, Any]:
    """The fields of a table by their attributes, the schema's defaults for the others; ValueError
    for what the table does not have."""
    fields = {field.name: field for field in schema.tables.get(table, ()) if field.role != "tag"}
    found: dict[str, Any] = dict(schema.defaults(table)) if table else {}
    for name, attribute in attributes.items():
        if name not in fields:
            raise ValueError(f"it has no option '{name}'")
        value = _value(fields[name], attribute, functions)
        if value is None:
            raise ValueError(f"its option '{name}' cannot be {attribute}")
        found[name] = value
    return found


def _value(field: Field, attribute: Attribute, functions: Mapping[str, int]) -> Any:
    """None where an attribute is of the wrong kind."""
    if isinstance(attribute, SymbolRefAttr):
        return functions.get(attribute.string_value())
    if isinstance(attribute, ArrayAttr):
        entries = cast("ArrayAttr[Attribute]", attribute).data
        numbers = [_value(field, entry, functions) for entry in entries]
        return None if None in numbers else numbers
    if isinstance(attribute, StringAttr):
        if field.many and field.type == "uint8":
            import numpy as np

            return np.frombuffer(bytes.fromhex(attribute.data), np.uint8)
        return attribute.data if field.role == "string" or field.enum else None
    if isinstance(attribute, DenseArrayBase):
        return list(attribute.get_values()) if field.many else None
    if isinstance(attribute, FloatAttr):
        return attribute.value.data if field.type == "float32" else None
    if isinstance(attribute, IntegerAttr) and field.role == "number" and not field.many:
        number = cast("IntegerAttr[IntegerType]", attribute).value.data
        if field.type == "bool":
            return bool(number)
        if field.type in ("uint32", "uint64"):
            number %= 1 << int(field.type[4:])
        return number if field.type != "float32" else None
    return None
