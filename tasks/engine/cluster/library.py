"""Dask's library, the extra `dask`: imported where it is used and nowhere else, since most users never need it."""

import importlib
import logging
from typing import Any

from tasks.compute import Compute, require_files
from tasks.errors import SettingsError


def import_distributed() -> Any:
    """Return the library; SettingsError says what to install. What it logs is left out: our errors tell it."""
    try:
        library = importlib.import_module("distributed")
    except ImportError as error:
        raise SettingsError(
            f"a cluster needs {error.name or 'distributed'}, which is not installed: pip install 'factmill[dask]'"
        ) from error
    # some of its loggers have levels of their own, which that of the first does not reach
    for name in ["distributed", *(each for each in logging.root.manager.loggerDict if each.startswith("distributed."))]:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
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
    """Return what the driver connects with; SettingsError when a file of certificates is not there."""
    require_files((compute.ca_file, compute.cert_file, compute.key_file))
    return make_security(compute.ca_file, compute.cert_file, compute.key_file, "client")
