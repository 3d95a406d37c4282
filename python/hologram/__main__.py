"""``python -m hologram`` is the ``hologram`` command."""

import sys

from hologram.cli import main

sys.exit(main())
