"""Test the compile options: defaults, environment variables and effects."""

from __future__ import annotations

import pytest
import torch
from habana_frameworks.torch.dynamo.compile_backend import compilers, config
from habana_frameworks.torch.dynamo.compile_backend.config import configuration_flags
from torch import nn

#: The documented default and environment variable of each option of `hpu_backend`.
TABLE = {
    "use_compiled_recipes": (True, "PT_HPU_COMPILE_USE_RECIPES"),
    "decomposition_mode": ("habana", "PT_HPU_COMPILE_DECOMPOSITION_MODE"),
    "keep_input_mutations": (True, "PT_HPU_KEEP_INPUT_MUTATIONS"),
    "use_eager_fallback": (True, "PT_HPU_USE_EAGER_FALLBACK"),
    "use_graph_freezing": (False, "PT_HPU_COMPILE_GRAPH_FREEZE"),
    "discard_frozen_params": (False, "PT_HPU_COMPILE_DISCARD_FROZEN_PARAMS"),
    "remove_unnecessary_clones": (True, "PT_HPU_COMPILE_REMOVE_UNNECESSARY_CLONES"),
    "use_inplace_allreduce": (True, "PT_HPU_USE_INPLACE_COLLECTIVE"),
    "use_inplace_index_copy": (True, "PT_HPU_USE_INPLACE_INDEX_COPY"),
    "inference": (True, "PT_HPU_USE_INFERENCE_COMPILER"),
    "enable_sfg": (False, "PT_HPU_ENABLE_SFG"),
    "use_cpp_partitioner": (True, "PT_HPU_USE_CPP_PARTITIONER"),
    "enable_allreduce_graph_split": (True, "PT_HPU_ENABLE_ALLREDUCE_GRAPH_SPLIT"),
    "force_static_compile": (False, "PT_HPU_FORCE_STATIC_COMPILE"),
    "reinplace_add": (True, "PT_HPU_REINPLACE_ADD"),
    "reassign_full_copy": (True, "PT_HPU_REASSIGN_FULL_COPY"),
    "reassign_copy_": (True, "PT_HPU_REASSIGN_COPY_"),
    "use_boxed_input": (True, "PT_HPU_USE_BOXED_INPUT"),
}

PRINT_ALL = """
from habana_frameworks.torch.dynamo.compile_backend import config
print({name: getattr(config, name) for name in sorted(config.get_config_copy()) if name in %r})
"""


def test_defaults() -> None:
    assert {name: getattr(config, name) for name in TABLE} == {name: row[0] for name, row in TABLE.items()}


def test_environment_variables_set_options(python) -> None:
    changed = {name: not default for name, (default, _) in TABLE.items() if isinstance(default, bool)}
    changed["decomposition_mode"] = "none"
    environment = {
        TABLE[name][1]: {True: "Yes", False: "oFF", "none": "None"}[value] for name, value in changed.items()
    }
    done = python(PRINT_ALL % sorted(TABLE), **environment)
    assert eval(done.stdout) == changed, done.stderr


@pytest.mark.parametrize(
    ("name", "value"), [("PT_HPU_REINPLACE_ADD", "maybe"), ("PT_HPU_COMPILE_DECOMPOSITION_MODE", "some")]
)
def test_invalid_value_raises_and_names_the_variable(name: str, value: str, python) -> None:
    done = python("import habana_frameworks.torch.dynamo.compile_backend.config", **{name: value})
    assert "AssertionError" in done.stderr and name in done.stderr and value in done.stderr


def test_configuration_flags_are_the_options() -> None:
    try:
        configuration_flags["reinplace_add"] = "n"
        assert config.reinplace_add is False
        with pytest.raises(KeyError, match="no_such_flag"):
            configuration_flags["no_such_flag"] = 1
        with pytest.raises(AssertionError, match="inference"):
            configuration_flags["inference"] = "perhaps"
    finally:
        config.reinplace_add = True
    assert set(TABLE) <= set(configuration_flags)
    with config.patch(inference=False):
        assert configuration_flags["inference"] is False
    assert isinstance(config.save_config(), bytes)


def test_unknown_option_raises(interpreted) -> None:
    with pytest.raises(RuntimeError, match=r"unknown option 'fast' of hpu_backend. Use one of .*inference"):
        interpreted(lambda x: x + 1, fast=True)(torch.ones(2, device="hpu"))


def test_option_value_of_wrong_type_raises(interpreted) -> None:
    with pytest.raises(Exception, match="use_boxed_input='often' is not a truth value"):
        interpreted(lambda x: x + 1, use_boxed_input="often")(torch.ones(2, device="hpu"))


def test_options_apply_to_one_compilation(interpreted) -> None:
    interpreted(lambda x: x + 1, reinplace_add=0)(torch.ones(2, device="hpu"))
    assert config.reinplace_add is True


@pytest.mark.parametrize("name", [name for name in TABLE if name != "decomposition_mode"])
def test_results_do_not_depend_on_a_switch(name: str, interpreted) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).to("hpu")
    program = interpreted(model, **{name: not TABLE[name][0]})
    x = torch.randn(3, 4, device="hpu")
    torch.testing.assert_close(program(x), model(x))
    program(x).sum().backward()
    with torch.no_grad():
        torch.testing.assert_close(program(x), model(x))


@pytest.mark.parametrize("mode", ["habana", "core_aten", "none", "inductor"])
def test_decomposition_modes(mode: str, compiled) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(x).softmax(0) + torch.addmm(x, x, x)

    x = torch.randn(3, 3, device="hpu")
    torch.testing.assert_close(
        compiled(function, decomposition_mode=mode)(x), function(x), rtol=1e-4, atol=1e-5
    )


def test_freezing_option_without_inductor_freezing_keeps_results(compiled) -> None:
    layer = nn.Linear(4, 4).to("hpu").eval()
    x = torch.randn(2, 4, device="hpu")
    program = compiled(layer, use_graph_freezing=1)
    with torch.no_grad():
        before = layer(x)
        torch.testing.assert_close(program(x), before)
        torch.testing.assert_close(program(x), before)


def test_freezing_option_warns_if_inductor_freezing_is_off(compiled, caplog) -> None:
    layer = nn.Linear(4, 4).to("hpu").eval()
    with torch.no_grad():
        compiled(layer, use_graph_freezing=1)(torch.randn(2, 4, device="hpu"))
    assert "Set torch._inductor.config.freezing = True" in caplog.text
    caplog.clear()
    with torch.no_grad():
        compiled(lambda x: x * 2, use_graph_freezing=1)(torch.randn(2, 4, device="hpu"))
    assert "freezing" not in caplog.text, "the function has no parameter to freeze"


@pytest.mark.parametrize("discard", [0, 1])
def test_inductor_freezing_puts_parameters_into_the_graph(compiled, discard, monkeypatch) -> None:
    counted: list[int] = []
    monkeypatch.setattr(compilers, "_check_constant_count", counted.append)
    layer = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2)).to("hpu").eval()
    x = torch.randn(2, 4, device="hpu")
    with torch.no_grad(), torch._inductor.config.patch(freezing=True):
        right = layer(x)
        program = compiled(layer, use_graph_freezing=1, discard_frozen_params=discard)
        for _ in range(2):
            torch.testing.assert_close(program(x), right)
    assert counted == [8]  # two linear layers with 2 tensors each, and a norm with 4


def test_frozen_parameters_with_unboxed_inputs(compiled) -> None:
    """The graph after the graph break has an activation and frozen parameters as inputs."""
    layer = nn.Linear(4, 4).to("hpu").eval()
    x = torch.randn(2, 4, device="hpu")
    program = compiled(lambda t: layer(t).cpu().sin() + 1, use_graph_freezing=1, use_boxed_input=0)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(program(x), layer(x).cpu().sin() + 1)


def test_frozen_parameters_can_be_discarded(fused) -> None:
    layer = nn.Linear(4, 4).to("hpu").eval()
    x = torch.randn(2, 4, device="hpu")
    expected = layer(x).detach()
    program = fused(layer, use_graph_freezing=1, discard_frozen_params=1)
    with torch.no_grad():
        torch.testing.assert_close(program(x), expected)
        torch.testing.assert_close(program(x), expected)


def test_without_a_compiler_there_is_one_warning(python) -> None:
    script = """
import warnings
function = torch.compile(lambda x: x + 1, backend="hpu_backend")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    print(function(torch.ones(2, device="hpu")).tolist(), function(torch.ones(3, device="hpu")).tolist())
print(sum("did not find a C++ compiler" in str(warning.message) for warning in caught))
"""
    done = python(script, PATH="/nowhere", CXX="/nowhere/g++")
    assert done.stdout.splitlines() == ["[2.0, 2.0] [2.0, 2.0, 2.0]", "1"], done.stderr


def test_torch_compile_can_be_disallowed(python) -> None:
    script = "torch.compile(lambda x: x + 1, backend='hpu_backend')(torch.ones(2, device='hpu'))"
    done = python(script, PT_HPU_DISALLOW_TORCH_COMPILE="1")
    assert "RuntimeError: torch.compile is disabled by PT_HPU_DISALLOW_TORCH_COMPILE" in done.stderr
