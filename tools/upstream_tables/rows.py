"""Makes the row of an op: what ODS says about it, in the words that `mlir.upstream` reads.

    op addi
    operands lhs rhs
    property overflowFlags default dialect:arith.overflow #arith.overflow<none>
    results result
    types lhs=same:result rhs=same:result
    traits pure commutative
    format $lhs `,` $rhs (`overflow` `` $overflowFlags^)? attr-dict `:` type($result)

The types of operands and results that the format does not name are derived here, once, as
mlir-tblgen derives them: from traits, from types that can only be one, or from inference.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tools.upstream_tables.records import Record, Records, is_a

#: what transformers of `TypesMatchWith` compute, by a piece of their C++ text
TRANSFORMERS = {
    "getI1SameShape": "i1like",
    "cast<MemRefType>($_self).getElementType": "element",
    "cast<TensorType>($_self).getElementType": "element",
    "cast<ComplexType>($_self).getElementType": "element",
    "cast<FunctionType>($_self).getInputs": "inputs",
    "cast<FunctionType>($_self).getResults": "outputs",
    "getNumElements()": "elements",
    "cast<Type>($_self)": "same",
}
#: types that can be only one, by how C++ builds them
BUILDERS = {
    "$_builder.getIndexType()": "index",
    "$_builder.getType<::mlir::NoneType>()": "none",
    "$_builder.getType<::mlir::shape::WitnessType>()": "!shape.witness",
    "$_builder.getType<::mlir::shape::SizeType>()": "!shape.size",
    "$_builder.getType<::mlir::shape::ShapeType>()": "!shape.shape",
    "$_builder.getType<::mlir::shape::ValueShapeType>()": "!shape.value_shape",
    "$_builder.getType<::mlir::ml_program::TokenType>()": "!ml_program.token",
}
#: traits that matter to who reads, writes or verifies
TRAITS = {
    "AttrSizedOperandSegments": "operand-segments",
    "AttrSizedResultSegments": "result-segments",
    "Terminator": "terminator",
    "IsolatedFromAbove": "isolated",
    "Symbol": "symbol",
    "SymbolTable": "symbol-table",
    "NoTerminator": "no-terminator",
    "NoMemoryEffect": "pure",
    "Commutative": "commutative",
    "ConstantLike": "constant",
    "RecursiveMemoryEffects": "recursive-effects",
    "SameOperandsAndResultType": "same-type",
    "SameTypeOperands": "same-operands",
    "HasOnlyGraphRegion": "graph-region",
}


class Override(NamedTuple):
    """What is known of an op from its C++ sources: lines that take the place of those made here."""

    lines: Mapping[str, str]


def type_of_builder(call: str) -> str | None:
    """The text of a type, from how C++ builds it."""
    integer = re.fullmatch(r"\$_builder\.get(Integer|F)(?:Type)?\(?(\d+)\)?.*", call)
    if integer:
        return f"i{integer[2]}" if integer[1] == "Integer" else f"f{integer[2]}"
    real = re.fullmatch(r"\$_builder\.getF(\d+)Type\(\)", call)
    return f"f{real[1]}" if real else BUILDERS.get(call)


class Rows:
    """The rows of the ops in one set of records."""

    def __init__(
        self, records: Records, overrides: Mapping[str, Override], bodies: Mapping[str, str]
    ) -> None:
        """`bodies`: what hidden regions compute, by the names of ODS (see `read_bodies`)."""
        self.records = records
        self.overrides = overrides
        self.bodies = bodies
        self.enums: dict[str, str] = {}

    def row(self, op: Record) -> str:
        """The row of one op, in lines."""
        lines: dict[str, list[str]] = {}
        operands, properties = self._arguments(op)
        results = list(self.records.arguments(op["results"]))
        text = re.sub(r"\s+", " ", op["assemblyFormat"] or "").strip()
        override = self._override(op).lines
        text = override.get("format", text)
        lines["operands"] = [self._value(key, record) for key, record in operands]
        lines["results"] = [self._value(key, record) for key, record in results]
        lines["regions"] = [
            key + ("*" if is_a(record, "VariadicRegion") else "")
            for key, record in self.records.arguments(op["regions"])
        ]
        lines["successors"] = [
            key + ("*" if is_a(record, "VariadicSuccessor") else "")
            for key, record in self.records.arguments(op["successors"])
        ]
        lines["types"] = self._types(op, operands, results, properties, text)
        lines["traits"] = self._traits(op)
        made = [f"op {op['opName']}"]
        made += [
            f"{key} {override.get(key) or ' '.join(value)}"
            for key, value in lines.items()
            if value or key in override
        ]
        made[2:2] = [
            override.get(f"property {key}") or f"property {key} {self._property(key, record)}"
            for key, record in properties
        ]
        if op["!name"] in self.bodies or "body" in override:
            made.append(f"body {override.get('body') or self.bodies[op['!name']]}")
        made += [f"format {text}"] if text else []
        return "\n".join(made)

    def _override(self, op: Record) -> Override:
        """What is known of the op, or else of a class of ODS that it is of."""
        for key in (self.records.op_name(op), *reversed(op["!superclasses"])):
            if key in self.overrides:
                return self.overrides[key]
        return Override({})

    # -- arguments -----------------------------------------------------------

    def _arguments(self, op: Record) -> tuple[list[tuple[str, Record]], list[tuple[str, Record]]]:
        operands: list[tuple[str, Record]] = []
        properties: list[tuple[str, Record]] = []
        for key, record in self.records.arguments(op["arguments"]):
            kinds = operands if is_a(record, "TypeConstraint") else properties
            kinds.append((key, record))
        return operands, properties

    def _value(self, key: str, record: Record) -> str:
        return key + ("*" if is_a(record, "Variadic") else "?" if is_a(record, "Optional") else "")

    def _property(self, key: str, record: Record) -> str:
        presence, default = "required", ""
        while True:
            if is_a(record, "UnitAttr") or is_a(record, "UnitProp"):
                return "optional unit"
            if is_a(record, "OptionalAttr"):
                presence = "optional"
            elif any(is_a(record, kind) for kind in _DEFAULT_VALUED):
                presence = "default" if is_a(record, "DefaultValuedAttr") else "default-optional"
                default = record["defaultValue"]
            if not record.get("baseAttr"):
                break
            record = self.records[record["baseAttr"]]
        kind = self._kind(record)
        if presence.startswith("default"):
            text = self._default(kind, record, default)
            if text is None:
                presence = "optional"
            else:
                return f"{presence} {kind} {text}"
        return f"{presence} {kind}"

    def _kind(self, record: Record) -> str:
        if is_a(record, "SymbolNameAttr"):
            return "symbol"
        if is_a(record, "EnumAttr"):
            mnemonic = f"{self.records[record['dialect']]['name']}.{record['mnemonic']}"
            bracketed = (record["assemblyFormat"] or "").strip().startswith("`<`")
            return f"dialect:{mnemonic}" if bracketed else f"keyword:{mnemonic}"
        if is_a(record, "EnumAttrInfo"):
            return f"enum:{self._enum(record)}"
        if is_a(record, "AttrDef"):
            mnemonic = f"{self.records[record['dialect']]['name']}.{record['mnemonic']}"
            return f"dialect:{mnemonic}" if record["mnemonic"] else "any"
        if is_a(record, "DenseArrayAttrBase"):
            return f"array:{_ARRAYS.get(record['!name'], 'any')}"
        if "StringAttr" in (record.get("storageType") or ""):
            return "string"
        value = record.get("valueType")
        if any(
            word in (record.get("storageType") or "")
            for word in ("AffineMapAttr", "IntegerSetAttr")
        ):
            return "any"
        built = value and type_of_builder(self.records[value].get("builderCall") or "")
        if built and built != "none":
            return f"typed:{built}"
        return "any"

    def _enum(self, record: Record) -> str:
        name = record["className"]
        value = self.records[record["valueType"]]
        cases = [self.records[case] for case in record["enumerants"]]
        names = " ".join(f"{case['str']}={case['value']}" for case in cases)
        bits = "bits" if is_a(record, "BitEnumBase") else "one"
        built = type_of_builder(value.get("builderCall") or "") or "i32"
        self.enums[name] = f"enum {name} {built} {bits} {names}"
        return name

    def _default(self, kind: str, record: Record, value: str) -> str | None:
        """A default in MLIR's text; None for one that only C++ knows."""
        value = value.strip()
        head, _, rest = kind.partition(":")
        if head == "typed":
            if rest == "i1":
                return value if value in ("true", "false") else None
            return f"{value} : {rest}" if re.fullmatch(r"-?\d+", value) else None
        if head in ("dialect", "keyword", "enum") and re.fullmatch(r"[\w:]+", value):
            symbol = value.rpartition("::")[2]
            enum = self.records[record["enum"]] if record.get("enum") else record
            for case in map(self.records.__getitem__, enum.get("enumerants") or ()):
                if case["symbol"] != symbol:
                    continue
                if head == "enum":
                    built = type_of_builder(self.records[record["valueType"]]["builderCall"])
                    return f"{case['value']} : {built}"
                if head == "dialect":
                    return f"#{rest}<{case['str']}>"
                dialect, _, mnemonic = rest.partition(".")
                return f"#{dialect}<{mnemonic} {case['str']}>"
        if head == "array" and value == "{}":
            return f"array<{rest}>"
        return "[]" if value == "{}" and is_a(record, "ArrayAttrBase") else None

    # -- types ---------------------------------------------------------------

    def _types(
        self,
        op: Record,
        operands: list[tuple[str, Record]],
        results: list[tuple[str, Record]],
        properties: list[tuple[str, Record]],
        text: str,
    ) -> list[str]:
        values = [*operands, *results]
        given = _given(text, [key for key, _ in operands], [key for key, _ in results])
        rules = dict(self._resolvers(op, operands, results, properties, given))
        made: list[str] = []
        for key, record in values:
            if key in given:
                continue
            if key in rules:
                made.append(f"{key}={rules[key]}")
                continue
            while record.get("baseType"):
                record = self.records[record["baseType"]]
            call = record.get("builderCall") or ""
            built = type_of_builder(call)
            if call and not built and record.get("typeName"):
                built = f"!{record['typeName']}"
            if built:
                made.append(f"{key}=is:{built}")
        return made

    def _resolvers(
        self,
        op: Record,
        operands: list[tuple[str, Record]],
        results: list[tuple[str, Record]],
        properties: list[tuple[str, Record]],
        given: set[str],
    ) -> Iterable[tuple[str, str]]:
        keys = [key for key, _ in (*operands, *results)]
        attributes = [key for key, _ in properties]
        known: dict[str, str] = {}
        traits = self.records.traits(op)
        for trait in traits:
            if is_a(trait, "AllTypesMatch"):
                source = next((key for key in trait["values"] if key in given), None)
                if source is None:
                    source = next((key for key in trait["values"] if key in attributes), None)
                    rule = f"attribute:{source}"
                else:
                    rule = f"same:{source}"
                if source is not None:
                    known.update({key: rule for key in trait["values"] if key not in given})
            elif trait["!name"] in ("SameOperandsAndResultType", "SameTypeOperands"):
                only_operands = trait["!name"] == "SameTypeOperands"
                pool = [key for key, _ in operands] if only_operands else keys
                source = next((key for key in pool if key in given), None)
                if source is not None:
                    known.update({key: f"same:{source}" for key in pool if key not in given})
        for _ in range(2):
            for trait in traits:
                if not is_a(trait, "TypesMatchWith"):
                    continue
                source, target = trait["lhs"], trait["rhs"]
                if target in given or target in known:
                    continue
                rule = _transformer(trait["transformer"])
                if source in given or source in known:
                    known[target] = f"{rule}:{source}"
        return known.items()

    def _traits(self, op: Record) -> list[str]:
        found: list[str] = []
        for trait in self.records.traits(op):
            name = TRAITS.get(trait["!name"])
            if name:
                found.append(name)
            if is_a(trait, "SingleBlockImplicitTerminator"):
                inner = " ".join(self.records[part].get("trait") or "" for part in trait["traits"])
                cpp = re.search(r"SingleBlockImplicitTerminator<(?:::)?(?:\w+::)*(\w+)>", inner)
                if cpp is not None:
                    found.append(f"implicit:{self._terminator(op, cpp[1])}")
        return list(dict.fromkeys(found))

    def _terminator(self, op: Record, cpp: str) -> str:
        dialect = self.records[op["opDialect"]]["name"]
        mine = [
            name
            for key, name in self.records.ops_by_class.items()
            if key in (cpp, f"{dialect}_{cpp}") or key.endswith(f"_{cpp}")
        ]
        mine = [name for name in mine if name.startswith(dialect + ".")] or mine
        return mine[0] if mine else f"{dialect}.{cpp.removesuffix('Op').lower()}"


_DEFAULT_VALUED = ("DefaultValuedAttr", "DefaultValuedOptionalAttr")
_ARRAYS = {
    "DenseBoolArrayAttr": "i1",
    "DenseI8ArrayAttr": "i8",
    "DenseI16ArrayAttr": "i16",
    "DenseI32ArrayAttr": "i32",
    "DenseI64ArrayAttr": "i64",
    "DenseF32ArrayAttr": "f32",
    "DenseF64ArrayAttr": "f64",
}


def _given(text: str, operands: list[str], results: list[str]) -> set[str]:
    """The values whose types a format names."""
    words = re.findall(r"(?<!ref\()type\(([^()]*)\)", text)
    pairs = re.findall(r"functional-type\(([^,()]*),([^()]*)\)", text)
    words += [word for pair in pairs for word in pair]
    found: set[str] = set()
    groups = {"operands": operands, "results": results}
    for word in map(str.strip, words):
        found.update(groups.get(word, [word.lstrip("$")]))
    return found


def _transformer(text: str) -> str:
    for piece, rule in TRANSFORMERS.items():
        if piece in text:
            return rule
    return "same" if text.strip() == "$_self" else "unknown"


def read_bodies(text: str) -> dict[str, str]:
    """What the builders of regions compute that MLIR generates in C++, by the class of the op:
    `1=cast_signed:arg2 arg0; 2=mul 1 arg1; yield 2`."""
    made: dict[str, str] = {}
    for name, body in re.findall(
        r"void (\w+)::regionBuilder\(ImplicitLocOpBuilder.*?\n(.*?)\n}\n", text, flags=re.DOTALL
    ):
        steps = [
            f"{number}={_step(function, arguments)}"
            for number, function, arguments in re.findall(
                r"Value value(\d+) = helper\.(\w+)\((.*)\);", body
            )
        ]
        yielded = [_operand(value) for value in re.findall(r"yields\.push_back\((.*)\);", body)]
        made[name] = "; ".join([*steps, " ".join(["yield", *yielded])])
    return made


def _step(function: str, arguments: str) -> str:
    parts = [part.strip() for part in arguments.split(", ") if part.strip() != "emitError"]
    if function == "constant":
        return f"constant:{parts[0].strip(chr(34)).partition(' ')[0]}"
    if function == "index":
        return f"index:{parts[0]}"
    word, *rest = parts
    name = word.rpartition("::")[2].removesuffix("Val")
    name = name if "::" in word else name.upper()
    if function == "buildTypeFn":
        return f"{name}:{_operand(rest[0])} {_operand(rest[1])}"
    return " ".join([name, *map(_operand, rest)])


def _operand(text: str) -> str:
    argument = re.search(r"getArgument\((\d+)\)", text)
    if argument:
        return f"arg{argument[1]}"
    real = re.search(r"getFloat(\d+)Type", text)
    if real:
        return f"f{real[1]}"
    integer = re.search(r"getIntegerType\((\d+)\)", text)
    return f"i{integer[1]}" if integer else text.strip().removeprefix("value")
