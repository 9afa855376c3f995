"""``conformance ci push`` pushes a saved image under the name of the release, and writes the image's digest
to the outputs of the workflow step.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import tarfile
import time
import urllib.request

import pytest

from conformance import cli
from conformance.ci import images
from conformance.errors import UsageError
from tests.support import ROOT

DIGEST = "sha256:" + "1" * 64
NAME = "conformance:torch2.13.0-public-py311"
SKOPEO = f"""#!{sys.executable}
import json, os, sys
words = sys.argv[1:]
password = sys.stdin.read() if "--password-stdin" in words else ""
with open(os.environ["CALLS"], "a") as file:
    file.write(" ".join(words) + "\\n" + (f"stdin {{password}}\\n" if password else ""))
if words[0] == "list-tags":
    print(json.dumps({{"Tags": json.loads(os.environ["NAMES"])}}))
if words[0] == "login":
    with open(words[words.index("--authfile") + 1], "w") as file:
        json.dump({{"auths": {{words[-1]: {{"auth": "YTpi"}}}}}}, file)
if words[0] == "copy":
    if "DENIED" in os.environ:
        sys.exit('time="2026-01-01T00:00:00Z" level=fatal msg="writing \\\\"blob\\\\": denied: permission"')
    with open(words[words.index("--digestfile") + 1], "w") as file:
        file.write("{DIGEST}")
"""


@pytest.fixture
def fake_skopeo_folder(tmp_path, monkeypatch):
    """Install a fake ``fake_skopeo_folder`` that records its calls. Return the folder of its files."""
    program = tmp_path / "programs" / "skopeo"
    program.parent.mkdir()
    program.write_text(SKOPEO)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("NAMES", json.dumps([NAME]))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    monkeypatch.setenv("GH_TOKEN", "secret")
    monkeypatch.setenv("GITHUB_ACTOR", "somebody")
    (tmp_path / "image.tar").touch()
    return tmp_path


def push_exit_code(folder, **changes):
    settings = {"repository": "Owner/Name", "version": "v1.2", **changes}
    options = [f"--{name}={value}" for name, value in settings.items()]
    return cli.main(["ci", "push", str(folder / "image.tar"), *options])


def test_a_push_logs_in_copies_and_outputs_the_digest(fake_skopeo_folder, step_outputs_file):
    assert push_exit_code(fake_skopeo_folder) == 0
    calls = (fake_skopeo_folder / "calls").read_text().splitlines()
    assert [call.split()[0] for call in calls] == ["list-tags", "login", "stdin", "copy"]
    assert calls[-1].endswith("docker://ghcr.io/owner/name:v1.2-torch2.13.0-public-py311")
    assert "--tls-verify=true" in calls[1] and "--dest-tls-verify=true" in calls[-1]
    assert "stdin secret" in calls
    assert not any("secret" in call for call in calls if not call.startswith("stdin"))
    written = step_outputs_file.read_text().splitlines()
    assert "ghcr.io/owner/name" in written and DIGEST in written


def test_the_login_is_kept_for_the_signing_step(fake_skopeo_folder, step_outputs_file):
    settings = fake_skopeo_folder / "docker" / "config.json"
    assert push_exit_code(fake_skopeo_folder) == 0
    assert json.loads(settings.read_text()) == {"auths": {"ghcr.io": {"auth": "YTpi"}}}
    assert stat.S_IMODE(settings.stat().st_mode) == 0o600
    settings.write_text(json.dumps({"credsStore": "desktop", "auths": {"other": {}}}))
    assert push_exit_code(fake_skopeo_folder) == 0
    docker_config = json.loads(settings.read_text())
    assert docker_config["credsStore"] == "desktop" and set(docker_config["auths"]) == {"other", "ghcr.io"}
    settings.write_text("[]")
    assert push_exit_code(fake_skopeo_folder) == 2


def test_without_a_token_there_is_no_login(fake_skopeo_folder, step_outputs_file, monkeypatch):
    monkeypatch.delenv("GH_TOKEN")
    assert push_exit_code(fake_skopeo_folder) == 0
    calls = (fake_skopeo_folder / "calls").read_text().splitlines()
    assert [call.split()[0] for call in calls] == ["list-tags", "copy"]
    assert "--authfile" not in calls[-1] and not (fake_skopeo_folder / "docker").exists()


def test_a_push_that_is_denied(fake_skopeo_folder, step_outputs_file, monkeypatch, capsys):
    monkeypatch.setenv("DENIED", "1")
    assert push_exit_code(fake_skopeo_folder) == 2
    error = capsys.readouterr().err
    assert 'skopeo copy failed: writing "blob": denied: permission' in error and len(error.splitlines()) == 1
    assert not step_outputs_file.exists()


@pytest.mark.parametrize("names", [[], [NAME, "conformance:other"]])
def test_a_file_must_contain_one_named_image(names, fake_skopeo_folder, monkeypatch, capsys):
    monkeypatch.setenv("NAMES", json.dumps(names))
    assert push_exit_code(fake_skopeo_folder) == 2
    assert f"image.tar contains {len(names)} named images" in capsys.readouterr().err


@pytest.mark.parametrize(
    "changes",
    [{"version": "v1;x"}, {"version": ""}, {"repository": "a/../b"}, {"registry": "host/path"}],
)
def test_invalid_names_are_usage_errors(changes, fake_skopeo_folder):
    assert push_exit_code(fake_skopeo_folder, **changes) == 2
    assert not (fake_skopeo_folder / "calls").exists()


def test_a_missing_image_file_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="does not exist"):
        images.push_image(tmp_path / "x.tar", "ghcr.io", "a/b", "v1", "u", "t")


def test_a_missing_skopeo_is_a_usage_error(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "x.tar").touch()
    with pytest.raises(
        UsageError, match=r"the program skopeo is not installed; run 'apt-get install skopeo'"
    ):
        images.push_image(tmp_path / "x.tar", "ghcr.io", "a/b", "v1", "u", "t")


#: A line of the registry's password file: account ``somebody`` with the password ``secret``, hashed by bcrypt
#: with the lowest cost.
ACCOUNT = "somebody:$2b$04$X9JAej3RF1b2YyQJzg0Zb.DpgjBjvOhHbYdNPaIb7dACKeScfbSlS"
PROGRAMS = ("skopeo", "docker-registry")


def write_image(file):
    """Write an image with one small file in the format of ``docker save``."""
    layer = tar_bytes({"hello": b"hello"})
    system = {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]}
    config = json.dumps({"architecture": "amd64", "os": "linux", "config": {}, "rootfs": system})
    manifest = [{"Config": "config.json", "RepoTags": [NAME], "Layers": ["layer.tar"]}]
    members = {"config.json": config.encode(), "layer.tar": layer}
    file.write_bytes(tar_bytes({**members, "manifest.json": json.dumps(manifest).encode()}))


def tar_bytes(members):
    handle = io.BytesIO()
    with tarfile.open(fileobj=handle, mode="w") as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return handle.getvalue()


@pytest.fixture
def local_image_registry(tmp_path, monkeypatch):
    """Start Debian's image registry on this machine, with a password. Write an image into ``tmp_path``."""
    if missing := [name for name in PROGRAMS if shutil.which(name) is None]:
        pytest.skip(f"there is no {missing[0]}: apt-get install {' '.join(PROGRAMS)}")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{listener.getsockname()[1]}"
    (tmp_path / "accounts").write_text(ACCOUNT + "\n")
    (tmp_path / "registry.yml").write_text(
        f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {tmp_path / 'kept'}}}}}\n"
        f"http: {{addr: '{host}'}}\nauth: {{htpasswd: {{realm: x, path: {tmp_path / 'accounts'}}}}}\n"
    )
    write_image(tmp_path / "image.tar")
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    monkeypatch.setenv("GITHUB_ACTOR", "somebody")
    with (tmp_path / "registry.log").open("w") as log:
        process = subprocess.Popen(
            ["docker-registry", "serve", str(tmp_path / "registry.yml")], stdout=log, stderr=log
        )
    try:
        for _ in range(100):
            with socket.socket() as caller:
                if caller.connect_ex(("127.0.0.1", int(host.partition(":")[2]))) == 0:
                    break
            time.sleep(0.1)
        yield host
    finally:
        process.terminate()
        process.wait()


def test_a_push_to_a_registry(local_image_registry, tmp_path, step_outputs_file, monkeypatch):
    monkeypatch.setenv("GH_TOKEN", "secret")
    assert push_exit_code(tmp_path, local_image_registry=local_image_registry) == 0
    credentials = base64.b64encode(b"somebody:secret").decode()
    request = urllib.request.Request(
        f"http://{local_image_registry}/v2/owner/name/manifests/v1.2-torch2.13.0-public-py311",
        headers={
            "Accept": "application/vnd.docker.distribution.manifest.v2+json",
            "Authorization": f"Basic {credentials}",
        },
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        digest = f"sha256:{hashlib.sha256(answer.read()).hexdigest()}"
    written = step_outputs_file.read_text().splitlines()
    assert f"{local_image_registry}/owner/name" in written and digest in written


def test_a_wrong_password_is_one_sentence(
    local_image_registry, tmp_path, step_outputs_file, monkeypatch, capsys
):
    monkeypatch.setenv("GH_TOKEN", "wrong")
    assert push_exit_code(tmp_path, local_image_registry=local_image_registry) == 2
    error = capsys.readouterr().err
    assert "invalid username/password" in error and len(error.splitlines()) == 1
    assert not step_outputs_file.exists() and not (tmp_path / "docker").exists()


def test_the_release_pushes_all_images_of_the_bake_file():
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    targets = json.loads((ROOT / "docker" / "docker-bake.json").read_text())["target"]
    tagged = [name for name, body in targets.items() if "tags" in body]
    assert len(tagged) == 8
    assert re.findall(r"^ {10}- (torch-\S+)$", workflow, re.M).count(tagged[0]) == 2
    assert set(re.findall(r"^ {10}- (torch-\S+)$", workflow, re.M)) == set(tagged)
