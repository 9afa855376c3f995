"""The core under the sanitizers of the compiler, with the tests in which threads or lifetimes meet.

For each kind the core is built once more, in ``.nox/sanitize/KIND``, with its lock order checked, and the
tests run on it. Torch and Python stay as they are: the runtime of the sanitizer is preloaded. Reports go to
files, one for each process. The session fails if a test fails, or if a report is left that the suppressions
do not cover.
"""
