"""Commands: each module adds its arguments with ``add`` and does its work in ``execute``."""
