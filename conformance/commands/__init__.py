"""The commands of the command line. Each module defines its arguments in ``add`` and its work in ``execute``."""
