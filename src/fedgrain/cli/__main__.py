"""``python -m fedgrain.cli`` is the command ``fedgrain``."""

import sys

from fedgrain.cli import main

sys.exit(main())
