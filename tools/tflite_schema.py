"""Make the schema tables of TFLite and Circle from the Python packages of their schemas.

    python -m tools.tflite_schema

Needs `ai-edge-litert` and `circle-schema`. What their code says is read as text: the slots, types
and defaults of fields, and the numbers of enums. It does not say which fields are enums (`ENUMS`)
and which table has the options of an op (`OPTIONS`, where names do not agree).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from qdialect.plugins.tflite.file.schema import CALLED

TABLES = Path(__file__).parents[1] / "qdialect/plugins/tflite/file/tables"

ENUMS = {
    "LSHProjectionOptions.type": "LSHProjectionType",
    "DimensionMetadata.format": "DimensionType",
    "RoPEOptions.mode": "RoPEMode",
    "MirrorPadOptions.mode": "MirrorPadMode",
    "ReduceWindowOptions.reduce_function": "ReduceWindowFunction",
    "ArgMaxOptions.output_type": "TensorType",
    "ArgMinOptions.output_type": "TensorType",
    "algorithm": "RngAlgorithm",
    "builtin_code": "BuiltinOperator",
    "combiner": "CombinerType",
    "compare_type": "StablehloComparisonType",
    "comparison_direction": "StablehloComparisonDirection",
    "composite_attributes_format": "CustomOptionsFormat",
    "compression_type": "CompressionType",
    "custom_options_format": "CustomOptionsFormat",
    "data_format": "DataFormat",
    "fused_activation_function": "ActivationFunctionType",
    "idx_out_type": "TensorType",
    "in_data_type": "TensorType",
    "kernel_type": "LSTMKernelType",
    "key_dtype": "TensorType",
    "out_data_type": "TensorType",
    "out_type": "TensorType",
    "padding": "Padding",
    "precision_config": "StablehloPrecisionConfig",
    "quantized_bias_type": "TensorType",
    "type": "TensorType",
    "value_dtype": "TensorType",
    "weights_format": "FullyConnectedOptionsWeightsFormat",
}
"""Fields that are enums, by their names (and tables)."""

UNIONS = {
    "builtin_options": "BuiltinOptions",
    "builtin_options_2": "BuiltinOptions2",
    "details": "QuantizationDetails",
    "array_segments": "SparseIndexVector",
    "array_indices": "SparseIndexVector",
}

OPTIONS = {
    "AVERAGE_POOL_2D": "Pool2DOptions",
    "L2_NORMALIZATION": "L2NormOptions",
    "L2_POOL_2D": "Pool2DOptions",
    "MAXIMUM": "MaximumMinimumOptions",
    "MAX_POOL_2D": "Pool2DOptions",
    "CONV_3D_TRANSPOSE": "Conv3DOptions",
    "MEAN": "ReducerOptions",
    "MINIMUM": "MaximumMinimumOptions",
    "MULTINOMIAL": "RandomOptions",
    "RANDOM_STANDARD_NORMAL": "RandomOptions",
    "RANDOM_UNIFORM": "RandomOptions",
    "REDUCE_ALL": "ReducerOptions",
    "REDUCE_ANY": "ReducerOptions",
    "REDUCE_MAX": "ReducerOptions",
    "REDUCE_MIN": "ReducerOptions",
    "REDUCE_PROD": "ReducerOptions",
    "SUM": "ReducerOptions",
    "UNIDIRECTIONAL_SEQUENCE_RNN": "SequenceRNNOptions",
}
"""Tables of ops that are not named as they are."""

_SLOT = re.compile(
    r"^def (\w+?)Add(\w+)\(builder, \w+\):\s+builder\.Prepend(\w+)Slot\((.+)\)$", re.M
)
_CLASS = re.compile(r"^class (\w+)\(object\):\n(.*?)(?=^\S)", re.M | re.S)
_METHOD = re.compile(r"^    def (\w+)\(self(, j)?\):\n(.*?)(?=^    def |\Z)", re.M | re.S)
_NUMBER = re.compile(r"^    (\w+) = (-?\d+)$", re.M)
_STARTED = re.compile(r"^def (\w+?)Start\(builder\):", re.M)


def snake(name: str) -> str:
    """`DilationWFactor` as `dilation_w_factor`."""
    name = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z0-9])(?=[A-Z][a-z])", "_", name).lower()
    return name.replace("options2", "options_2")


@dataclass
class Schema:
    """The tables and enums in the source of a package."""

    tables: Mapping[str, Mapping[str, str]]
    enums: Mapping[str, Mapping[str, int]]

    @classmethod
    def of(cls, source: str) -> Schema:
        """Those of generated code."""
        classes = {m[1]: m[2] for m in _CLASS.finditer(source + "\nend\n")}
        enums = {
            name: {found[1]: int(found[2]) for found in _NUMBER.finditer(body)}
            for name, body in classes.items()
            if "_tab" not in body and "def " not in body
        }
        tables: dict[str, dict[str, str]] = {name: {} for name in _STARTED.findall(source)}
        for table, field, kind, arguments in _SLOT.findall(source):
            slot, _, default = arguments.split(", ")
            methods = {m[1]: m[3] for m in _METHOD.finditer(classes[table])}
            name = snake(field)
            type = _type(table, name, kind, methods.get(field, ""))
            name = CALLED.get(name, name)
            tables[table][name] = f"{slot} {name} {type}{_default(kind, default)}"
        return cls(tables, enums)

    def lines(self) -> Iterator[str]:
        """The text of the tables."""
        for name, members in sorted(self.enums.items()):
            yield f"enum {name}: {', '.join(f'{k} {v}' for k, v in members.items())}"
        for name, fields in sorted(self.tables.items()):
            rows = sorted(fields.values(), key=lambda row: int(row.split()[0]))
            yield f"table {name}: {', '.join(rows)}".rstrip()
        for op in self.enums["BuiltinOperator"]:
            table = self._options(op)
            if table is not None:
                yield f"options {op}: {table}"

    def _options(self, op: str) -> str | None:
        if op in OPTIONS:
            return OPTIONS[op]
        spelled = op.replace("_", "").lower() + "options"
        members = [*self.enums["BuiltinOptions"], *self.enums["BuiltinOptions2"]]
        return next((name for name in members if name.lower() == spelled), None)


def _type(table: str, name: str, kind: str, body: str) -> str:
    """`int32`, `Padding`, `[float32]`, `string`, `Tensor`, `[Tensor]`, `union BuiltinOptions`."""
    enum = ENUMS.get(f"{table}.{name}", ENUMS.get(name))
    if kind != "UOffsetTRelative":
        if name.removesuffix("_type") in UNIONS and name.endswith("_type"):
            return f"tag {UNIONS[name.removesuffix('_type')]}"
        wide = kind.lower()
        return f"{enum}:{wide}" if enum and wide in ("int8", "uint8", "int32", "uint32") else wide
    if "_tab.Union(" in body:
        return f"union {UNIONS[name]}"
    if scalar := re.search(r"number_types\.(\w+)Flags, a \+", body):
        wide = scalar[1].lower()
        return f"[{enum}:{wide}]" if enum and wide == "uint32" else f"[{wide}]"
    many = "_tab.Vector(" in body
    if "_tab.String(" in body:
        return "[string]" if many else "string"
    inner = re.search(r"(?:x|obj) = (\w+)\(\)", body)
    assert inner is not None, (table, name, body)
    return f"[{inner[1]}]" if many else inner[1]


def _default(kind: str, default: str) -> str:
    number = {"True": "1", "False": "0"}.get(default, default)
    return "" if kind == "UOffsetTRelative" or float(number) == 0 else f" = {number}"


def sources() -> Iterator[tuple[str, str]]:
    """The names of the tables and the code they are made from."""
    litert = find_spec("ai_edge_litert")
    assert litert is not None and litert.submodule_search_locations
    folder = Path(litert.submodule_search_locations[0])
    yield "tflite", (folder / "schema_py_generated.py").read_text()
    circle = find_spec("circle_schema.v0_10.circle")
    assert circle is not None and circle.submodule_search_locations
    files = sorted(Path(circle.submodule_search_locations[0]).glob("[A-Z]*.py"))
    yield "circle", "\n".join(file.read_text() for file in files)


def main() -> None:
    """Write both tables."""
    for name, source in sources():
        text = "\n".join(Schema.of(source).lines())
        (TABLES / f"{name}.txt").write_text(text + "\n")


if __name__ == "__main__":
    main()
