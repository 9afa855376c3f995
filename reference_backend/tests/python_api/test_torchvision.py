"""Test a torchvision without loadable operators, such as the public wheel with a CPU build of torch.

Without the backend, the import of such a torchvision fails.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

PACKAGE = {
    "__init__.py": "from . import extension\nfrom . import meta\n",
    "extension.py": "_HAS_OPS = False  # its compiled operators did not load\n",
    "meta.py": (
        "import torch\n"
        "@torch.library.register_fake('torchvision::nms')\n"
        "def fake(dets, scores, iou_threshold):\n    return dets\n"
    ),
}


def run_with_fake_torchvision(tmp_path: pathlib.Path, script: str) -> subprocess.CompletedProcess[str]:
    folder = tmp_path / "torchvision"
    folder.mkdir()
    for name, text in PACKAGE.items():
        (folder / name).write_text(text)
    backend = pathlib.Path(__file__).parents[2]
    # PYTHONPATH precedes the source folder, because it may name a copy of the backend with another core.
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH"), str(backend)]))
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": path},
    )


def test_import_works_and_the_missing_operator_raises(tmp_path):
    script = (
        "import torch, habana_frameworks.torch, torchvision\n"
        "try:\n    torch.ops.torchvision.nms(torch.rand(1, 4), torch.rand(1), 0.5)\n"
        "except NotImplementedError as error:\n    print('torchvision::nms' in str(error))"
    )
    done = run_with_fake_torchvision(tmp_path, script)
    assert done.stdout.strip() == "True", done.stderr


def test_torchvision_import_fails_without_the_device(tmp_path):
    done = run_with_fake_torchvision(
        tmp_path, "import os\nos.environ['PT_HPU_AUTOLOAD'] = '0'\nimport torch, torchvision"
    )
    assert "torchvision::nms does not exist" in done.stderr


def test_boxes_of_the_device_are_suppressed_without_torchvisions_library(tmp_path):
    script = (
        "import torch, habana_frameworks.torch, torchvision\n"
        "boxes = torch.tensor([[0., 0, 4, 4], [0, 0, 4, 5], [9, 9, 12, 12]], device='hpu')\n"
        "scores = torch.tensor([0.5, 0.9, 0.1], device='hpu')\n"
        "print(torch.ops.torchvision.nms(boxes, scores, 0.5).tolist())\n"
        "torchvision.extension._assert_has_ops()\n"
        "x, rois = torch.ones(1, 1, 8, 8, device='hpu'), torch.tensor([[0., 1, 1, 5, 5]], device='hpu')\n"
        "print(torch.ops.torchvision.roi_align(x, rois, 1.0, 2, 2, 2, True).flatten().tolist())"
    )
    done = run_with_fake_torchvision(tmp_path, script)
    assert done.stdout.split("\n")[:2] == ["[1, 2]", "[1.0, 1.0, 1.0, 1.0]"], done.stderr
