"""``conformance ci plan`` validates the inputs of a workflow and writes a plan. The workflow template accepts
only valid settings.
"""

from __future__ import annotations

import json
import re

import pytest

from conformance import cli
from conformance.ci import install, step_outputs, template
from conformance.errors import UsageError
from tests.support import ROOT

DIGEST = "0" * 64


def plan_exit_code(tmp_path, *extra_options, **changes):
    options = {"target": "hpu-reference", "builds": "2.13.0", **changes}
    arguments = [f"--{name}={value}" for name, value in options.items()]
    return cli.main(["ci", "plan", *arguments, *extra_options, "-o", str(tmp_path / "plan" / "plan.json")])


def test_a_plan_and_the_outputs_of_the_step(tmp_path, step_outputs_file):
    assert (
        plan_exit_code(tmp_path, builds="2.6.0:fork-like:core newest", modes="eager lazy", level="smoke") == 0
    )
    cells = json.loads((tmp_path / "plan" / "plan.json").read_text())["include"]
    assert [(cell["id"], cell["level"], cell["expect"]) for cell in cells] == [
        ("2.6.0-fork-like-eager", "core", "results"),
        ("2.6.0-fork-like-lazy", "core", "results"),
        ("newest-public-eager", "smoke", "results"),
        ("newest-public-lazy", "smoke", "refusal"),
    ]
    written = step_outputs_file.read_text().splitlines()
    assert json.dumps([cell["id"] for cell in cells]) in written
    assert json.dumps(["2.6.0", "newest"]) in written


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"builds": ""}, "--builds is empty"),
        ({"builds": "2.13.0; rm -rf /"}, "torch build '2.13.0;' is not a release"),
        ({"builds": "--index-url=x"}, "is not a release"),
        ({"builds": "https://host/torch-2.6.0.whl"}, "has no digest"),
        ({"builds": "2.13.0 2.13.0"}, "is a duplicate"),
        ({"modes": "eager quick"}, "quick"),
        ({"level": "enormous"}, "enormous"),
        ({"name": "a/../b"}, "may contain only letters"),
        ({"name": "-x"}, "may contain only letters"),
        ({"target": "nothing-like-it"}, "nothing-like-it"),
        ({"builds": " ".join(f"2.{n}.{m}" for n in range(9) for m in range(9))}, "256 jobs"),
    ],
)
def test_a_wrong_input_is_a_usage_error(changes, says, tmp_path, step_outputs_file, capsys):
    assert plan_exit_code(tmp_path, **changes) == 2
    error = capsys.readouterr().err
    assert says in error and len(error.strip().splitlines()) == 1
    assert not step_outputs_file.exists()


def test_the_value_of_an_output_cannot_set_another_output(step_outputs_file):
    step_outputs.set_outputs(first="a\nsecond=b\nx<<E\n", third="c")
    lines = step_outputs_file.read_text().splitlines()
    name, mark = lines[0].split("<<")
    assert name == "first" and len(mark) == 32
    assert lines.count(mark) == 1 and lines.index(mark) == 5


@pytest.mark.parametrize(
    "requirement",
    [
        "-r requirements.txt",
        "--index-url=https://elsewhere",
        "git+https://host/repository",
        "./folder",
        "name@https://host/x.whl",
        "https://host/x.whl",
        "http://host/x.whl#sha256=" + DIGEST,
        "https://user:word@host/x.whl#sha256=" + DIGEST,
        "name;python_version<'4'",
    ],
)
def test_unsafe_backend_requirements_are_rejected(requirement):
    with pytest.raises(UsageError):
        install.backend_requirements(requirement, None)


def test_valid_backend_requirements(tmp_path):
    requirements = ["torch_npu==2.6.0", "name[extra]", f"https://host/x.whl#sha256={DIGEST}"]
    assert install.backend_requirements(" ".join(requirements), None) == requirements
    (tmp_path / "a.whl").touch()
    assert install.backend_requirements("", tmp_path) == [str(tmp_path / "a.whl")]
    assert install.backend_requirements("", None) == []
    with pytest.raises(UsageError, match="give only one"):
        install.backend_requirements("name", tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="has no wheel"):
        install.backend_requirements("", tmp_path / "empty")


def rendered_workflow(**changes):
    settings = {
        "suite": "owner/name@" + "a" * 40,
        "target": "conformance/mine.toml",
        "runner": ["self-hosted", "mine"],
        "python": "/opt/venv/bin/python",
        "modes": "eager,compile",
        "level": "core",
    }
    return template.render_workflow(**{**settings, **changes})


def test_the_rendered_template_is_pinned_and_complete():
    text = rendered_workflow()
    assert "<<" not in text and ">>" not in text
    assert 'package: "my_backend"' in rendered_workflow(package="my_backend")
    assert text.count("owner/name/.github/actions/") == text.count("@" + "a" * 40) == 4
    assert 'runs-on: ["self-hosted", "mine"]' in text
    assert text == rendered_workflow(modes="eager compile") == rendered_workflow(modes="eager, compile")


@pytest.mark.parametrize(
    "changes",
    [
        {"suite": "owner/name@main"},
        {"suite": "owner/name@" + "a" * 39},
        {"target": "mine.toml\n    env: {}"},
        {"target": "${{ secrets.X }}"},
        {"runner": ["a]: b"]},
        {"python": "python; true"},
        {"modes": ""},
        {"modes": "eager\n    env: {}"},
        {"modes": "eagr"},
        {"modes": "eager,eager"},
        {"target": "/etc/mine.toml"},
        {"target": "../mine.toml"},
        {"target": "cpx"},
        {"package": "a.b"},
        {"level": "all"},
    ],
)
def test_invalid_settings_of_the_template_are_rejected(changes):
    with pytest.raises(UsageError):
        rendered_workflow(**changes)


def test_the_template_has_the_same_pins_as_this_repository():
    """The template pins the same versions of actions as this repository's workflows. No bot updates the
    template's pins.
    """
    folder = ROOT / ".github"
    ours = "".join(path.read_text() for path in sorted(folder.glob("*/**/*.yml")))
    pins = re.findall(r"uses: (actions/[\w-]+@[0-9a-f]{40} # v[0-9.]+)", template.FILE.read_text())
    assert len(pins) == 3 and all(f"uses: {pin}\n" in ours for pin in pins)


@pytest.mark.parametrize(
    "words",
    [
        ["ci", "plan", "--target=cpu", "--builds=2.13.0", "-o", "{folder}"],
        ["ci", "plan", "--target=cpu", "--builds=2.13.0", "-o", "{file}/x.json"],
        ["matrix", "plan", "--target=cpu", "--build=2.13.0", "-o", "{folder}"],
        ["torch", "record", "/proc/x"],
        ["torch", "record", "{folder}"],
    ],
)
def test_an_unwritable_path_is_a_usage_error(words, tmp_path, capsys):
    file = tmp_path / "file"
    file.touch()
    assert cli.main([argument.format(folder=tmp_path, file=file) for argument in words]) == 2
    error = capsys.readouterr().err
    assert "choose another path" in error and len(error.splitlines()) == 1
