"""The virtual environments of the nox sessions: torch, the suite and the reference device."""

from __future__ import annotations

import os
import shutil
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import nox

from sessions.interpreters import OWN_PYTHON, interpreter_of

TORCH = os.environ.get("CONFORMANCE_TORCH", "2.13.0")
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
ROOT = Path(__file__).resolve().parents[1]
BACKEND = ROOT / "reference_backend"


class Environment:
    """A virtual environment in ``.nox``, created on first use and then reused.

    Most sessions use the environment ``device``. ``conformance torch fork-like`` makes an overlay of another
    environment.
    """

    def __init__(
        self, session: nox.Session, name: str = "device", *, overlay: bool = False, python: str = ""
    ) -> None:
        """Create or reuse the environment ``name`` for a Python version (``3.10``), by default nox's own."""
        self.session = session
        self.python = python or OWN_PYTHON
        self.folder = ROOT / ".nox" / f"{name}-{self.python}"
        #: The value of PATH that is appended to the environment's own ``bin`` folder.
        self.path = os.environ["PATH"]
        if not overlay and not (self.folder / "bin" / "python").exists():
            interpreter = interpreter_of(self.python)
            if interpreter is None:
                session.error(f"python{self.python} was not found: install it and add it to the PATH")
            session.run(str(interpreter), "-m", "venv", str(self.folder), external=True)

    def run(self, program: str, *arguments: str, through: Sequence[str] = (), **options: object) -> str:
        """Run a program of the environment. Return its output if ``silent`` is passed.

        ``through`` is a command prefix that starts the program, such as ``timeout 600``.
        """
        variables = {"PATH": f"{self.folder / 'bin'}{os.pathsep}{self.path}"}
        # Allow bytecode files. Hundreds of processes import the suite, and without bytecode files each
        # process would compile all imported modules.
        variables["PYTHONDONTWRITEBYTECODE"] = ""
        variables.update(options.pop("env", {}))  # type: ignore[call-overload]
        command = [*through, str(self.folder / "bin" / program), *arguments]
        return self.session.run(*command, external=True, env=variables, **options)

    def install(self, *requirements: str, **options: object) -> None:
        """Install requirements with pip."""
        self.run("python", "-m", "pip", "install", "--quiet", *requirements, **options)

    def wheel(self, source: Path, **options: object) -> None:
        """Build the wheel of a source tree into dist/."""
        command = ["pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
        self.run("python", "-m", *command, "-w", str(ROOT / "dist"), str(source), **options)

    def version_of(self, distribution: str) -> str:
        """Return the installed version of a distribution, or an empty string if it is not installed."""
        code = (
            "import importlib.metadata as m\n"
            f"try: print(m.version({distribution!r}))\n"
            "except m.PackageNotFoundError: print()"
        )
        return self.run("python", "-c", code, silent=True, log=False).strip()


def index_responds(url: str) -> bool:
    """Return whether a package index responds within five seconds. Pip itself would wait longer and retry."""
    try:
        with urllib.request.urlopen(f"{url}/torch/", timeout=5):
            return True
    except (OSError, ValueError):
        return False


def install_torch(environment: Environment, version: str = TORCH) -> None:
    """Install torch, as a CPU build if one is available. The default wheel for Linux is a CUDA build of
    several GB.

    ``version`` is a release, or ``newest`` for the newest release, which is looked up each time.
    """
    session = environment.session
    if version == "newest":
        index = ["--index-url", CPU_INDEX] if index_responds(CPU_INDEX) else []
        session.log(f"the newest torch is installed from {'the CPU' if index else 'the default'} index")
        environment.install("--upgrade", "torch", *index)
        return
    if environment.version_of("torch").partition("+")[0] == version:
        return
    requirement = f"torch=={version}"
    try:
        # Try the wheel folder in pip's configuration first. If the folder has no such wheel, pip fails
        # immediately, and an index is used.
        environment.install("--no-index", "--no-deps", requirement, silent=True, log=False)
        session.log(f"torch {version} was installed from the wheel folder in pip's configuration")
    except nox.command.CommandFailed:
        if index_responds(CPU_INDEX):
            session.log(f"torch {version} is installed from PyTorch's CPU index")
            environment.install("--no-deps", requirement, "--index-url", CPU_INDEX)
        else:
            session.log(
                f"no CPU build of torch {version} is available: installing the default build, "
                "which may be large"
            )
    environment.install(requirement)  # torch's requirements, and torch if no CPU build exists


def prepare_device(session: nox.Session) -> Environment:
    """Return the environment ``device``: torch, and both distributions from this checkout.

    Only the changed parts of the C++ core are rebuilt.
    """
    environment = Environment(session)
    install_torch(environment)
    environment.install("setuptools>=77", "wheel", "ninja", "numpy", "scipy")
    environment.install("-e", str(ROOT))  # each time, because the requirements may have changed
    with session.chdir(BACKEND):
        session.log("building the changed parts of the device (minutes on the first run)")
        build = ("python", "setup.py", "--quiet", "build_ext", "--inplace")
        environment.run(*build, silent=True, env={"HPU_REFERENCE_KEY": "HPU"})
        install_device(environment)
    return environment


def build_privateuse1_core(environment: Environment) -> None:
    """Build the changed parts of the core with the dispatch key PrivateUse1, whose device is called refdev.

    The core is next to the core with the key HPU. ``HPU_REFERENCE_KEY`` selects one of them.
    """
    session = environment.session
    with session.chdir(BACKEND):
        session.log("building the changed parts of the device refdev (minutes on the first run)")
        key = {"HPU_REFERENCE_KEY": "PrivateUse1"}
        environment.run("python", "setup.py", "--quiet", "build_ext", "--inplace", silent=True, env=key)


def install_device(environment: Environment) -> None:
    """Install the device from this checkout, with its built core, so that torch loads the device."""
    # Reinstall the device if hl-smi is missing: an older checkout installed the device without hl-smi.
    if not (
        environment.version_of("hpu-reference-backend") and (environment.folder / "bin" / "hl-smi").exists()
    ):
        environment.install(
            "--no-build-isolation",
            "--no-deps",
            "--config-settings=editable_mode=compat",
            "-e",
            str(BACKEND),
            # The core is already built. Without this variable, pip would build the core again.
            env={"HPU_REFERENCE_SKIP_EXTENSION": "1"},
        )


def build_copy(environment: Environment, folder: Path, description: str, **variables: str) -> Path:
    """Update a copy of the device, build its core there, and return the path of the copy.

    The path belongs at the start of ``PYTHONPATH``. The core of the other sessions is unchanged.

    Args:
        environment: the environment whose torch the core is built for.
        folder: the folder that contains the copy, as ``core``.
        description: a description of this core, for the log.
        variables: environment variables of the build.
    """
    copy = folder / "core"
    ignored = shutil.ignore_patterns("build", "*.so", "__pycache__", "tests", "*.egg-info")
    shutil.copytree(BACKEND, copy, ignore=ignored, dirs_exist_ok=True)
    for source in list((copy / "csrc").rglob("*.*")):
        if not (BACKEND / source.relative_to(copy)).exists():
            source.unlink()
    session = environment.session
    with session.chdir(copy):
        session.log(f"building the changed parts of the core, {description} (minutes on the first run)")
        build = ["python", "setup.py", "--quiet", "build_ext", "--inplace"]
        environment.run(*build, env=variables, silent=True)
    return copy


def write_smi_script(environment: Environment) -> None:
    """Write ``hl-smi`` into an environment that uses a copy of the device through ``PYTHONPATH``."""
    script = environment.folder / "bin" / "hl-smi"
    script.write_text(
        f"#!{environment.folder / 'bin' / 'python'}\n"
        "import sys\n\nfrom hpu_reference_tools.smi import main\n\nsys.exit(main())\n"
    )
    script.chmod(0o755)


def make_overlay_environment(base: Environment, driver: Environment, name: str) -> Environment:
    """Return an overlay of the environment ``base`` whose torch has the version label of a fork-like build.

    The overlay contains links only. It is recreated if the torch of ``base`` has changed. ``driver`` is an
    environment that contains the suite.
    """
    environment = Environment(base.session, name, overlay=True)
    python = str(base.folder / "bin" / "python")
    command = ["torch", "fork-like", "--from-environment", python, "-o", str(environment.folder)]
    driver.run("conformance", *command, silent=True)
    environment.path = f"{base.folder / 'bin'}{os.pathsep}{base.path}"
    return environment


def prepare_fork_environment(device: Environment) -> Environment:
    """Return the environment ``fork``: an overlay of ``device`` with a fork-like torch.

    The overlay uses the core for the public torch (``habana_frameworks/torch/_loader.py``).
    """
    environment = make_overlay_environment(device, device, "fork")
    with device.session.chdir(BACKEND):
        build = ("python", "setup.py", "--quiet", "build_ext", "--inplace")
        environment.run(*build, silent=True, env={"HPU_REFERENCE_KEY": "HPU"})
    return environment
