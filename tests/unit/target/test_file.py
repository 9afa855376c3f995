"""``target.file`` reads every key of a target file, and reports every mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.errors import UsageError
from conformance.model.vocabulary import CAPABILITIES
from conformance.properties.api.autocast._calls import CALLS
from conformance.target import file as target_file

GOOD_TARGET = 'schema = 1\nname = "mine"\ndevice = "cpu"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("schema = 2", "schema is 2; this version of the suite reads schema = 1"),
        ("schema = ", "is not TOML"),
        ('schema = 1\ndevice = "cpu"', "name is None; it must be a non-empty string"),
        (GOOD_TARGET + "modus = 1", "unknown key 'modus'; known are schema, name"),
        (GOOD_TARGET + 'dtypes = ["float31"]', "unknown word in dtypes: 'float31'; known are float32"),
        (GOOD_TARGET + "dtypes = []", "it must be a non-empty list of words"),
        (GOOD_TARGET + 'modes = ["fast"]', "unknown word in modes: 'fast'"),
        (GOOD_TARGET + 'precision = "good"', "unknown precision 'good'; known are ieee, tf32"),
        (GOOD_TARGET + "[capabilities]\nstream = true", "unknown capability 'stream'; known are autograd"),
        (
            GOOD_TARGET + '[capabilities]\nstreams = "yes"',
            "capability streams is 'yes'; it must be true, false or \"crashes\"",
        ),
        (GOOD_TARGET + '[hooks]\nsync = "a:b"', "unknown hook 'sync'; known are synchronize"),
        (GOOD_TARGET + '[hooks]\ndelay = "a.b"', "must be of the form module:function"),
        (GOOD_TARGET + '[unsupported]\n"add" = "why"', "is not of the form property/subject@dtype"),
        (GOOD_TARGET + '[unsupported]\n"*/add@*" = ""', "has no reason"),
        (GOOD_TARGET + '[operators.add]\ndtype = ["bool"]', "unknown key in operators.add: 'dtype'"),
        (
            GOOD_TARGET + "[compile]\nmode = 1",
            "unknown key in compile: 'mode'; known are backend, options, fused_",
        ),
        (GOOD_TARGET + "[compile]\nbackend = 1", "compile.backend is 1; it must be the name of a backend"),
        (GOOD_TARGET + "[compile]\noptions = 1", "options is 1; it must be a table"),
        (GOOD_TARGET + "compile = 1", "compile is 1; it must be a table"),
        (GOOD_TARGET + "[environment]\nA = 1", "must be a string, or a table named after a mode"),
        (GOOD_TARGET + '[environment.fast]\nA = "1"', "unknown mode in environment: 'fast'"),
    ],
)
def test_mistakes_in_a_target_file_are_reported(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as error:
        target_file.load(str(path))
    assert message in str(error.value)


def test_the_keys_of_a_target_file_are_read(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        GOOD_TARGET
        + 'modes = ["lazy", "eager"]\n[operators.add]\ndtypes = []\n'
        + '[environment]\nA = "1"\n[environment.lazy]\nA = "2"\n'
        + '[unsupported]\n"*/fft_*@float16" = "no half transforms"\n[capabilities]\nstreams = false\n'
    )
    file = target_file.load(str(path))
    target = file.target("lazy")
    assert (target.environment, file.target("eager").environment) == ({"A": "2"}, {"A": "1"})
    assert (target.capable("streams"), target.capable("events")) == (False, True)
    assert target.dtype_overrides == {"add": frozenset()}
    assert file.default_mode == "eager"
    assert (target.compile_backend, target.compile_options, target.fused_options) == ("inductor", {}, None)
    with pytest.raises(
        UsageError, match=r"does not declare mode 'graph'; use lazy, eager or add it to mine\.toml"
    ):
        file.check_mode("graph")


def test_the_compile_backend_and_options_are_read(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        GOOD_TARGET
        + '[compile]\nbackend = "mine"\noptions = {depth = 2}\nfused_options = {fuse = true}\n'
        + '[hooks]\ngraph = "a:b"\nmark_step = "a:b"\nexecuted_ops = "a:b"\ncompiled_graphs = "a:b"\n'
    )
    target = target_file.load(str(path)).target("eager")
    assert (target.compile_backend, target.compile_options) == ("mine", {"depth": 2})
    assert target.fused_options == {"fuse": True}
    assert target.has_graphs


def test_autocast_lists_are_read(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(GOOD_TARGET + '[autocast]\nlower = ["mm"]\npromote = []\n')
    assert target_file.load(str(path)).target("eager").autocast == {"lower": ("mm",), "promote": ()}
    path.write_text(GOOD_TARGET + '[autocast]\nlow = ["mm"]\n')
    with pytest.raises(UsageError, match="unknown key in autocast: 'low'; known are lower, lower_first"):
        target_file.load(str(path))
    path.write_text(GOOD_TARGET + '[autocast]\nlower = "mm"\n')
    with pytest.raises(UsageError, match=r"autocast\.lower is 'mm'; it must be a list of names"):
        target_file.load(str(path))


def test_known_lists_of_autocast_name_operators_that_the_suite_calls() -> None:
    for name in target_file.known_targets():
        for listed in target_file.load(name).autocast.values():
            assert set(listed) <= set(CALLS), name


def test_known_targets_are_valid_and_unknown_targets_are_usage_errors() -> None:
    assert [
        target_file.load(name).name for name in target_file.known_targets()
    ] == target_file.known_targets()
    with pytest.raises(UsageError, match=r"target 'gpu' does not exist; use one of cpu, .*hpu-reference"):
        target_file.load("gpu")
    with pytest.raises(UsageError, match="does not exist; write one with"):
        target_file.load("none.toml")
    assert all(capability.isidentifier() and text for capability, text in CAPABILITIES.items())


def test_simulated_targets_are_marked(tmp_path: Path) -> None:
    simulated = {name for name in target_file.known_targets() if target_file.load(name).simulated}
    assert simulated >= {"hpu-reference", "hpu-reference-queued"}
    assert not simulated & {"cpu", "cuda", "mps", "torch_npu", "xpu"}
    (tmp_path / "mine.toml").write_text('schema = 1\nname = "mine"\ndevice = "cpu"\nsimulated = "yes"\n')
    with pytest.raises(UsageError, match="simulated is 'yes'; it must be true or false"):
        target_file.load(str(tmp_path / "mine.toml"))


def test_the_declarations_of_the_file_are_recorded(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        'schema = 1\nname = "mine"\ndevice = "cpu"\ndtypes = ["float32", "bool"]\n'
        '[capabilities]\nstreams = false\n[unsupported]\n"*/fft*@float32" = "no transforms"\n'
        '[operators.add]\ndtypes = ["float32"]\n[hooks]\ndelay = "mine:delay"\n'
    )
    assert target_file.load(str(tmp_path / "mine.toml")).declared() == {
        "dtypes": ["bool", "float32"],
        "capabilities": {"streams": False},
        "unsupported": {"*/fft*@float32": "no transforms"},
        "operators": {"add": ["float32"]},
        "hooks": ["delay"],
    }
