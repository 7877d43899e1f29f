"""qdialect: the quantization middle-end.

    import qdialect as qd

    model = qd.load("model.onnx")
    model = qd.optimize(model, target="onnxruntime", numerics="exact")
    qd.save(model, "faster.onnx")

Everything below is imported when it is first used.
"""

from qdialect import children as children

# isort: split
# What is above decides where all below is found.
from importlib import import_module
from typing import TYPE_CHECKING, Any

from qdialect.deprecation import Renamed, find_moved_modules

__version__ = "0.1.0"

_WHERE = {
    "Inspection": "qdialect.workflows.inspect",
    "Interpreter": "qdialect.interpreter",
    "InputError": "qdialect.errors",
    "Model": "qdialect.workflows.model",
    "OutputDifference": "qdialect.workflows.compare",
    "PassManager": "qdialect.pipeline.manager",
    "PassRegistry": "qdialect.pipeline.registry",
    "QContext": "qdialect.ir.context",
    "QError": "qdialect.errors",
    "Recipe": "qdialect.quantizer.recipe",
    "Target": "qdialect.targets.base",
    "UnsupportedError": "qdialect.errors",
    "UsageError": "qdialect.errors",
    "calibrate": "qdialect.api",
    "check": "qdialect.api",
    "compare_torch": "qdialect.api",
    "diff": "qdialect.api",
    "get_target": "qdialect.targets.installed",
    "inspect": "qdialect.api",
    "list_targets": "qdialect.targets.installed",
    "from_torch": "qdialect.workflows.model",
    "load": "qdialect.workflows.model",
    "new_context": "qdialect.ir.context",
    "optimize": "qdialect.api",
    "parse_pipeline": "qdialect.pipeline.text",
    "quantize": "qdialect.api",
    "run": "qdialect.api",
    "run_passes": "qdialect.workflows.model",
    "save": "qdialect.workflows.model",
    "to_torch": "qdialect.api",
}

__all__ = [
    "InputError",
    "Inspection",
    "Interpreter",
    "Model",
    "OutputDifference",
    "PassManager",
    "PassRegistry",
    "QContext",
    "QError",
    "Recipe",
    "Target",
    "UnsupportedError",
    "UsageError",
    "calibrate",
    "check",
    "compare_torch",
    "diff",
    "from_torch",
    "get_target",
    "inspect",
    "list_targets",
    "load",
    "new_context",
    "optimize",
    "parse_pipeline",
    "quantize",
    "run",
    "run_passes",
    "save",
    "to_torch",
]

if TYPE_CHECKING:
    from qdialect.api import (
        Model,
        calibrate,
        check,
        compare_torch,
        diff,
        from_torch,
        inspect,
        load,
        optimize,
        quantize,
        run,
        run_passes,
        save,
        to_torch,
    )
    from qdialect.errors import InputError, QError, UnsupportedError, UsageError
    from qdialect.interpreter import Interpreter
    from qdialect.ir.context import QContext, new_context
    from qdialect.pipeline.manager import PassManager
    from qdialect.pipeline.registry import PassRegistry
    from qdialect.pipeline.text import parse_pipeline
    from qdialect.quantizer.recipe import Recipe
    from qdialect.targets.base import Target
    from qdialect.targets.installed import get_target, list_targets
    from qdialect.workflows.compare import OutputDifference
    from qdialect.workflows.inspect import Inspection


find_moved_modules()

_RENAMED: dict[str, Renamed] = {}
"""Names of before, which warn (docs/reference/api.md has the rule): none yet."""


def __getattr__(name: str) -> Any:
    if name in _RENAMED:
        from qdialect.deprecation import current_name

        name = current_name("qdialect", name, _RENAMED)
        if name in globals():
            return globals()[name]
    if name not in _WHERE:
        raise AttributeError(f"module 'qdialect' has no attribute '{name}'")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
