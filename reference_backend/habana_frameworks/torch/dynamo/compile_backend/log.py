"""The logger that all modules of the compile backend share."""

from __future__ import annotations

from habana_frameworks.torch.dynamo.debug_utils.logger import Logger

logger = Logger("PT_COMPILE")
