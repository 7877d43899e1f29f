"""Quantizers of modules of PyTorch: what they make of a network answers test samples.

A program of its own, in an environment with torch and the tool:
`python of_module.py TOOL NAME FLOAT.onnx CALIBRATION.npz TESTS.npz OUT.npz [WEIGHTS]`.  Samples
have a leading sample axis.  A network that `exported_nets.py` wrote is made by it again; onnx2torch
makes a module of others.  OUT has outputs by name with a leading sample axis, and `bytes` of what
was made.

- `x86`, `xnnpack`: PT2E with torchao's quantizers, answered by PyTorch.
- `tico`: TICO's own quantizer; `tico-gptq`: after its GPTQ of 8-bit weights, for any module.
  Answered by PyTorch with its fake quantization.
- `int4`: torchao's weights of 4 bits in blocks of 32; answered by PyTorch.
- others: a recipe of ai-edge-quantizer for the file that litert-torch writes, answered by LiteRT.
"""

# pyright: basic, reportMissingImports=false
from __future__ import annotations

import importlib.util
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch

Inputs = tuple[torch.Tensor, ...]
Answer = Callable[[Inputs], Any]


def _module(name: str, path: Path, weights: str) -> torch.nn.Module:
    kind = name.split("-")[0]
    if kind in ("encoder", "decoder", "llama") or name == "minilm-dynamic":
        place = Path(__file__).parents[1] / "exported_nets.py"
        spec = importlib.util.spec_from_file_location("exported_nets", place)
        assert spec is not None and spec.loader is not None
        nets = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(nets)
        return nets.network(name, Path(weights) if weights else None)
    return import_module("onnx2torch").convert(str(path)).eval()


def _fix_shapes(module: torch.nn.Module, inputs: Inputs) -> None:
    """Let reshapes of onnx2torch take the shapes that they have for these inputs: they look into
    the shape as they run, which torch.export refuses."""
    reshapes = [part for part in module.modules() if type(part).__name__ == "OnnxReshape"]
    shapes: dict[int, torch.Size] = {}
    hooks = [
        part.register_forward_hook(lambda part, _, made: shapes.update({id(part): made.shape}))
        for part in reshapes
    ]
    module(*inputs)
    for hook in hooks:
        hook.remove()
    for part in reshapes:
        part.forward = partial(_reshaped, shapes[id(part)])


def _reshaped(shape: torch.Size, x: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
    return x.reshape(shape)


def _samples(path: Path, names: Sequence[str]) -> list[Inputs]:
    with np.load(path) as stored:
        arrays = [torch.from_numpy(stored[name]) for name in names]
    return list(zip(*arrays, strict=True))


def _exported(module: torch.nn.Module, inputs: Inputs) -> Any:
    return torch.export.export(module, inputs).module()


def _size(module: torch.nn.Module) -> int:
    return sum(value.nbytes for value in module.state_dict().values() if torch.is_tensor(value))


def _pt2e(module: torch.nn.Module, samples: Sequence[Inputs], tool: str) -> tuple[Answer, int]:
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    if tool == "x86":
        from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

        config = x86.get_default_x86_inductor_quantization_config()
        quantizer = x86.X86InductorQuantizer().set_global(config)
    else:
        from torchao.testing.pt2e import _xnnpack_quantizer as xnnpack

        config = xnnpack.get_symmetric_quantization_config(is_per_channel=True)
        quantizer = xnnpack.XNNPACKQuantizer().set_global(config)
    prepared = prepare_pt2e(_exported(module, samples[0]), quantizer)
    for sample in samples:
        prepared(*sample)
    made = convert_pt2e(prepared)
    return (lambda inputs: made(*inputs)), _size(made)


def _int4(module: Any, samples: Sequence[Inputs], _: str) -> tuple[Answer, int]:
    from torchao.quantization import IntxWeightOnlyConfig, quantize_
    from torchao.quantization.granularity import PerGroup
    from torchao.quantization.quant_primitives import MappingType

    layers = {name for name, part in module.named_modules() if isinstance(part, torch.nn.Linear)}
    quantize_(
        module,
        IntxWeightOnlyConfig(import_module("torch").int4, PerGroup(32), MappingType.ASYMMETRIC),
    )
    rest = sum(
        v.nbytes for n, v in module.state_dict().items() if n.removesuffix(".weight") not in layers
    )
    # torchao keeps codes as bytes: here half a byte a weight, and a scale and zero point a block
    blocks = sum(part.weight.numel() for n, part in module.named_modules() if n in layers)
    return (lambda inputs: module(*inputs)), int(rest + blocks * (1 / 2 + (4 + 1) / 32))


def _tico(module: torch.nn.Module, samples: Sequence[Inputs], tool: str) -> tuple[Answer, int]:
    from tico.quantization import convert, prepare
    from tico.quantization.config.gptq import UniversalGPTQConfig
    from tico.quantization.config.ptq import PTQConfig

    if tool == "tico-gptq":
        prepared = prepare(module, UniversalGPTQConfig(weight_bits=8, show_progress=False))
        for sample in samples:
            prepared(*sample)
        module = convert(prepared)
    prepared = prepare(module, PTQConfig(strict_wrap=False))
    for sample in samples:
        prepared(*sample)
    made = convert(prepared)
    return (lambda inputs: made(*inputs)), 0


def _litert(module: torch.nn.Module, samples: Sequence[Inputs], tool: str) -> tuple[Answer, int]:
    import litert_torch
    from ai_edge_litert.interpreter import Interpreter
    from ai_edge_quantizer import quantizer, recipe

    with tempfile.TemporaryDirectory() as temporary:
        plain, path = (str(Path(temporary) / f"{name}.tflite") for name in ("float", "made"))
        litert_torch.convert(module, samples[0]).export(plain)
        engine = Interpreter(plain)
        key = next(iter(engine.get_signature_list()))
        details = engine.get_signature_runner(key).get_input_details()
        names = sorted(details, key=lambda name: int(name.rpartition("_")[2]))

        def row(inputs: Inputs) -> dict[str, np.ndarray]:
            pairs = zip(names, inputs, strict=True)
            return {n: v.numpy().astype(details[n]["dtype"]) for n, v in pairs}

        _check(plain, key, [row(sample) for sample in samples], [module(*s) for s in samples])
        work = quantizer.Quantizer(plain, getattr(recipe, tool)())
        calibrated = (
            work.calibrate({key: list(map(row, samples))}) if tool.startswith("static") else None
        )
        work.quantize(calibrated).export_model(path, overwrite=True)
        content = Path(path).read_bytes()
    run = Interpreter(model_content=content).get_signature_runner(key)

    def answer(inputs: Inputs) -> list[np.ndarray]:
        found = run(**row(inputs))
        return [found[n] for n in sorted(found, key=lambda name: int(name.rpartition("_")[2]))]

    return answer, len(content)


def _check(
    path: str, key: str, rows: Sequence[dict[str, np.ndarray]], expected: Sequence[Any]
) -> None:
    """SystemExit where the converted floats are not what PyTorch computes."""
    run = import_module("ai_edge_litert.interpreter").Interpreter(path).get_signature_runner(key)
    for row, known in zip(rows[:2], expected, strict=False):
        found = run(**row)
        names = sorted(found, key=lambda name: int(name.rpartition("_")[2]))
        for name, floats in zip(names, _flat(known), strict=True):
            noise = float(np.square(found[name] - floats).sum())
            if noise > 1e-3 * float(np.square(floats).sum()):
                raise SystemExit("the float file of litert-torch does not compute the network")


def _flat(found: Any) -> list[np.ndarray]:
    results = found if isinstance(found, tuple | list) else (found,)
    return [value.numpy() if torch.is_tensor(value) else np.asarray(value) for value in results]


def main() -> None:
    """Quantize and answer."""
    tool, name, path, calibration, tests, target, *rest = sys.argv[1:]
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    graph = onnx.load(path).graph
    constants = {tensor.name for tensor in graph.initializer}
    inputs = [value.name for value in graph.input if value.name not in constants]
    module = _module(name, Path(path), rest[0] if rest else "")
    maker = {"x86": _pt2e, "xnnpack": _pt2e, "tico": _tico, "tico-gptq": _tico, "int4": _int4}.get(
        tool, _litert
    )
    with torch.no_grad():
        samples = _samples(Path(calibration), inputs)
        _fix_shapes(module, samples[0])
        answer, size = maker(module, samples, tool)
        rows = [_flat(answer(sample)) for sample in _samples(Path(tests), inputs)]
    arrays = {
        port.name: np.stack(column)
        for port, column in zip(graph.output, zip(*rows, strict=True), strict=True)
    }
    np.savez(target, allow_pickle=False, bytes=np.array(size), **arrays)


if __name__ == "__main__":
    main()
