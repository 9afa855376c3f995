"""Run the console script ``conformance`` by ``python -m conformance``."""

import sys

from conformance.cli import main

sys.exit(main())
