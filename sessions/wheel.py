"""Build one wheel of the reference device for several torch builds.

The core is built for each torch in turn, from one copy of the source, into ``_builds/KEY``. The wheel
contains all cores, and the loader selects the matching one (``habana_frameworks/torch/_loader.py``).
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from pathlib import Path

import nox

from sessions.environments import BACKEND, ROOT, Environment, install_torch

#: torch builds for which the wheel contains a core. A fork-like torch uses the core for the public build with
#: equal binaries.
TORCHES = ("2.6.0", "2.13.0", "newest")
SOURCE = ROOT / ".nox" / "wheel"
ONE_OF_MANY_CORES = {"HPU_REFERENCE_ONE_OF_MANY": "1"}
#: Build requirements. torch 2.6 imports pkg_resources, which newer setuptools no longer contain.
BUILD_WITH = ("setuptools>=77,<81", "wheel", "ninja", "numpy")
#: Part of the message with which the device refuses a torch that was built for another accelerator
#: (``reject_torch_for_other_accelerator`` in habana_frameworks/torch/_loader.py).
REFUSAL = "does not support hpu in addition"
_TRIAL = """
import torch, habana_frameworks.torch as ht
x = torch.arange(6.0, device="hpu").reshape(2, 3)
assert (x @ x.t()).cpu().tolist() == [[5.0, 14.0], [14.0, 50.0]]
print("core:", ht._C.__file__.rpartition("/")[0].rpartition("/")[2], "for torch", torch.__version__)
"""


def make_environment(session: nox.Session, torch: str) -> Environment:
    """Return an environment with this torch and the build requirements."""
    venv = Environment(session, f"torch-{torch}")
    install_torch(venv, torch)
    venv.install(*BUILD_WITH)
    return venv


def build_requested_wheel(session: nox.Session) -> None:
    """Build the wheel for the torch releases of ``--torches``. Copy it to ``--output`` if requested."""
    parser = argparse.ArgumentParser(prog="nox -s wheel --", allow_abbrev=False)
    parser.add_argument(
        "--torches", type=json.loads, default=list(TORCHES), help='JSON, ["2.13.0", "newest"]'
    )
    parser.add_argument("-o", "--output", type=Path, help="folder that gets a copy of the wheel")
    options = parser.parse_args(session.posargs)
    version_pattern = re.compile(r"newest|\d+\.\d+\.\d+")
    if not (
        isinstance(options.torches, list)
        and options.torches
        and all(map(version_pattern.fullmatch, map(str, options.torches)))
    ):
        session.error(
            f'--torches {options.torches} is not a list of releases; write it as ["2.13.0", "newest"]'
        )
    lacking: list[str] = []
    wheel = build_wheel(session, tuple(options.torches), lacking)
    if options.output is not None:
        options.output.mkdir(parents=True, exist_ok=True)
        shutil.copy(wheel, options.output)
    if lacking:
        session.error(f"the wheel has no core for torch {', '.join(lacking)}; see the reason above")


def build_wheel(
    session: nox.Session, torches: tuple[str, ...] = TORCHES, lacking: list[str] | None = None
) -> Path:
    """Build the wheel, import it with each torch, and return its path.

    If ``lacking`` is a list, this function appends the torch versions for which no core can be compiled, and
    builds the wheel without these cores. If ``lacking`` is None, such a version is an error.
    """
    copy_source(session)
    environments = {torch: make_environment(session, torch) for torch in torches}
    builds = SOURCE / "habana_frameworks" / "torch" / "_builds"
    for torch, venv in environments.items():
        session.log(f"building the core for torch {venv.version_of('torch')} ({torch})")
        try:
            with session.chdir(SOURCE):
                venv.run(
                    "python",
                    "setup.py",
                    "--quiet",
                    "build_ext",
                    "--inplace",
                    env=ONE_OF_MANY_CORES,
                    silent=True,
                )
        except nox.command.CommandFailed:
            if lacking is None:
                raise
            lacking.append(torch)
    environments = {torch: venv for torch, venv in environments.items() if torch not in (lacking or ())}
    if not environments:
        session.error("no core could be compiled; see the reason above")
    keys = {core_folder_name(venv) for venv in environments.values()}
    for old in builds.iterdir():
        if old.name not in keys:
            shutil.rmtree(old)  # the core of a torch that is no longer requested
    for old in (SOURCE / "build").glob("lib*"):
        shutil.rmtree(old)
    list(environments.values())[-1].wheel(
        SOURCE, env={**ONE_OF_MANY_CORES, "HPU_REFERENCE_SKIP_EXTENSION": "1"}
    )
    folder = ROOT / "dist"
    (wheel,) = sorted(folder.glob("hpu_reference_backend-*.whl"), key=lambda path: path.stat().st_mtime)[-1:]
    for torch, venv in environments.items():
        install_wheel(venv, wheel)
        if why := refusal_reason(venv):
            session.log(f"torch {torch}: the core is not tested, because {why}")
            continue
        venv.run("python", "-c", _TRIAL, env={"PT_HPU_AUTOLOAD": "0"})
    session.log(f"{wheel.relative_to(ROOT)} has cores for {', '.join(sorted(keys))}")
    return wheel


def install_wheel(venv: Environment, wheel: Path) -> None:
    """Install the wheel into an environment, replacing an installed one."""
    venv.install("--no-deps", "--force-reinstall", str(wheel))


def refusal_reason(venv: Environment) -> str:
    """Return the reason why the torch of an environment does not support hpu, or an empty string."""
    code = "import torch; print(torch.__version__, torch.version.cuda or '-')"
    output = venv.run("python", "-c", code, silent=True, log=False, env={"PT_HPU_AUTOLOAD": "0"}).split()
    version, cuda = output[-2:]
    release = tuple(int(part) for part in version.partition("+")[0].split(".")[:2])
    if cuda == "-" or release < (2, 7):
        return ""
    return f"torch {version} is built with CUDA and {REFUSAL}, and no CPU build is available here"


def core_folder_name(venv: Environment) -> str:
    """Return the folder name of the core for the torch of an environment."""
    code = (
        "import torch, sys\n"
        "sys.path.insert(0, 'habana_frameworks/torch/internal')\n"
        "import torch_build\n"
        "fork = torch.__version__.partition('+')[2].startswith(('git', 'hpu'))\n"
        "print(torch_build.core_folder_name(torch.__version__, torch._C._GLIBCXX_USE_CXX11_ABI, fork))"
    )
    with venv.session.chdir(SOURCE):
        return venv.run("python", "-c", code, silent=True, log=False, env={"PT_HPU_AUTOLOAD": "0"}).split()[
            -1
        ]


def _tracked_files(session: nox.Session) -> set[str]:
    """Return the files of the device's source that git tracks or would track."""
    listed = session.run(
        *("git", "ls-files", "--cached", "--others", "--exclude-standard", "."),
        external=True,
        silent=True,
        log=False,
    )
    return {
        name.removeprefix("reference_backend/")
        for name in (listed or "").splitlines()
        if name.startswith("reference_backend/") and (ROOT / name).is_file()
    }


def _source_files() -> set[str]:
    """Return the source files of the device without calling git.

    The checkout of a GitHub action is not a git repository.
    """
    built = {"build", "_builds", "__pycache__"}
    return {
        str(path.relative_to(BACKEND))
        for path in BACKEND.rglob("*")
        if path.is_file()
        and not built & set(path.relative_to(BACKEND).parts)
        and path.suffix != ".so"
        and path.name != "_build_info.py"
        and not any(part.endswith(".egg-info") for part in path.parts)
    }


def copy_source(session: nox.Session) -> None:
    """Copy the source of the device without untracked files, and keep the outputs of earlier builds."""
    names = _tracked_files(session) if (ROOT / ".git").exists() else _source_files()
    for name in names:
        target = SOURCE / name
        target.parent.mkdir(parents=True, exist_ok=True)
        source = BACKEND / name
        if not target.exists() or target.read_bytes() != source.read_bytes():
            shutil.copyfile(source, target)
    for path in SOURCE.rglob("*.py"):
        name = path.relative_to(SOURCE)
        if str(name) not in names and name.parts[0] != "build" and "_builds" not in name.parts:
            path.unlink()
