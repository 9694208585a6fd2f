"""Puts tests/support on the path, for the encoder that tests convert."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
