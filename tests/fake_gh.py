"""A program ``gh`` over a folder: issues, runs of workflows, their artifacts and signatures.

``FAKE_GH`` names the folder. ``issues.json``: a list; ``REPOSITORY/runs.json``: runs of workflows;
``REPOSITORY/artifacts/RUN/NAME/``: files; ``attestations/SHA256``: who signed, as ``WORKFLOW COMMIT``.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import sys
from pathlib import Path
from typing import Any


def installed(folder: Path) -> Path:
    """A folder for the path of programs, in which this is ``gh``."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "gh"
    program.write_text(f"#!{sys.executable}\n{Path(__file__).read_text()}")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return folder


def fail(words: str) -> None:
    sys.exit(f"gh: {words}")


def read(file: Path, otherwise: Any) -> Any:
    return json.loads(file.read_text()) if file.exists() else otherwise


def api(state: Path, words: list[str]) -> Any:
    method, path = words[words.index("--method") + 1], words[words.index("--method") + 2]
    fields = dict(words[place + 1].split("=", 1) for place, word in enumerate(words) if word == "-f")
    body = json.load(sys.stdin) if "--input" in words else {}
    issues = read(state / "issues.json", [])
    if match := re.fullmatch(r"repos/([^/]+/[^/]+)/actions/workflows/([^/]+)/runs", path):
        runs = read(state / match[1] / "runs.json", [])
        return {"workflow_runs": [run for run in runs if run["path"].endswith(match[2])]}
    if match := re.fullmatch(r"repos/([^/]+/[^/]+)/actions/runs/(\d+)/artifacts", path):
        folder = state / match[1] / "artifacts" / match[2]
        names = sorted(folder.iterdir()) if folder.is_dir() else []
        sizes = {one.name: sum(file.stat().st_size for file in one.iterdir()) for one in names}
        return {"artifacts": [{"name": name, "size_in_bytes": size} for name, size in sizes.items()]}
    if not os.environ.get("GH_TOKEN"):
        fail("no token")
    if method == "GET" and path.endswith("/issues"):
        wanted = fields["labels"]
        return [one for one in issues if one["state"] == fields["state"] and wanted in one["labels"]]
    if method == "POST" and path.endswith("/issues"):
        issues.append({"number": len(issues) + 1, "state": "open", "comments": [], **body})
        answer = issues[-1]
    elif match := re.search(r"/issues/(\d+)(/comments)?$", path):
        answer = issues[int(match[1]) - 1]
        answer["comments"].append(body["body"]) if match[2] else answer.update(body)
    else:
        fail(f"unknown {method} {path}")
    (state / "issues.json").write_text(json.dumps(issues))
    return answer


def option(words: list[str], name: str) -> str:
    return words[words.index(name) + 1]


def main() -> None:
    state = Path(os.environ["FAKE_GH"])
    command, words = sys.argv[1], sys.argv[2:]
    if command == "api":
        print(json.dumps(api(state, words)))
    elif command == "run" and words[0] == "download":
        source = state / option(words, "--repo") / "artifacts" / words[1] / option(words, "--name")
        shutil.copytree(source, option(words, "--dir"), dirs_exist_ok=True, symlinks=True)
    elif command == "attestation" and words[0] == "verify":
        digest = hashlib.sha256(Path(words[1]).read_bytes()).hexdigest()
        file = state / "attestations" / digest
        signer = f"{option(words, '--signer-workflow')} {option(words, '--source-digest')}"
        if not file.exists() or file.read_text().strip() != signer:
            fail("no attestation that fits")
    else:
        fail(f"unknown command {command}")


if __name__ == "__main__":
    main()
