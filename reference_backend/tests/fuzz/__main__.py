"""Run random programs on the device: the command line of `fuzz.search`."""

from .search import main

raise SystemExit(main())
