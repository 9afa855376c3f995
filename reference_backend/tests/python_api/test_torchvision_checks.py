"""Run `opcheck` on the operators of ``torch.ops.torchvision`` on the device, in a separate process.

If torchvision is missing, a package without compiled operators replaces it.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from helpers.processes import run_code

#: Files of the package that replaces torchvision. The device defines the operators. As in torchvision, the
#: package defines the result shape of `nms`.
PACKAGE = {
    "__init__.py": "from . import extension\nfrom . import meta\n",
    "extension.py": "def _has_ops():\n    return False\n",
    "meta.py": (
        "import torch\n"
        "@torch.library.register_fake('torchvision::nms')\n"
        "def fake(dets, scores, iou_threshold):\n"
        "    return dets.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.long)\n"
    ),
}

CHECKS = ("test_schema", "test_faketensor", "test_aot_dispatch")
#: Descriptions of the samples of each operator.
KINDS = {
    "nms": ["boxes"],
    "roi_align": ["aligned", "by_pixels"],
    "_roi_align_backward": ["aligned", "by_pixels"],
    "deform_conv2d": ["masked", "plain"],
    "_deform_conv2d_backward": ["masked", "plain"],
}

#: Script that checks each operator on tensors that require gradients. The script prints the result of each
#: check, and whether results and gradients equal what the device's Python functions return.
PROGRAM = """
import json, sys
import torch, habana_frameworks.torch, torchvision
from habana_frameworks.torch.internal.operators import vision

torch.manual_seed(1)
there = lambda *size: torch.randn(size).to("hpu")
operators = torch.ops.torchvision
x = there(2, 4, 6, 5)
rois = torch.tensor([[0.0, 1, 1, 5, 5], [1, 0, 0, 3, 4]]).to("hpu")
corner = there(9, 2).abs() * 5
five = [x, there(6, 2, 3, 2), there(2, 24, 3, 4), there(2, 12, 3, 4).sigmoid(), there(6)]
numbers = [2, 1, 1, 0, 1, 1, 2, 2]
samples = {
    "nms": [(torch.cat((corner, corner + 4), 1), there(9), 0.2)],
    "roi_align": [(x, rois, 0.5, 2, 3, ratio, ratio > 0) for ratio in (2, -1)],
    "_roi_align_backward": [
        (there(2, 4, 2, 3), rois, 0.5, 2, 3, 2, 4, 6, 5, ratio, ratio > 0) for ratio in (2, -1)
    ],
    "deform_conv2d": [(*five, *numbers, masked) for masked in (True, False)],
    "_deform_conv2d_backward": [
        (there(2, 6, 3, 4), *five, *numbers, masked) for masked in (True, False)
    ],
}

def wanting(one):
    is_input = isinstance(one, torch.Tensor) and one is not rois
    return one.detach().clone().requires_grad_() if is_input else one

found = {"composite": {}}
for name, several in samples.items():
    # Deformable convolution is checked with static sizes. With symbolic sizes it passes too, but takes some
    # minutes.
    sizes = "_static" if "deform" in name else "_dynamic"
    composite = torch._C._dispatch_has_kernel_for_dispatch_key(
        f"torchvision::{name}", "CompositeImplicitAutograd"
    )
    found["composite"][name] = composite
    for place, arguments in enumerate(several):
        arguments = tuple(wanting(one) for one in arguments)
        for check in sys.argv[1:]:
            asked = check + sizes if check == "test_aot_dispatch" else check
            try:
                said = torch.library.opcheck(
                    getattr(operators, name).default, arguments, test_utils=asked
                )[asked]
            except torch.testing._internal.optests.OpCheckError as error:
                said = str(error)
            found[f"{name} {place} {check}"] = said

masked, plain = samples["deform_conv2d"]
given = [one.detach().clone().requires_grad_() for one in five]
out = operators.deform_conv2d(*given, *numbers, True)
grads = torch.autograd.grad(out, given, torch.ones_like(out))
backward = operators._deform_conv2d_backward(torch.ones_like(out), *five, *numbers, True)
regions = wanting(x)
aligned = operators.roi_align(regions, rois, 0.5, 2, 3, 2, True)
(of_x,) = torch.autograd.grad(aligned, regions, torch.ones_like(aligned))
of_regions = operators._roi_align_backward(torch.ones_like(aligned), rois, 0.5, 2, 3, 2, 4, 6, 5, 2, True)
pairs = {
    "deform_conv2d": [(out, vision.deform_conv2d(*masked))],
    "_deform_conv2d_backward": list(zip(grads, backward, strict=True)),
    "roi_align": [(aligned, vision.roi_align(*samples["roi_align"][0]))],
    "_roi_align_backward": [(of_x, of_regions)],
    "nms": [(operators.nms(*samples["nms"][0]), vision.nms_indices(*samples["nms"][0]))],
}
found["same"] = {
    name: all(a.numel() > 0 and torch.equal(a.cpu(), b.cpu()) for a, b in both)
    for name, both in pairs.items()
}
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def check_output(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the results of the checks, by operator, sample number and check."""
    folder = tmp_path_factory.mktemp("packages")
    (folder / "torchvision").mkdir()
    for name, text in PACKAGE.items():
        (folder / "torchvision" / name).write_text(text)
    done = run_code(PROGRAM, *CHECKS, cwd=folder, path=(folder,), options=("-W", "ignore"))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.nightly("compiles operators of torchvision for seconds")
@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(
    ("name", "sample_index"), [(n, p) for n, kinds in KINDS.items() for p in range(len(kinds))],
    ids=[f"{n}-{kind}" for n, kinds in KINDS.items() for kind in kinds],
)  # fmt: skip
def test_opcheck_passes(check_output: dict[str, Any], name: str, sample_index: int, check: str) -> None:
    # `test_autograd_registration` does not apply, because torch supports it only for CPU, CUDA and XPU. The
    # next test checks the gradients: torch differentiates the components of the operators.
    assert check_output[f"{name} {sample_index} {check}"] == "SUCCESS"


@pytest.mark.parametrize("name", sorted(KINDS))
def test_operators_equal_the_functions_of_the_device(check_output: dict[str, Any], name: str) -> None:
    assert check_output["same"][name] is True
    assert check_output["composite"][name] is (
        name != "nms"
    )  # `nms` has no derivative, and works on the host
