"""``python -m conformance`` is the console script."""

import sys

from conformance.cli import main

sys.exit(main())
