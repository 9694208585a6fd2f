"""What is shown in each setting, and what the built-in models say to it."""

from support.rows.biographies import make_biography  # noqa: F401
