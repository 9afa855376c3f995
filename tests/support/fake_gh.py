"""A fake ``gh`` program. It reads and writes issues, workflow runs, artifacts and signatures in a folder,
which ``FAKE_GH`` names.

* ``issues.json``: the list of issues
* ``REPOSITORY/runs.json``: the list of workflow runs
* ``REPOSITORY/artifacts/RUN/NAME/``: the files of an artifact
* ``attestations/SHA256``: the signer of a file, as ``WORKFLOW REF COMMIT``
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import stat
import sys
import zipfile
from pathlib import Path
from typing import Any


def install_fake_gh(folder: Path) -> Path:
    """Write this program as ``gh`` into the folder. Return the folder, which belongs in PATH."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "gh"
    program.write_text(f"#!{sys.executable}\n{Path(__file__).read_text()}")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return folder


def exit_with_error(message: str) -> None:
    sys.exit(f"gh: {message}")


def read_json(file: Path, default: Any) -> Any:
    return json.loads(file.read_text()) if file.exists() else default


def api_response(state: Path, arguments: list[str]) -> Any:
    method, path = arguments[arguments.index("--method") + 1], arguments[arguments.index("--method") + 2]
    fields = dict(
        arguments[index + 1].split("=", 1) for index, argument in enumerate(arguments) if argument == "-f"
    )
    body = json.load(sys.stdin) if "--input" in arguments else {}
    issues = read_json(state / "issues.json", [])
    if match := re.fullmatch(r"repos/([^/]+/[^/]+)/actions/workflows/([^/]+)/runs", path):
        runs = read_json(state / match[1] / "runs.json", [])
        branch = fields["branch"]
        own = [run for run in runs if run["path"].endswith(match[2]) and run["listed"] == branch]
        return {"workflow_runs": own[: int(fields["per_page"])]}
    if match := re.fullmatch(r"repos/([^/]+/[^/]+)", path):
        return {"default_branch": "main"}
    if match := re.fullmatch(r"repos/([^/]+/[^/]+)/actions/runs/(\d+)/artifacts", path):
        folder = state / match[1] / "artifacts" / match[2]
        names = sorted(folder.iterdir()) if folder.is_dir() else []
        sizes = {item.name: sum(file.lstat().st_size for file in item.iterdir()) for item in names}
        return {
            "artifacts": [
                {"name": name, "size_in_bytes": size, "id": int(match[2]) * 10 + index}
                for index, (name, size) in enumerate(sizes.items())
            ]
        }
    if not os.environ.get("GH_TOKEN"):
        exit_with_error("no token")
    if method == "GET" and path.endswith("/issues"):
        wanted = fields["labels"]
        return [item for item in issues if item["state"] == fields["state"] and wanted in item["labels"]]
    if method == "POST" and path.endswith("/issues"):
        issues.append({"number": len(issues) + 1, "state": "open", "comments": [], **body})
        answer = issues[-1]
    elif match := re.search(r"/issues/(\d+)(/comments)?$", path):
        answer = issues[int(match[1]) - 1]
        answer["comments"].append(body["body"]) if match[2] else answer.update(body)
    else:
        exit_with_error(f"unknown {method} {path}")
    (state / "issues.json").write_text(json.dumps(issues))
    return answer


def option_value(arguments: list[str], name: str) -> str:
    return arguments[arguments.index(name) + 1]


def main() -> None:
    state = Path(os.environ["FAKE_GH"])
    command, arguments = sys.argv[1], sys.argv[2:]
    if command == "api" and arguments[0].endswith("/zip"):
        repository, number = re.fullmatch(
            r"repos/([^/]+/[^/]+)/actions/artifacts/(\d+)/zip", arguments[0]
        ).groups()
        folder = sorted((state / repository / "artifacts" / number[:-1]).iterdir())[int(number[-1])]
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in folder.iterdir():
                if file.is_symlink():
                    entry = zipfile.ZipInfo(file.name)
                    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
                    archive.writestr(entry, os.readlink(file))
                else:
                    archive.write(file, file.name)
        sys.stdout.buffer.write(buffer.getvalue())
    elif command == "api":
        print(json.dumps(api_response(state, arguments)))
    elif command == "attestation" and arguments[0] == "verify":
        digest = hashlib.sha256(Path(arguments[1]).read_bytes()).hexdigest()
        file = state / "attestations" / digest
        named = [
            option_value(arguments, f"--{name}")
            for name in ("signer-workflow", "source-ref", "source-digest")
        ]
        signer = " ".join(named)
        if not named[0].startswith(f"{option_value(arguments, '--repo')}/"):
            exit_with_error("the signer workflow belongs to a different repository")
        if not file.exists() or file.read_text().strip() != signer:
            exit_with_error("no attestation matches")
    else:
        exit_with_error(f"unknown command {command}")


if __name__ == "__main__":
    main()
