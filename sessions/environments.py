"""The environments that the sessions of the noxfile share: torch, the suite, and the reference device."""

from __future__ import annotations

import os
import sys
import urllib.request
from pathlib import Path

import nox

TORCH = os.environ.get("CONFORMANCE_TORCH", "2.13.0")
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
ROOT = Path(__file__).resolve().parents[1]
BACKEND = ROOT / "reference_backend"


class Environment:
    """A virtual environment in ``.nox``; made on first use, then reused. ``device`` serves most sessions;
    one that is laid over another is made by ``conformance torch fork-like``.
    """

    def __init__(self, session: nox.Session, name: str = "device", *, overlay: bool = False) -> None:
        self.session = session
        self.folder = ROOT / ".nox" / f"{name}-{sys.version_info.major}.{sys.version_info.minor}"
        #: Where programs are looked for beside the environment's own.
        self.path = os.environ["PATH"]
        if not overlay and not (self.folder / "bin" / "python").exists():
            session.run(sys.executable, "-m", "venv", str(self.folder), external=True)

    def run(self, program: str, *arguments: str, **options: object) -> str:
        """Run a program of the environment; its output where ``silent`` is given."""
        variables = {"PATH": f"{self.folder / 'bin'}{os.pathsep}{self.path}"}
        variables.update(options.pop("env", {}))  # type: ignore[call-overload]
        return self.session.run(
            str(self.folder / "bin" / program), *arguments, external=True, env=variables, **options
        )

    def install(self, *requirements: str, **options: object) -> None:
        self.run("python", "-m", "pip", "install", "--quiet", *requirements, **options)

    def wheel(self, source: Path, **options: object) -> None:
        """Build the wheel of a source tree into dist/."""
        words = ["pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
        self.run("python", "-m", *words, "-w", str(ROOT / "dist"), str(source), **options)

    def version_of(self, distribution: str) -> str:
        """The installed version, or the empty string."""
        code = (
            "import importlib.metadata as m\n"
            f"try: print(m.version({distribution!r}))\n"
            "except m.PackageNotFoundError: print()"
        )
        return self.run("python", "-c", code, silent=True, log=False).strip()


def answers(url: str) -> bool:
    """Whether an index answers within a few seconds; asked before pip, which would wait and try again."""
    try:
        with urllib.request.urlopen(f"{url}/torch/", timeout=5):
            return True
    except (OSError, ValueError):
        return False


def install_torch(environment: Environment, version: str = TORCH) -> None:
    """A CPU build where one can be had: the public default wheel for Linux is a CUDA build of several GB.

    ``version``: a release, or ``newest``, which is looked for again each time.
    """
    session = environment.session
    if version == "newest":
        index = ["--index-url", CPU_INDEX] if answers(CPU_INDEX) else []
        session.log(f"the newest torch comes from {'the CPU' if index else 'the default'} index")
        environment.install("--upgrade", "torch", *index)
        return
    if environment.version_of("torch").partition("+")[0] == version:
        return
    wanted = f"torch=={version}"
    try:
        # A wheel folder that pip is configured with; with --no-index this fails at once where there is none.
        environment.install("--no-index", "--no-deps", wanted, silent=True, log=False)
        session.log(f"torch {version} comes from the wheel folder that pip is configured with")
    except nox.command.CommandFailed:
        if answers(CPU_INDEX):
            session.log(f"torch {version} comes from PyTorch's CPU index")
            environment.install("--no-deps", wanted, "--index-url", CPU_INDEX)
        else:
            session.log(
                f"no CPU build of torch {version} can be had here: taking the default one, which may be large"
            )
    environment.install(wanted)  # what torch needs, and torch itself where no CPU build was found


def prepare(session: nox.Session) -> Environment:
    """Install torch and both distributions from this checkout, and build what changed of the C++ core."""
    environment = Environment(session)
    install_torch(environment)
    environment.install("setuptools>=77", "wheel", "ninja", "numpy", "scipy")
    environment.install("-e", str(ROOT))  # each time: what it needs may have changed
    with session.chdir(BACKEND):
        session.log("building what changed of the device (minutes on the first run)")
        environment.run("python", "setup.py", "--quiet", "build_ext", "--inplace", silent=True)
        if not environment.version_of("hpu-reference-backend"):
            environment.install(
                "--no-build-isolation",
                "--no-deps",
                "--config-settings=editable_mode=compat",
                "-e",
                str(BACKEND),
                # The extension is in place already; building it again for the metadata would take minutes.
                env={"HPU_REFERENCE_SKIP_EXTENSION": "1"},
            )
    return environment


def lay_over(base: Environment, driver: Environment, name: str) -> Environment:
    """The environment ``base`` once more, with its torch under the label of a fork-like build.

    It is laid over the other one, holds nothing of its own but links, and is made anew where torch there has
    changed. ``driver``: an environment that has the suite.
    """
    environment = Environment(base.session, name, overlay=True)
    python = str(base.folder / "bin" / "python")
    command = ["torch", "fork-like", "--from-environment", python, "-o", str(environment.folder)]
    driver.run("conformance", *command, silent=True)
    environment.path = f"{base.folder / 'bin'}{os.pathsep}{base.path}"
    return environment


def prepare_fork(device: Environment) -> Environment:
    """The fork-like environment beside ``device``; the core for the public torch serves it
    (``habana_frameworks/torch/_loader.py``).
    """
    environment = lay_over(device, device, "fork")
    with device.session.chdir(BACKEND):
        environment.run("python", "setup.py", "--quiet", "build_ext", "--inplace", silent=True)
    return environment
