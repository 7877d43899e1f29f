"""`tools.check_package`: what it runs, and how it tells what failed."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tools import check_package
from tools.check_package import NONE, VERSIONS, WORKS, Failed, Maker, Place, Result

ROOT = Path(__file__).parents[2]


def test_every_extra_is_checked() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    section = text.partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    assert {NONE, *re.findall(r"^(\w+) = \[", section, re.M)} == WORKS.keys()


def test_versions_are_those_of_the_package() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'requires-python = ">={VERSIONS[0]}"' in text
    assert check_package.version_of(sys.executable) == ".".join(map(str, sys.version_info[:2]))
    assert check_package.version_of("no-such-python") is None


def test_a_failure_is_one_line(tmp_path: Path) -> None:
    code = "import sys; print('error: no match'); print('bye'); sys.exit(3)"
    with pytest.raises(Failed, match=r"exit code 3: error: no match$"):
        check_package.executed([sys.executable, "-c", code], tmp_path, 60)
    with pytest.raises(Failed, match="not done after 1 s"):
        check_package.executed([sys.executable, "-c", "import time; time.sleep(30)"], tmp_path, 1)
    with pytest.raises(Failed, match="No such file"):
        check_package.executed([str(tmp_path / "nothing")], tmp_path, 60)


def test_nothing_of_ours_is_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QDIALECT_MLIR_OPT", "/somewhere/mlir-opt")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    code = "import os; print(sorted(k for k in os.environ if k.startswith(('QD', 'PYTHON'))))"
    said = check_package.executed([sys.executable, "-c", code], tmp_path, 60)
    assert said.strip() == "['QDIALECT_ENGINES']"


class Installed(Place):
    """This environment, in place of an empty one."""

    engines = "iree  IREE llvm-cpu  ready\n"

    def run(self, line: str, cwd: Path, seconds: float) -> str:
        if line == "qopt engines":
            return self.engines
        if line == check_package.EXPORT[0]:
            raise Failed("qopt-translate: exit code 2: note: pip install 'qdialect[onnx]'")
        return ""


def test_what_an_extra_is_for_has_to_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted: list[list[str]] = []
    place = Installed(Path(sys.prefix))
    monkeypatch.setattr(Maker, "environment", lambda *_: place)
    monkeypatch.setattr(Maker, "install", lambda *args: wanted.append(args[2]))
    wheel = tmp_path / "qdialect-1.whl"
    for extra in (NONE, "iree"):
        check_package.works(Maker(None), "python", extra, wheel, 60.0)
    assert wanted == [[str(wheel)], [f"qdialect[iree] @ {wheel.as_uri()}"]]
    monkeypatch.setattr(Installed, "engines", "iree  IREE llvm-cpu  needs iree-compile\n")
    with pytest.raises(Failed, match="iree IREE llvm-cpu needs iree-compile"):
        check_package.works(Maker(None), "python", "iree", wheel, 60.0)
    with pytest.raises(Failed, match=r"qdialect\[onnx\]"):
        check_package.works(Maker(None), "python", "onnx", wheel, 60.0)
    monkeypatch.setattr(Installed, "run", lambda *_: "")
    with pytest.raises(Failed, match="an ONNX model without onnx"):
        check_package.works(Maker(None), "python", NONE, wheel, 60.0)


def test_each_combination_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def works(maker: Maker, python: str, extra: str, wheel: Path, seconds: float) -> None:
        if extra == "onnx":
            raise Failed("uv pip install: no wheel")

    monkeypatch.setattr(check_package, "built", lambda *_: Path("x.whl"))
    monkeypatch.setattr(check_package, "works", works)
    assert check_package.main([]) == 1
    said = capsys.readouterr()
    assert re.search(r"\| none +\| ok, 0 s \|", said.out)
    assert re.search(r"\| onnx +\| +fails \|", said.out)
    version = check_package.version_of(sys.executable)
    assert f"- {version}, onnx: uv pip install: no wheel" in said.out
    assert f"check_package: {version}, report: ok, 0 s" in said.err
    assert check_package.main(["report"]) == 0


def test_what_was_not_built_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def built(*_: object) -> Path:
        raise Failed("twine: exit code 1")

    monkeypatch.setattr(check_package, "built", built)
    assert check_package.main(["none"]) == 1
    assert "- sdist and wheel: twine: exit code 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["nothing"], "no extra 'nothing'"), (["--pythons", "no-such-python"], "does not start")],
)
def test_wrong_usage(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        check_package.main(arguments)
    assert raised.value.code == 2 and said in capsys.readouterr().err


def test_matrix_has_a_line_for_each_extra() -> None:
    results = [Result("3.10, onnx", "", 3.0), Result("3.11, onnx", "no", 1.0)]
    text = check_package.matrix(results, ["onnx"], ["3.10", "3.11"])
    assert "| onnx  | ok, 3 s | fails |" in text
