"""Makes the tables of what ODS demands of the types of operands and results.

A table first has the constraints, each with its predicate and its name in errors, then the ops:

    type 0 elem-or-self(any(signless-or-index,signless))  signless-integer-like
    attr 0 all(integer-attr,typed(signless:32))  32-bit signless integer attribute
    op addi
    operands 0 0
    results 0
    attributes axis=0
    traits same-operands-and-result-type
    match type {lhs, rhs, result}  all of {lhs, rhs, result} have same type

A predicate that is C++ we have no word for is `unknown`, and refuses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tools.upstream_tables.records import Record, Records, is_a

ISA = {
    "::mlir::FloatType": "float",
    "::mlir::IndexType": "index",
    "::mlir::IntegerType": "integer",
    "::mlir::ComplexType": "complex",
    "::mlir::FunctionType": "function",
    "::mlir::RankedTensorType": "ranked-tensor",
    "::mlir::UnrankedTensorType": "unranked-tensor",
    "::mlir::TensorType": "tensor",
    "::mlir::VectorType": "vector",
    "::mlir::MemRefType": "memref",
    "::mlir::UnrankedMemRefType": "unranked-memref",
    "::mlir::BaseMemRefType": "any-memref",
    "::mlir::ShapedType": "shaped",
    "mlir::quant::QuantizedType": "quantized",
    "::mlir::quant::UniformQuantizedType": "per-tensor",
    "::mlir::quant::UniformQuantizedPerAxisType": "per-axis",
    "::mlir::BFloat16Type": "named:bf16",
    "::mlir::TupleType": "named:tuple",
    "::mlir::stablehlo::TokenType": "named:stablehlo.token",
    "::mlir::stablehlo::FutureType": "named:stablehlo.future",
    "mlir::tosa::mxint8Type": "named:tosa.mxint8",
    "::mlir::ArrayAttr": "array-attr",
    "::mlir::BoolAttr": "all(integer-attr,typed(signless:1))",
    "::mlir::DenseBoolArrayAttr": "dense-array:i1",
    "::mlir::DenseI32ArrayAttr": "dense-array:i32",
    "::mlir::DenseI64ArrayAttr": "dense-array:i64",
    "::mlir::DenseIntElementsAttr": "integer-elements-attr",
    "::mlir::FloatAttr": "float-attr",
    "::mlir::IntegerAttr": "integer-attr",
    "::mlir::StringAttr": "string-attr",
    "::mlir::TypeAttr": "type-attr",
    "::mlir::UnitAttr": "unit-attr",
}
WORDS = {
    "true": "true",
    "$_self.isSignlessInteger()": "signless",
    "$_self.isUnsignedInteger()": "unsigned",
    "$_self.isSignedInteger()": "signed",
    "$_self.isSignlessIntOrIndex()": "any(signless,index)",
    "$_self.hasTrait<::mlir::ValueSemantics>()": "value-semantics",
    "::llvm::cast<::mlir::ShapedType>($_self).hasRank()": "has-rank",
    "::llvm::cast<::mlir::ShapedType>($_self).hasStaticShape()": "static-shape",
    "mlir::tosa::isa_tosa_shape_type($_self)": "named:tosa.shape",
    "mlir::hlo::isValidQuantizedDimension($_self)": "axis-fits",
    # Our types have no zero point outside of their storage, and no storage with a sign.
    "mlir::hlo::isValidStablehloQuantizedElementType($_self)": "true",
    "::llvm::isa<::mlir::Type>(::llvm::cast<::mlir::TypeAttr>($_self).getValue())": "true",
    "!::llvm::cast<::mlir::IntegerAttr>($_self).getValue().isNegative()": "value>=:0",
    "::llvm::cast<::mlir::IntegerAttr>($_self).getValue().isStrictlyPositive()": "value>:0",
    **{f"$_self.isF{bits}()": f"named:f{bits}" for bits in (16, 32, 64)},
    "$_self.isBF16()": "named:bf16",
}
TRAITS = {
    "SameInputOutputTensorDims": "same-input-output-dimensions",
    "SameOperandsAndResultType": "same-operands-and-result-type",
    "SameOperandsAndResultShape": "same-operands-and-result-shape",
    "SameOperandsAndResultElementType": "same-operands-and-result-element-type",
    "SameOperandsElementType": "same-operands-element-type",
    "SameOperandsShape": "same-operands-shape",
    "SameTypeOperands": "same-type-operands",
    "Elementwise": "elementwise",
    "ResultsBroadcastableShape": "broadcastable",
    "SameOperandsAndResultRank": "same-operands-and-result-rank",
    "TosaResolvableShapeOperands": "resolvable-shapes",
    "TosaShapeOperatorWithSameRanks": "same-shape-ranks",
    "CompatibleOperandsElementType": "compatible-operands-element-type",
    "CompatibleOperandsAndResultElementType": "compatible-element-type",
    "CompatibleOperandsAndResultType": "compatible-type",
    "PairwiseSameOperandAndResultType": "pairwise-same-type",
    "PairwiseSameOperandAndResultElementType": "pairwise-same-element-type",
}
MATCHES = {
    "AllTypesMatch": "type",
    "AllElementTypesMatch": "element-type",
    "AllShapesMatch": "shape",
    "AllRanksMatch": "rank",
}


class Constraints:
    """The constraints of one dialect, numbered as they are met; those of attributes on request."""

    def __init__(self, attributes: bool) -> None:
        self._has_attributes = attributes
        self._numbers: dict[tuple[str, str], int] = {}
        self._attributes: dict[tuple[str, str], int] = {}
        self._rows: dict[str, list[str]] = {}

    def add(self, records: Records) -> None:
        """What the records of a file say."""
        for op in records.of_class("Op"):
            self._rows.setdefault(op["opName"], self._row(records, op))

    def text(self) -> str:
        """The table."""
        lines = [
            f"{kind} {n} {what}\t{name}"
            for kind, numbers in (("type", self._numbers), ("attr", self._attributes))
            for (what, name), n in numbers.items()
        ]
        for name, row in sorted(self._rows.items()):
            lines += [f"op {name}", *row]
        return "\n".join(lines) + "\n"

    def _row(self, records: Records, op: Record) -> list[str]:
        row: list[str] = []
        for key, part in (("operands", "arguments"), ("results", "results")):
            numbers = [str(n) for n in self._of_values(records, op[part])]
            if numbers:
                row.append(f"{key} {' '.join(numbers)}")
        if self._has_attributes and (of := [*self._of_attributes(records, op["arguments"])]):
            row.append(f"attributes {' '.join(f'{name}={n}' for name, n in of)}")
        traits = records.traits(op)
        names = [name for t in traits for name in (t["!name"], t.get("trait"))]
        known = list(dict.fromkeys(TRAITS[name] for name in names if name in TRAITS))
        # What is a predicate is checked before what is a C++ class.
        known.sort(key=lambda word: word != "same-input-output-dimensions")
        if known:
            row.append(f"traits {' '.join(known)}")
        for trait in traits:
            kind = next((word for name, word in MATCHES.items() if is_a(trait, name)), None)
            if kind and all(re.fullmatch(r"\w+", name) for name in trait.get("values", ("?",))):
                row.append(f"match {kind} {' '.join(trait['values'])}\t{trait['summary']}")
        return row

    def _of_values(self, records: Records, dag: Record) -> Iterator[int]:
        for _, record in records.arguments(dag):
            if is_a(record, "Property") or is_a(record, "Attr"):
                continue
            while any(is_a(record, c) for c in ("Variadic", "Optional", "VariadicOfVariadic")):
                record = records[record["baseType"]]
            predicate = _predicate(records, records[record["predicate"]])
            key = predicate, record["summary"].strip()
            yield self._numbers.setdefault(key, len(self._numbers))

    def _of_attributes(self, records: Records, dag: Record) -> Iterator[tuple[str, int]]:
        """Of those that must be more than there."""
        for name, record in records.arguments(dag):
            if not is_a(record, "Attr"):
                continue
            while any(is_a(record, c) for c in _OPTIONAL):
                record = records[record["baseAttr"]]
            predicate = _predicate(records, records[record["predicate"]])
            if predicate not in ("true", "unknown"):
                key = predicate, record["summary"].strip()
                yield name, self._attributes.setdefault(key, len(self._attributes))


_OPTIONAL = ("OptionalAttr", "DefaultValuedAttr", "DefaultValuedOptionalAttr")


def _predicate(records: Records, record: Any) -> str:
    if "CombinedPred" not in record["!superclasses"]:
        return _leaf(record["predExpr"])
    parts = [_predicate(records, records[child]) for child in record["children"]]
    kind = record["kind"]["def"]
    if kind == "PredCombinerAnd":
        parts = [part for part in dict.fromkeys(parts) if part != "true"]
        return parts[0] if len(parts) == 1 else f"all({','.join(parts)})" if parts else "true"
    if kind == "PredCombinerOr":
        parts = list(dict.fromkeys(parts))
        return parts[0] if len(parts) == 1 else f"any({','.join(parts)})"
    if kind == "PredCombinerNot":
        return f"not({parts[0]})"
    if kind == "PredCombinerSubstLeaves":
        if "getElementType" in record["replacement"]:
            return f"element({parts[0]})"
        return parts[0]
    if kind == "PredCombinerConcat" and "elementType" in record["prefix"]:
        return f"element({parts[0]})"
    return "unknown"


def _leaf(text: str) -> str:
    """The word for a condition in C++."""
    bare = re.sub(r"\s+", " ", text.strip())
    while bare.startswith("(") and bare.endswith(")") and _is_one_group(bare):
        bare = bare[1:-1].strip()
    if bare in WORDS:
        return WORDS[bare]
    found = re.fullmatch(r"\$_self\.is(Signless|Unsigned)Integer\((\d+)\)", bare)
    if found:
        return f"{found[1].lower()}:{found[2]}"
    found = re.fullmatch(r"::llvm::cast<::mlir::\w+Attr>\(\$_self\)\s*\.getType\(\)\s*(.*)", bare)
    if found:
        return _typed(found[1])
    found = re.fullmatch(r"::llvm::cast<::mlir::DenseArrayAttr>\(.*\)\.size\(\) == (\d+)", bare)
    if found:
        return f"size==:{found[1]}"
    found = re.fullmatch(r"::llvm::cast<::mlir::tosa::shapeType>\(.*\)\.getRank\(\) == (\d+)", bare)
    if found:
        return f"shape-rank==:{found[1]}"
    if bare.startswith(
        ("!::llvm::cast<::mlir::quant::Uniform", "::llvm::cast<::mlir::IntegerType>")
    ):
        return _storage(bare)
    found = re.fullmatch(r"::llvm::isa<([\w:]+)>\(\$_self\)", bare)
    if found:
        return ISA.get(found[1]) or _named(found[1])
    found = re.fullmatch(r"::llvm::cast<[\w:]+>\(\$_self\)\.getRank\(\) (==|>=|>) (\d+)", bare)
    if found and "shapeType" not in bare:
        return f"rank{found[1]}:{found[2]}"
    found = re.search(r"getStorageTypeIntegralWidth\(\) == (\d+)", bare)
    if found:
        return f"storage-width:{found[1]}"
    found = re.search(r"getShape\(\), \[\]\(auto v\) \{ return v (!=|==) (\d+); \}", bare)
    return f"extents{found[1]}:{found[2]}" if found else "unknown"


def _typed(text: str) -> str:
    """What the type of an attribute must be."""
    if text == ".getRank() == 1":
        return "typed(rank==:1)"
    element = text.removeprefix(".getElementType()")
    word = {".isIndex()": "index"}.get(element.strip()) or _leaf(f"$_self{element.strip()}")
    return f"typed(element({word}))" if element != text else f"typed({word})"


def _storage(text: str) -> str:
    """What the integers of a quantized type must be."""
    if text.endswith(".isSigned()"):
        return "unsigned-storage"
    return "true" if text.endswith(".getStorageType()).isSignless()") else "unknown"


def _named(cpp: str) -> str:
    """`!shape.size`, `f8E5M2`: a type that is one class of C++."""
    found = re.fullmatch(r"::mlir::(Float\w+)Type", cpp)
    if found:
        return f"named:{found[1].replace('Float', 'f')}"
    found = re.fullmatch(r"::mlir::shape::(\w+)Type", cpp)
    if found:
        return f"named:shape.{re.sub(r'(?<=[a-z])(?=[A-Z])', '_', found[1]).lower()}"
    return "named:tosa.shape" if cpp == "mlir::tosa::shapeType" else "unknown"


def _is_one_group(text: str) -> bool:
    depth = 0
    for index, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if not depth:
            return index == len(text) - 1
    return False
