"""`lit lit_tests`: the same files that pytest runs in process, with real processes.

The tools are those next to the Python that runs lit, whatever PATH is. `--param filecheck=llvm`
takes LLVM's FileCheck (of PATH, or of the `llvm` wheel), `--param filecheck=PROGRAM` any other; the
default is Python's filecheck where it is installed.
"""

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

tools = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
for package in ("mlir", "llvm"):
    found = find_spec(package)
    tools += [
        str(Path(each) / "bin") for each in (found and found.submodule_search_locations) or ()
    ]
path = os.pathsep.join(tools)
config.environment["PATH"] = path  # noqa: F821
# A checkout tests its own package.
root = str(Path(__file__).resolve().parents[1])
config.environment["PYTHONPATH"] = os.pathsep.join(  # noqa: F821
    filter(None, [root, os.environ.get("PYTHONPATH")])
)
programs = {"python": "filecheck", "llvm": "FileCheck"}
default = "python" if shutil.which("filecheck", path=path) else "llvm"
chosen = lit_config.params.get("filecheck", default)  # noqa: F821
checker = shutil.which(programs.get(chosen, chosen), path=path)
if checker is None:
    lit_config.fatal(f"there is no '{programs.get(chosen, chosen)}' to check with")  # noqa: F821
runner = f"{sys.executable} -m qdialect.testing.lit"
config.substitutions.append((r"\bnot\b(?= +\S)", f"{runner} not"))  # noqa: F821
config.substitutions.append((r"(?<![\w./-])[Ff]ile[Cc]heck(?= )", checker))  # noqa: F821

for feature in ("onnx", "onnxruntime"):
    if find_spec(feature):
        config.available_features.add(feature)  # noqa: F821
for feature in ("mlir-opt", "iree-opt"):
    if shutil.which(feature, path=path):
        config.available_features.add(feature)  # noqa: F821
