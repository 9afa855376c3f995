"""Tests of single modules, in the folder structure of ``conformance/``. No test starts a run or loads a
backend.
"""
