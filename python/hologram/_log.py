"""Messages under the logger "hologram".

``logging`` is not imported for it: as long as nobody else has, nobody can have asked for messages.
"""

from __future__ import annotations

import sys


def info(message: str, *arguments: object) -> None:
    """Log what was decided, and why."""
    logging = sys.modules.get("logging")
    if logging is not None:
        logging.getLogger("hologram").info(message, *arguments)


def debug(message: str, *arguments: object) -> None:
    """Log what may help to find out why something is slow or missing."""
    logging = sys.modules.get("logging")
    if logging is not None:
        logging.getLogger("hologram").debug(message, *arguments)
