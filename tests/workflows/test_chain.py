"""Test of the nightly workflow with the reference device, from the plan to the site. In the first night the
device passes, and in the second night an operator is broken.
"""

from __future__ import annotations

import json
import stat
import subprocess
import zipfile
from pathlib import Path

BUILDS = "2.13.0:public:bringup 2.13.0:fork-like:bringup"
#: Code that breaks the device: its operator ``neg`` returns a copy of the input.
BROKEN = """
import torch as _torch
_broken = _torch.library.Library("aten", "IMPL")
_broken.impl("neg", lambda x: x.clone(), "HPU")
"""


#: Program that replaces the action ``nox``, which runs a nox session. It writes pages for the sessions `docs`
#: and `coverage`, and checks the arguments of other sessions.
SESSION = """
import json, os, pathlib
inputs = json.loads(os.environ["INPUTS"])
folders = {"docs": inputs.get("arguments", "").removeprefix("-o "), "coverage": "coverage-out"}
if inputs["session"] in folders:
    folder = pathlib.Path(folders[inputs["session"]])
    folder.mkdir(parents=True)
    (folder / "index.html").write_text(inputs["session"])
elif inputs["session"] == "sanitize":
    assert inputs["arguments"] in ("thread", "address")
elif inputs["session"] == "conformance":
    assert inputs["arguments"] == "--target hpu-reference-queued"
else:
    assert inputs["session"] in ("tests", "vendor") and os.environ["CONFORMANCE_NIGHTLY"] == "1"
print("{}")
"""


def write_executable(file: Path, text: str) -> Path:
    """Write a Python program as an executable file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("#!/usr/bin/env python3\n" + text)
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return file


def write_wheel_action(folder: Path, wheel: Path) -> Path:
    """Write a program that replaces the action that builds the device, and return the program. It uploads an
    existing wheel as the artifact.
    """
    return write_executable(
        folder / "build",
        "import json, os, pathlib, shutil\n"
        "name = json.loads(os.environ['INPUTS'])['artifact']\n"
        "target = pathlib.Path(os.environ['STATE'], 'artifacts', name)\n"
        "target.mkdir(parents=True)\n"
        f"shutil.copy({str(wheel)!r}, target)\n"
        "print(json.dumps({'artifact': name}))\n",
    )


def write_broken_wheel(wheel: Path, folder: Path) -> Path:
    """Write a copy of the wheel that contains the code BROKEN, and return the path of the copy."""
    folder.mkdir()
    broken_wheel = folder / wheel.name
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(broken_wheel, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "habana_frameworks/torch/__init__.py":
                content += BROKEN.encode()
            new.writestr(name, content)
    return broken_wheel


def published_site_data(runner) -> dict:
    return json.loads((runner.state / "pages" / "data.json").read_text())


def published_cells(runner) -> dict[tuple[str, str], dict]:
    (own,) = [
        reference_entry
        for reference_entry in published_site_data(runner)["backends"]
        if reference_entry["id"] == "hpu-reference"
    ]
    return {(cell["kind"], cell["mode"]): cell for cell in own["cells"]}


def github_issues(runner) -> list[dict]:
    file = runner.state / "issues.json"
    return json.loads(file.read_text()) if file.exists() else []


def files_in_results_branch(runner) -> list[str]:
    command = ["git", "ls-tree", "-r", "--name-only", "results"]
    return subprocess.run(
        command, cwd=runner.remote, capture_output=True, text=True, check=True
    ).stdout.split()


def run_files_in_results_branch(runner):
    """Return the paths of the published runs' files in the results branch."""
    return [name for name in files_in_results_branch(runner) if not name.startswith(".")]


def test_a_passing_and_a_broken_night(runner, tmp_path, device_wheel):
    runner.copy_checkout()
    event = {"event_name": "workflow_dispatch"}
    event["inputs"] = {"builds": BUILDS, "modes": "eager lazy", "index": "default"}
    action = "$/.github/actions/reference-wheel"
    sessions = {"$/.github/actions/nox": write_executable(tmp_path / "session", SESSION)}
    build = write_wheel_action(tmp_path / "good", device_wheel)
    first_night = runner("nightly.yml", event, {action: build, **sessions})

    # The target declares that mode lazy is refused on a public build, so the cell neither fails nor passes.
    legs = {
        leg["matrix"]["cell"]: leg["result"] for leg in first_night["jobs"]["matrix"]["jobs"]["leg"]["legs"]
    }
    assert legs == {
        "2.13.0-public-eager": "success",
        "2.13.0-public-lazy": "success",
        "2.13.0-fork-like-eager": "success",
        "2.13.0-fork-like-lazy": "success",
    }
    assert first_night["jobs"]["matrix"]["outputs"] == {"results": "true", "exit": "0"}
    assert first_night["jobs"]["publish"]["result"] == "success"
    assert github_issues(runner) == []
    site_cells = published_cells(runner)
    assert {key: cell["state"] for key, cell in site_cells.items()} == {
        ("public", "eager"): "pass",
        ("public", "lazy"): "refused",
        ("fork-like", "eager"): "pass",
        ("fork-like", "lazy"): "pass",
    }
    for cell in site_cells.values():
        assert cell["runs"][0]["provenance"] == "our-workflow"
    assert len(run_files_in_results_branch(runner)) == 3
    # The results branch also contains the site store, with a series for each cell that produced a leg.
    store_files = [name for name in files_in_results_branch(runner) if name.startswith(".store/")]
    assert len(store_files) == 6 and {".store/store.json", ".store/schedules.jsonl"} <= set(store_files)
    assert len(list((runner.state / "attestations").iterdir())) == 1
    pages = runner.state / "pages"
    assert "2.13.0" in (pages / "index.html").read_text()
    for name, session in (("documentation", "docs"), ("coverage", "coverage")):
        assert (pages / name / "index.html").read_text() == session
        assert f'href="{name}/index.html"' in (pages / "index.html").read_text()

    event["inputs"] = {**event["inputs"], "builds": "2.13.0:public:bringup", "modes": "eager"}
    build = write_wheel_action(tmp_path / "bad", write_broken_wheel(device_wheel, tmp_path / "wheel"))
    bad = runner("nightly.yml", event, {action: build, **sessions})
    assert bad["jobs"]["matrix"]["outputs"] == {"results": "true", "exit": "1"}
    titles = sorted(issue["title"] for issue in github_issues(runner))
    assert titles == ["Regression: hpu-reference, eager, torch 2.13.0-public"]
    assert all("neg" in issue["body"] for issue in github_issues(runner))
    site_cells = published_cells(runner)
    assert site_cells["public", "eager"]["state"] == "fail"
    assert any("neg" in name for name in site_cells["public", "eager"]["runs"][0]["regressed"])
    assert len(run_files_in_results_branch(runner)) == 6
