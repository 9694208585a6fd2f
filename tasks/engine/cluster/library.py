"""Dask's library, the extra `dask`: imported where it is used and nowhere else, since most users never need it."""

import importlib
import logging
from typing import Any

from tasks.compute import Compute
from tasks.errors import SettingsError


def import_distributed() -> Any:
    """Return the library; SettingsError says what to install. What it logs is left out: our errors tell it."""
    try:
        library = importlib.import_module("distributed")
    except ImportError as error:
        raise SettingsError(
            f"a cluster needs {error.name or 'distributed'}, which is not installed: pip install 'factmill[dask]'"
        ) from error
    logging.getLogger("distributed").setLevel(logging.CRITICAL + 1)
    return library


def make_security(ca_file: str, cert_file: str, key_file: str, role: str) -> Any:
    """Return what a tls:// connection is made with, or None for a plain one; `role`: client or worker."""
    if not ca_file:
        return None
    return import_distributed().Security(
        require_encryption=True,
        tls_ca_file=ca_file,
        **{f"tls_{role}_cert": cert_file, f"tls_{role}_key": key_file},
    )


def secure(compute: Compute) -> Any:
    """Return what the driver connects with."""
    return make_security(compute.ca_file, compute.cert_file, compute.key_file, "client")
