"""Build custom C++ operators against the public headers, and run them eagerly and compiled."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from habana_frameworks.torch.utils.lib_utils import get_include_dir, get_lib_dir
from torch.utils import cpp_extension


def build_and_load(file: str, folder: Path) -> None:
    """Build the operators of a C++ file and load them."""
    cpp_extension.load(
        f"operators_of_{Path(file).stem}",
        [str(Path(__file__).with_name(file))],
        extra_include_paths=[get_include_dir()],
        extra_cflags=["-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror"],
        build_directory=str(folder),
        is_python_module=False,
    )


@pytest.fixture(scope="module")
def operators(tmp_path_factory: pytest.TempPathFactory):
    """Build topk.cpp and return the namespace of its operators."""
    build_and_load("topk.cpp", tmp_path_factory.mktemp("operators"))
    return torch.ops.example


@pytest.mark.nightly("compiles an extension; the tests of the newer interface run every day")
def test_an_operator_by_the_older_interface(tmp_path: Path) -> None:
    build_and_load("legacy.cpp", tmp_path)
    a, b = torch.randn(3, 1), torch.randn(4)
    scaled = torch.ops.legacy.scaled_add(a.to("hpu"), b.to("hpu"), 0.5)
    assert scaled.device.type == "hpu" and torch.allclose(scaled.cpu(), a + 0.5 * b)
    with pytest.raises(RuntimeError, match="describes an input 1, but the number of inputs is 1"):
        torch.ops.legacy.few(a.to("hpu"))
    with pytest.raises(RuntimeError, match="the operator legacy::unknown is not registered"):
        torch.ops.legacy.unknown(a.to("hpu"))


def test_include_and_library_folders_exist() -> None:
    assert (Path(get_include_dir()) / "hpu_custom_op_pt2.h").is_file()
    assert any(path.name.startswith("_C.") for path in Path(get_lib_dir()).iterdir())


def test_an_operator_runs_the_kernel_of_its_guid(operators) -> None:
    x = torch.randn(5, 9)
    values, indices = operators.topk(x.to("hpu").t(), 3)
    expected = torch.topk(x.t(), 3)
    assert values.device.type == indices.device.type == "hpu"
    assert torch.equal(values.cpu(), expected.values)
    assert torch.equal(indices.cpu(), expected.indices)


def test_an_operator_is_one_node_of_a_compiled_graph(operators) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        values, indices = operators.topk(x * 2, 2)
        return values + indices

    x = torch.randn(4, 6, device="hpu")
    compiled = torch.compile(program, backend="hpu_backend", fullgraph=True)
    assert torch.allclose(compiled(x), program(x))


def test_an_error_of_the_sizes_names_the_cause(operators) -> None:
    with pytest.raises(RuntimeError, match="k is larger than the last dimension"):
        operators.topk(torch.ones(2, device="hpu"), 3)


def test_a_guid_without_a_kernel_raises(operators) -> None:
    with pytest.raises(
        RuntimeError, match=r"the kernel example_nothing is not registered\. Call registerKernel"
    ):
        operators.lost(torch.ones(2, device="hpu"), 1)


def test_a_captured_graph_cannot_contain_an_operator(operators) -> None:
    x = torch.ones(4, device="hpu")
    with pytest.raises(RuntimeError), torch.hpu.graph(torch.hpu.HPUGraph()):
        operators.topk(x + 1, 2)
    assert operators.topk(x, 1)[0].item() == 1
