"""The commands of the command line.

Each module defines its arguments in ``add_parser`` and its work in ``execute``.
"""
