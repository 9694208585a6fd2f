"""A release as a folder: its text files by name, each with what makes it."""

from collections.abc import Callable, Mapping

from tasks.release.contents import Release

RENDERERS: Mapping[str, Callable[[Release], str]] = {}
"""File of the folder → what makes its text, UTF-8; digests of data files are known by then (`Split.files`)."""
