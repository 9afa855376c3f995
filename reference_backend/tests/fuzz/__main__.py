"""See `fuzz.search`."""

from .search import main

raise SystemExit(main())
