"""``python -m conformance``: the same as the console script."""

import sys

from conformance.cli import main

sys.exit(main())
