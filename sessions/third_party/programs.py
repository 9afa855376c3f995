"""The third-party programs: requirements, test commands, and tests that cannot pass."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class Run:
    """One call of a client's test runner."""

    name: str
    arguments: tuple[str, ...]
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict)
    #: Whether each test runs in a separate process: a test that starts ranks runs its own command again in
    #: each rank.
    separate_processes: bool = False
    #: Whether a failed test is retried in a separate process. Tests of one process affect each other through
    #: process groups, ports and variables.
    retry_alone: bool = False


@dataclasses.dataclass(frozen=True)
class Client:
    """A program, its requirements besides torch, and its tests. ``{backend}`` denotes the device's folder."""

    name: str
    version: str
    requirements: tuple[str, ...]
    runs: tuple[Run, ...]
    #: Whether the source comes from a tree. Otherwise the tests are this project's own tests, which import
    #: the client.
    has_tree: bool = True
    #: Requirements that are built from source, because their version is not in the index.
    sources: tuple[str, ...] = ()
    #: Whether the tests need digits in MNIST's file format in ``data``, and a text. Random data is generated.
    needs_data: bool = False
    #: The Python and torch versions that the client requires; by default the session's versions.
    python: str = ""
    torch: str = ""
    #: Packages that a CUDA build of torch installs and that break the client without a GPU.
    without: tuple[str, ...] = ()
    #: Whether the client finds the device through torch only, so that torch must load it. Other clients
    #: import it.
    asks_torch: bool = False
    #: Environment variables while requirements are built.
    build: Mapping[str, str] = dataclasses.field(default_factory=dict)
    #: The number of the client's own tests; the page lists the tests that no run passes. 0 if it has none.
    tests: int = 0
    #: Patterns of "test: failure text" of tests that cannot pass, with the reason.
    misses: Mapping[str, str] = dataclasses.field(default_factory=dict)


def _own(name: str, file: str, **variables: str) -> Run:
    """Return a run of the device's own tests that use a program."""
    return Run(name, (f"{{backend}}/tests/third_party/{file}", "-q"), {"PT_HPU_LAZY_MODE": "0", **variables})


_QUIET = ("-W", "ignore::FutureWarning", "-q")
_LIGHTNING = ("--hpus", "1", *_QUIET)
#: lightning-habana requires the DeepSpeed of release 1.18. From 1.17 on it needs neural_compressor. The last
#: variable lets torch 2.6 and later load checkpoints that contain DeepSpeed's classes.
_OF_LIGHTNING = {
    "PT_HPU_LAZY_MODE": "0",
    "HPU_REFERENCE_PROFILER_ACTIVITY": "replaced",
    "HPU_REFERENCE_SMI_VERSION": "1.18.0",
    "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1",
}
CLIENTS = (
    Client(
        "lightning-habana",
        "1.7.0",
        (
            "setuptools<81", "wheel", "lightning==2.4.0", "torchmetrics<1.5", "scikit-learn<1.6", "pytest<9",
            "pytest-forked==1.6.0", "pytest-cov", "jsonargparse[signatures]", "torchvision==0.21.0",
            "tensorboard", "requests", "neural-compressor-pt==3.4", "{backend}/tools",
        ),
        (
            Run(
                "one device",
                ("tests", *_LIGHTNING, "-m", "not standalone and not standalone_only"),
                _OF_LIGHTNING,
                retry_alone=True,
            ),
            Run(
                "two ranks",
                ("tests", "--hpus", "2", *_QUIET, "-m", "standalone or standalone_only"),
                _OF_LIGHTNING,
                separate_processes=True,
            ),
            # Tests that the client skips on Gaudi 2, the default simulated device.
            Run(
                "one device, Gaudi 3",
                ("tests/test_pytorch/strategies/test_deepspeed.py", *_LIGHTNING,
                 "-k", "test_lightning_model and -3]"),
                {**_OF_LIGHTNING, "HPU_REFERENCE_DEVICE_NAME": "GAUDI3"},
            ),
            Run(
                "one device, first Gaudi",
                ("tests/test_pytorch/test_precision.py", *_LIGHTNING, "-k", "not_supported_on_gaudi"),
                # Without neural_compressor, which does not support that device.
                {**_OF_LIGHTNING, "HPU_REFERENCE_DEVICE_NAME": "GAUDI",
                 "HPU_REFERENCE_SMI_VERSION": "1.16.0"},
            ),
            Run(
                "lists of autocast",
                ("tests/test_pytorch/test_precision.py", *_LIGHTNING, "--runxfail",
                 "-k", "test_autocast_operators_override"),
                {**_OF_LIGHTNING, "LOWER_LIST": "tests/test_pytorch/ops_fp32.txt",
                 "FP32_LIST": "tests/test_pytorch/ops_bf16.txt"},
            ),
            _own("its examples, one and two ranks", "test_lightning_examples.py", **_OF_LIGHTNING),
            _own("programs of its guide", "test_lightning_guide.py", **_OF_LIGHTNING),
        ),
        tests=392,
        sources=("deepspeed==0.14.4",),
        needs_data=True,
        # It uses results of importlib.resources.path as paths, which works up to Python 3.10. For this
        # Python, a CUDA build of torch up to 2.6 also works, and 2.6 is the release of the public bridge.
        python="3.10",
        torch="2.6.0",
        without=("triton",),
        build={
            "DS_BUILD_OPS": "0",
            "DS_ACCELERATOR": "cpu",
            "DS_BUILD_STRING": "+hpu.synapse.v1.18.0",
        },
        misses={
            r"test_compiled_model_\w*log_metric\w*: [\s\S]*Guard check failed": (
                "torch's Dynamo cannot trace lightning's log"
            ),
            r"deepspeed_fp8_inference_accuracy\S*: [\s\S]*(JSONDecodeError|inc_output/measure)": (
                "its two ranks write one file of configuration at the same time, and leave no measurements"
            ),
            r"mat1 and mat2 must have the same dtype": "a product of mixed dtypes, which torch refuses",
            r"test_hpu_precision_long_type.*DID NOT RAISE": "it asks for a refusal of int64",
            r"test_hpu_parallel_precision_accuracy": (
                "losses of bfloat16 on one and on two ranks differ by less than a step of bfloat16, and are "
                "to agree to 1e-4"
            ),
        },
    ),
    Client(
        "DeepSpeed",
        "0.19.5",
        ("setuptools", "wheel", "numpy", "pytest", "deepspeed==0.19.5"),
        (_own("two ranks", "test_deepspeed.py"),),
        has_tree=False,
        build={"DS_BUILD_OPS": "0"},
    ),
    Client(
        "accelerate",
        "1.15.0",
        ("numpy", "pytest", "accelerate==1.15.0", "torchdata"),
        (_own("its scripts, one and two ranks", "test_accelerate.py"),),
        has_tree=False,
    ),
    Client(
        "transformers",
        "5.24.0",
        ("setuptools>=77", "wheel", "numpy", "pytest", "transformers==5.24.0", "accelerate==1.15.0"),
        (_own("Trainer, one and two ranks", "test_transformers.py"),),
        has_tree=False,
        asks_torch=True,
    ),
    Client(
        "bitsandbytes",
        "0.50.2",
        ("numpy", "pytest", "bitsandbytes==0.50.2"),
        (_own("weights of 4 bits", "test_bitsandbytes.py"),),
        has_tree=False,
    ),
    Client(
        "torchtitan",
        "0.2.2",
        ("setuptools>=77", "wheel", "numpy", "pytest", "torchtitan==0.2.2", "triton"),
        (_own("its debug model, two ranks", "test_torchtitan.py"),),
        has_tree=False,
        asks_torch=True,
    ),
    Client(
        "optimum-habana",
        "1.21.2",
        (
            "setuptools>=77,<81", "wheel", "numpy<2", "pytest", "optimum-habana==1.21.2",
            "torchvision==0.28.0", "peft==0.17.0", "trl==0.9.6", "rich", "datasets==3.6.0", "pyarrow<20",
            "{backend}/companion", "{backend}/tools",
        ),
        (_own("imports and trainer", "test_optimum.py"),),
        has_tree=False,
        asks_torch=True,
    ),
)  # fmt: skip
