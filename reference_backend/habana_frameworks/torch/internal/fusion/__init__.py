"""Compile recorded graphs to shared objects (fusion).

A graph is rebuilt as an FX graph, compiled by AOTInductor in a subprocess, and run by C++. The subprocess
must not load the device. Therefore the modules of this package import only torch and each other; the
exceptions, such as `policy`, are not used in the subprocess.
"""
