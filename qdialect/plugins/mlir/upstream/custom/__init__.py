"""The directives `custom<Name>(..)` of formats, each in a module with those like it."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from qdialect.plugins.mlir.upstream.directives import CustomSyntax

#: in which module of `qdialect.plugins.mlir.upstream.custom` a directive is
_MODULES = {
    "Argument": "regions",
    "ArgumentList": "regions",
    "Assignments": "regions",
    "BareMap": "memory",
    "ComplexOpType": "operation_types",
    "ConstantValue": "loops_and_reductions",
    "ConvolutionDimensions": "dimension_numbers",
    "CustomCallTarget": "dimension_numbers",
    "DotDimensionNumbers": "dimension_numbers",
    "DynamicIndexList": "indices",
    "ExponentMantissa": "dimension_numbers",
    "Extents": "memory",
    "FirstTypeUnless": "types",
    "GlobalMemrefOpTypeAndInitialValue": "memory",
    "HiddenRegion": "structured",
    "IdentityMaps": "structured",
    "KindRegion": "structured",
    "LoopBounds": "regions",
    "MapsUnlessIdentity": "structured",
    "MoreAttributes": "structured",
    "OwnAttributes": "structured",
    "PairwiseOpType": "operation_types",
    "Payload": "structured",
    "PayloadRegion": "structured",
    "PrecisionConfig": "dimension_numbers",
    "PrecisionConfigAndAlgorithm": "dimension_numbers",
    "Reduction": "loops_and_reductions",
    "SameOperandsAndResultType": "operation_types",
    "SelectOpType": "operation_types",
    "Signature": "functions",
    "SliceRanges": "dimension_numbers",
    "SwitchCases": "regions",
    "TraitDictionary": "structured",
    "TupleOpType": "operation_types",
    "TypeList": "types",
    "TypeUnless": "types",
    "VariableOpTypeOrInitialValue": "properties",
    "VariadicOperandWithAttribute": "dimension_numbers",
    "VariadicSameOperandsAndResultType": "operation_types",
    "Visibility": "functions",
    "WhileLoop": "loops_and_reductions",
    "WindowAttributes": "dimension_numbers",
    "WordDictionary": "properties",
}


def is_custom(name: str) -> bool:
    """Whether there is a directive `custom<name>`."""
    return name in _MODULES


@cache
def custom(name: str) -> CustomSyntax:
    """The directive `custom<name>`; KeyError if there is none."""
    module = import_module(f"qdialect.plugins.mlir.upstream.custom.{_MODULES[name]}")
    return module.DIRECTIVES[name]
