"""Measure which branches of the suite and which lines of the compiled core the tests execute.

The child processes of the suite are measured too. The core is built with gcov counters from a copy of its
sources in ``.nox/coverage``, so the core of the other sessions is unchanged. The folder ``coverage-out`` gets
``suite/index.html``, ``core/index.html`` and an ``index.html`` with their totals, and a summary is printed.
The session does not fail because of low coverage.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence

import nox

from sessions.environments import ROOT, Environment, build_copy, install_torch

TOOLS = (
    "coverage>=7.10",
    "gcovr>=8",
    "hypothesis",
    "pillow",
    "torchao",
    "habana-pyhlml",
    "torch-tb-profiler",
    "tlparse",
)
FOLDER = ROOT / ".nox" / "coverage"
OUTPUT = ROOT / "coverage-out"
#: Configuration of coverage.py. Worker processes end by signals and by ``os._exit``. The settings ``sigterm``
#: and ``patch`` make coverage.py save its data first.
SETTINGS = """\
[run]
branch = true
parallel = true
source_pkgs = conformance
data_file = {folder}/data/suite
sigterm = true
patch =
    subprocess
    _exit

[report]
skip_empty = true
exclude_also =
    if TYPE_CHECKING:
"""

#: Options that exclude the properties from the totals.
OUTSIDE = ("--omit=*/conformance/properties/*",)
INDEX = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Coverage of the tests</title>
<h1>Coverage of the tests</h1>
<ul>
<li><a href="suite/index.html">Suite</a>: {suite:.1f} % of branches and lines outside properties</li>
<li><a href="core/index.html">Compiled core</a>: {core:.1f} % of lines</li>
</ul>
</html>
"""


def run_with_coverage(session: nox.Session, tests: Sequence[str]) -> None:
    """Run the tests, measure the coverage of the suite and of the compiled core, and write a page for each.

    Args:
        session: the nox session. Its positional arguments, if any, replace the two folders in ``tests``.
        tests: arguments of pytest, of which the last two are folders.
    """
    environment = Environment(session, "coverage")
    install_torch(environment)
    environment.install("setuptools>=77", "wheel", "ninja", "numpy", "scipy", *TOOLS)
    environment.install("-e", str(ROOT))
    for counters in FOLDER.rglob("*.gcda"):
        counters.unlink()
    core = build_copy(environment, FOLDER, "with counters", HPU_REFERENCE_COVERAGE="1")
    shutil.rmtree(FOLDER / "data", ignore_errors=True)
    shutil.rmtree(OUTPUT, ignore_errors=True)
    (FOLDER / "data").mkdir(parents=True)
    OUTPUT.mkdir()
    settings = FOLDER / "coverage.ini"
    settings.write_text(SETTINGS.format(folder=FOLDER))
    variables = {
        "PYTHONPATH": os.pathsep.join([str(core), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep),
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",  # this environment has no entry point that loads the device
    }
    pytest_arguments = [*tests[:-2], *session.posargs] if session.posargs else list(tests)
    # Failed tests (exit code 1) do not fail this session, because the session `tests` reports them.
    environment.run(
        *("python", "-m", "coverage", "run", f"--rcfile={settings}", "-m", "pytest", *pytest_arguments),
        env=variables,
        success_codes=[0, 1],
    )
    measured = ["python", "-m", "coverage"]
    environment.run(*measured, "combine", "-q", f"--rcfile={settings}")
    environment.run(*measured, "html", "-q", f"--rcfile={settings}", "-d", str(OUTPUT / "suite"))
    totals = FOLDER / "suite.json"
    environment.run(*measured, "json", "-q", f"--rcfile={settings}", *OUTSIDE, "-o", str(totals))
    environment.run(*measured, "report", f"--rcfile={settings}", *OUTSIDE)
    (OUTPUT / "core").mkdir()
    environment.run(
        *("gcovr", "--root", str(core), "--filter", f"{core}/csrc/", "--gcov-ignore-parse-errors"),
        *("--json-summary", str(FOLDER / "core.json"), "--html-details", str(OUTPUT / "core" / "index.html")),
        *("--txt", "-", str(core / "build")),
    )
    suite = json.loads(totals.read_text())["totals"]
    lines = json.loads((FOLDER / "core.json").read_text())
    (OUTPUT / "index.html").write_text(
        INDEX.format(suite=suite["percent_covered"], core=lines["line_percent"])
    )
    session.log(f"pages: {OUTPUT / 'suite' / 'index.html'}, {OUTPUT / 'core' / 'index.html'}")
