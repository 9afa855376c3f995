"""Recorded graphs into shared objects: built as FX, compiled by AOTInductor in a subprocess, run by C++.

The subprocess must not load the device, so nothing in this package imports anything outside it but torch;
`policy` alone, which the subprocess does not use, reads the settings.
"""
