"""`lit lit_tests`: the same files that pytest runs in process, with real processes."""

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import lit.formats

config.name = "qdialect"  # noqa: F821
config.test_format = lit.formats.ShTest(execute_external=False)  # noqa: F821
config.suffixes = [".mlir"]  # noqa: F821
config.test_source_root = str(Path(__file__).parent)  # noqa: F821
config.test_exec_root = os.path.join(  # noqa: F821
    os.environ.get("TMPDIR", "/tmp"), f"qdialect-lit-{os.getuid()}"
)

tools = str(Path(sys.executable).parent)
path = os.pathsep.join([tools, os.environ.get("PATH", "")])
config.environment["PATH"] = path  # noqa: F821
runner = f"{sys.executable} -m qdialect.testing.lit"
config.substitutions.append((r"\bnot\b(?= +\S)", f"{runner} not"))  # noqa: F821
config.substitutions.append((r"\bFileCheck\b", "filecheck"))  # noqa: F821

for feature in ("onnx", "onnxruntime"):
    if find_spec(feature):
        config.available_features.add(feature)  # noqa: F821
for feature in ("mlir-opt", "iree-opt"):
    if shutil.which(feature, path=path):
        config.available_features.add(feature)  # noqa: F821
