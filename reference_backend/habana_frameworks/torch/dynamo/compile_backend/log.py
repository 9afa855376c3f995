"""The log of the compile backend, which its modules share."""

from __future__ import annotations

from habana_frameworks.torch.dynamo.debug_utils.logger import Logger

logger = Logger("PT_COMPILE")
