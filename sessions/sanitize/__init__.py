"""Run the tests of threads and lifetimes on a core that is built with the compiler's sanitizers.

For each kind of sanitizer, the core is built in ``.nox/sanitize/KIND`` with lock order checks, and the tests
run on it. Torch and Python are unchanged: the sanitizer's runtime is preloaded. Each process writes its
reports to a file. The session fails if a test fails, or if a report is not covered by the suppressions.
"""
