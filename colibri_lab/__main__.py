"""``python -m colibri_lab`` is ``colibri-lab``."""

import sys

from .cli import main

sys.exit(main())
