"""Builds of torch as an axis: finding, making and describing them, and telling them apart.

    resolve    the word of a user: a release, nightly, wheel, URL    ──► a requirement or a wheel
    fork_like  a public wheel; overlay: an environment that has one  ──► the same under a fork-like label
    abi        shared objects, in a folder or a wheel                ──► the C++ ABI that they are for
    describe   an environment or a wheel                             ──► version, commit, kind, evidence
    guard      descriptions before and after an installation         ──► whether torch was swapped

Nothing here imports torch or a backend: everything is read from files.
"""
