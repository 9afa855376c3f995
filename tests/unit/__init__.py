"""Tests of single modules, in the folder structure of conformance/. They start no run and load no backend."""
