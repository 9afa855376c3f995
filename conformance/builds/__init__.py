"""Find, relabel, describe and guard builds of torch.

* :mod:`.build_spec` parses a build specification (release, nightly, wheel, URL) and downloads the wheel.
* :mod:`.fork_like` and :mod:`.fork_like_environment` repack a public build under a fork-like version label.
* :mod:`.abi` measures the C++ ABI of shared objects.
* :mod:`.describe` describes the torch of an environment or a wheel: version, commit, kind, evidence, ABI.
* :mod:`.torch_guard` checks that an installation did not replace torch.

This package reads the files of torch and of a backend, and does not import them.
"""
