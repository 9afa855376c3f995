"""Run the core under the compiler's sanitizers, with the tests of threads and lifetimes.

For each kind the core is built in ``.nox/sanitize/KIND`` with lock order checks, and the tests run on it.
Torch and Python are unchanged: the sanitizer's runtime is preloaded. Each process writes its reports to a
file. The session fails if a test fails, or if a report is not covered by the suppressions.
"""
