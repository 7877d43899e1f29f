"""Files as modules and back: one to one, through text too, and to LiteRT the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ArrayAttr, StringAttr, UnitAttr

import qdialect as qd
from qdialect.errors import InputError, UnsupportedError
from qdialect.ir.context import QContext, new_context
from qdialect.ir.ops import keys_of
from qdialect.ir.quant import UniformType, element_type
from qdialect.plugins.mlir.read import read_module as read_text
from qdialect.plugins.mlir.read import verify_module
from qdialect.plugins.mlir.write import module_text
from qdialect.plugins.tflite.dialect import TABLE, VARIABLE, TfliteNodeOp
from qdialect.plugins.tflite.file.from_module import module_file
from qdialect.plugins.tflite.file.model import File, Kind, Subgraph, Tensor
from qdialect.plugins.tflite.file.read import read_bytes, read_file
from qdialect.plugins.tflite.file.to_module import read_module
from qdialect.plugins.tflite.file.write import file_bytes, write_file
from tests.support.tflite_files import CODES, FILES, convolution, narrow, op, quantized, sparse


def module_of(file: File) -> tuple[Any, QContext]:
    ctx = new_context()
    module = read_module(read_bytes(file_bytes(file), "x.tflite"), ctx)
    verify_module(module, ctx)
    return module, ctx


def nodes(module: Any) -> list[TfliteNodeOp]:
    return [o for o in module.walk() if isinstance(o, TfliteNodeOp)]


@pytest.mark.parametrize("name", FILES)
def test_modules_are_written_as_they_were_read(name: str) -> None:
    file = FILES[name]()
    module, ctx = module_of(file)
    data = file_bytes(module_file(module, ctx, file.kind))
    text = module_text(module, ctx, inline_weights=True)
    other = new_context()
    through_text = read_text(text, other)
    assert file_bytes(module_file(through_text, other, file.kind)) == data
    again, ctx = module_of(read_bytes(data))
    assert module_text(again, ctx, inline_weights=True) == text
    assert file_bytes(module_file(again, ctx, file.kind)) == data


def test_names_types_and_options_are_those_of_the_file() -> None:
    module, _ = module_of(convolution())
    text = str(module)
    assert 'nn.name = "x"' in text and 'nn.result_names = ["y"]' in text
    (conv,) = nodes(module)
    assert keys_of(conv) == ("y",) and conv.version is None
    assert [keys_of(o.owner) for o in conv.operands[1:]] == [("w",), ("b",)]  # pyright: ignore
    assert conv.options.data["padding"] == StringAttr("SAME")
    assert conv.options.data["fused_activation_function"] == StringAttr("RELU6")
    x, w, b = (element_type(o.type) for o in conv.operands)
    assert isinstance(x, UniformType) and isinstance(w, UniformType) and isinstance(b, UniformType)
    assert str(x) == "!quant.uniform<i8:f32, 0.10000000149011612:3>"
    assert w.qparams.blocks == ((0, 1),) and b.qparams.storage.width == 32
    assert "tensor<?x4x4x2x!quant" in text and '"x.0"' in text


def test_blocks_are_part_of_the_type() -> None:
    module, ctx = module_of(narrow())
    plain, blocks = (element_type(node.operands[1].type) for node in nodes(module)[:2])
    assert plain == UniformType.per_tensor("i4", 0.5)
    assert blocks == UniformType.blockwise("i4", [(0, 1), (1, 2)], (3, 3), [0.5] * 9)
    tensors = module_file(module, ctx).subgraphs[0].tensors
    blocks = next(t for t in tensors if t.name == "blocks")
    assert blocks.quantization is not None and blocks.quantization.blocks is not None
    held = tensors[blocks.quantization.blocks.scales]
    assert (held.type, held.shape, blocks.quantization.blocks.size) == ("FLOAT16", (3, 3), 2)


def test_subgraphs_are_functions_by_name() -> None:
    module, ctx = module_of(FILES["control"]())
    text = str(module)
    assert "then_subgraph_index = @then, " in text and "init_subgraph_index = @init" in text
    assert 'tensor<1x!tflite.type<"RESOURCE">>' in text
    assert any(node.op.data == VARIABLE for node in nodes(module))
    custom = next(node for node in nodes(module) if node.custom is not None)
    assert custom.custom is not None and custom.custom.data == "0102ff" and custom.has_state
    # The order of functions that are not called first does not matter.
    functions = list(module.body.block.ops)
    functions[3].detach()
    module.body.block.insert_op_before(functions[3], functions[0])
    file = module_file(module, ctx)
    assert file.subgraphs[0].name == "main"
    options = [o.options for o in file.subgraphs[0].operators[:2]]
    names = [graph.name for graph in file.subgraphs]
    assert names[options[0]["init_subgraph_index"]] == "init"
    assert names[options[1]["then_subgraph_index"]] == "then"


def test_sparse_constants_have_all_elements() -> None:
    module, ctx = module_of(sparse())
    (node,) = nodes(module)
    assert node.op.data == "FULLY_CONNECTED"
    tensors = module_file(module, ctx).subgraphs[0].tensors
    weight = next(t for t in tensors if t.name == "w")
    assert weight.data is not None and weight.data.tolist() == [[0, 0, 1, 0], [2, 0, 0, 3]]


def test_signatures_and_metadata_stay() -> None:
    file = convolution()
    module, ctx = module_of(file)
    found = module_file(module, ctx)
    assert found.description == file.description and found.metadata == file.metadata
    (signature,) = found.signatures
    names = [t.name for t in found.subgraphs[0].tensors]
    assert {k: names[n] for k, n in signature.inputs.items()} == {"image": "x"}
    assert {k: names[n] for k, n in signature.outputs.items()} == {"scores": "y"}


def test_a_model_of_other_origin_gets_a_signature() -> None:
    module, ctx = module_of(convolution())
    del module.attributes["tflite.file"]
    (signature,) = module_file(module, ctx).signatures
    assert (signature.key, signature.inputs) == ("serving_default", {"x": 0})


def test_versions_are_those_that_ops_need() -> None:
    file = convolution()
    module, ctx = module_of(file)
    assert [o.version for o in module_file(module, ctx).subgraphs[0].operators] == [3]
    file.subgraphs[0].operators[0].version = 5
    module, ctx = module_of(file)
    (conv,) = nodes(module)
    assert conv.version is not None and conv.version.value.data == 5
    assert [o.version for o in module_file(module, ctx).subgraphs[0].operators] == [5]


def test_options_that_a_file_leaves_out_are_the_defaults() -> None:
    file = convolution()
    conv = file.subgraphs[0].operators[0]
    conv.table, conv.options = "", {}
    module, ctx = module_of(file)
    (node,) = nodes(module)
    assert node.options.data["padding"] == StringAttr("SAME")
    assert node.attributes[TABLE] == StringAttr("")
    assert module_file(module, ctx).subgraphs[0].operators[0].table == ""


def test_names_are_made_unique() -> None:
    file = convolution()
    for tensor in file.subgraphs[0].tensors[:3]:
        tensor.name = "same"
    file.subgraphs[0].tensors[3].name = ""
    module, ctx = module_of(file)
    names = [t.name for t in module_file(module, ctx).subgraphs[0].tensors]
    assert len(set(names)) == 4 and "same" in names


# -- what cannot be -------------------------------------------------------------------------


def test_ops_that_are_of_no_file_are_refused() -> None:
    ctx = new_context()
    text = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n" + (
        '  %y = nn.relu %x {nn.key = "act"} : (tensor<2xf32>) -> tensor<2xf32>\n'
        "  return %y : tensor<2xf32>\n}\n"
    )
    with pytest.raises(UnsupportedError, match=r"no op 'nn\.relu'") as caught:
        module_file(read_text(text, ctx), ctx)
    assert caught.value.where is not None and caught.value.where.node == "nn.relu 'act'"


@pytest.mark.parametrize(
    ("node", "kind", "reason"),
    [
        ('"NO_SUCH" (%x)', "tflite", "a TFLite file has no op 'NO_SUCH'"),
        ('"RMS_NORM" (%x)', "tflite", "a TFLite file has no op 'RMS_NORM'"),
        ('"EXP" (%x) options {beta = 1 : i32}', "circle", "it has no option 'beta'"),
        ('"SOFTMAX" (%x) options {beta = "x"}', "tflite", "its option 'beta' cannot be"),
        ('"SOFTMAX" (%x) options {beta = @f}', "tflite", "its option 'beta' cannot be"),
    ],
)
def test_nodes_that_a_file_cannot_have_are_refused(node: str, kind: Kind, reason: str) -> None:
    ctx = new_context()
    text = (
        "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n"
        f"  %y = tflite.node {node} : (tensor<2xf32>) -> tensor<2xf32>\n"
        "  return %y : tensor<2xf32>\n}\n"
    )
    with pytest.raises(UnsupportedError, match=reason):
        module_file(read_text(text, ctx), ctx, kind)


@pytest.mark.parametrize("type", ["!quant.uniform<i8:f16, 0.5>", "i7", "!quant.any<i8:f32>"])
def test_types_that_a_file_cannot_have_are_refused(type: str) -> None:
    ctx = new_context()
    text = f"func.func @main(%x: tensor<2x{type}>) -> tensor<2x{type}> {{\n"
    module = read_text(text + f"  return %x : tensor<2x{type}>\n}}\n", ctx)
    with pytest.raises(UnsupportedError, match="TFLite has no such value"):
        module_file(module, ctx)


def test_subgraphs_that_are_not_there_are_refused() -> None:
    file = FILES["control"]()
    file.subgraphs[0].operators[0] = op("CALL_ONCE", [], [], init_subgraph_index=7)
    with pytest.raises(InputError, match="init_subgraph_index is 7 of 4 subgraphs"):
        module_of(file)


def test_tensors_of_unknown_quantization_are_refused() -> None:
    file = convolution()
    given = quantized()
    given.details = "CustomQuantization", {"custom": np.arange(3, dtype=np.uint8)}
    file.subgraphs[0].tensors[0].quantization = given
    with pytest.raises(UnsupportedError, match="its quantization is a CustomQuantization"):
        module_of(file)


# -- qd.load and qd.save --------------------------------------------------------------------


def test_files_are_loaded_and_saved(tmp_path: Path) -> None:
    path = tmp_path / "x.tflite"
    write_file(convolution(), path)
    model = qd.load(path, as_written=True)
    assert model.source == path
    qd.save(model, tmp_path / "y.tflite")
    qd.save(qd.load(tmp_path / "y.tflite", as_written=True), tmp_path / "z.tflite")
    assert (tmp_path / "y.tflite").read_bytes() == (tmp_path / "z.tflite").read_bytes()
    qd.save(model, tmp_path / "y.circle")
    assert read_file(tmp_path / "y.circle").kind == "circle"
    qd.save(model, tmp_path / "y.mlir")
    qd.save(qd.load(tmp_path / "y.mlir", as_written=True), tmp_path / "w.tflite")
    assert (tmp_path / "w.tflite").read_bytes() == (tmp_path / "y.tflite").read_bytes()


def test_files_are_raised(tmp_path: Path) -> None:
    path = tmp_path / "x.tflite"
    write_file(convolution(), path)
    names = [o.name for o in qd.load(path, dims={"x.0": 2}).module.walk()]
    assert "nn.conv2d" in names and "tflite.node" not in names
    assert "tensor<2x4x4x2x!quant" in str(qd.load(path, dims={"x.0": 2}))


def test_other_suffixes_are_named(tmp_path: Path) -> None:
    with pytest.raises(qd.UsageError, match=r"\.tflite, \.circle, \.mlir or \.mlirbc"):
        qd.load(tmp_path / "x.txt")


# -- LiteRT ---------------------------------------------------------------------------------


@pytest.mark.parametrize("resolver", ["xnn", "ref", "opt"])
def test_litert_computes_the_same(resolver: str) -> None:
    pytest.importorskip("ai_edge_litert")
    from tests.support.tflite_models import run_litert

    file = convolution()
    module, ctx = module_of(file)
    x = np.random.default_rng(0).integers(-128, 128, (1, 4, 4, 2)).astype(np.int8)
    forms = [file_bytes(file), file_bytes(file, largest=100)]
    forms.append(file_bytes(module_file(module, ctx)))
    found = [run_litert(data, [x], resolver)[0] for data in forms]
    assert found[0].std() > 0
    assert all(np.array_equal(found[0], other) for other in found[1:])


def test_litert_unpacks_as_we_pack() -> None:
    pytest.importorskip("ai_edge_litert")
    from tests.support.tflite_models import run_litert

    file = narrow()
    graph = file.subgraphs[0]
    graph.operators[:] = [op("DEQUANTIZE", [1], [11]), graph.operators[3]]
    graph.tensors.append(Tensor("all", (3, 6), "FLOAT32"))
    graph.inputs, graph.outputs = [], [11, 9]
    for operator in graph.operators:
        operator.version = 7
    found = run_litert(file_bytes(file), [], "opt")
    assert np.array_equal(found[0], CODES / 2)
    assert found[1].tolist() == [-1.0, -0.5, 0.0, 0.5, 0.5]


def test_litert_fills_in_what_we_do() -> None:
    pytest.importorskip("ai_edge_litert")
    from tests.support.tflite_models import run_litert

    module, ctx = module_of(sparse())
    x = np.array([[1, 2, 3, 4]], np.float32)
    forms = [file_bytes(sparse()), file_bytes(module_file(module, ctx))]
    found = [run_litert(data, [x], "ref")[0].tolist() for data in forms]
    assert found == [[[3, 14]]] * 2


def test_unused_attributes_do_no_harm() -> None:
    module, ctx = module_of(convolution())
    (conv,) = nodes(module)
    conv.attributes["acme.mark"] = ArrayAttr([UnitAttr()])
    assert isinstance(module_file(module, ctx).subgraphs[0], Subgraph)


def test_qopt_translate_reads_and_writes_files(tmp_path: Path) -> None:
    from qdialect.cli.translate import main

    path, text, again = (tmp_path / name for name in ("x.tflite", "x.mlir", "y.tflite"))
    write_file(convolution(), path)
    assert main(["--import-tflite", str(path), "-o", str(text)]) == 0
    assert 'tflite.node "CONV_2D"' in text.read_text()
    assert main(["--export-tflite", str(text), "-o", str(again)]) == 0
    found = read_file(again)
    assert [o.op for o in found.subgraphs[0].operators] == ["CONV_2D"]
    assert main(["--export-tflite", str(text), "-o", str(tmp_path / "z.circle")]) == 0
    assert read_file(tmp_path / "z.circle").kind == "circle"
