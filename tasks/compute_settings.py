"""Settings for where the heavy part of a build is computed: in this process, or on the workers of a Dask cluster.

No manifest and no call key contains them, since they change no response: digests identify models and graphs, and a
worker's result for a text does not depend on its other work. `device` is only an apparent exception: it determines the
number format in which the workers compute, and models' identities contain that already.
"""

from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError, model_validator

from factmill.tasks.core.rows import MAX_WAIT_S, StrictModel
from factmill.tasks.core.service_settings import check_dask_scheduler_address
from factmill.tasks.errors import SettingsError

CLUSTER_VARIABLE = "FACTMILL_CLUSTER"
"""Environment variable with a scheduler's address, which overrides that of any world's file."""


class ComputeSettings(StrictModel):
    """Settings for where local models run and paths in local graphs are searched."""

    engine: Literal["local", "dask"] = "local"
    """`local`: in this process; `dask`: on the workers of a Dask cluster, each started with `factmill worker`."""
    address: str = ""
    """Address of the scheduler for engine `dask`: tcp://HOST:PORT, or tls://HOST:PORT with the three files below."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device of the workers, which determines the number format of translators and perplexity models; auto: as on this machine."""
    wait_s: float = Field(default=60.0, gt=0, le=MAX_WAIT_S)
    """Seconds to wait for a worker that holds the required model or graph; then the build ends with advice."""
    ca_file: str = ""
    """PEM file of the authority that signed the certificates of the cluster."""
    cert_file: str = ""
    """PEM file of this side's certificate."""
    key_file: str = ""
    """PEM file of its key."""

    @model_validator(mode="after")
    def _check(self) -> "ComputeSettings":
        if self.engine == "local":
            if given := sorted(self.model_fields_set - {"engine"}):
                raise ValueError(f'{given[0]} requires engine = "dask"; add that line, or remove {given[0]}')
            return self
        check_dask_scheduler_address(self.address)
        check_tls_files_fit_address(self.address, (self.ca_file, self.cert_file, self.key_file))
        return self


def check_tls_files_fit_address(address: str, files: tuple[str, str, str]) -> None:
    """Raise ValueError unless a tls:// address has all three files, and a tcp:// address none."""
    is_safe = address.startswith("tls://")
    if is_safe and not all(files):
        raise ValueError("a tls:// address needs ca_file, cert_file and key_file")
    if not is_safe and any(files):
        raise ValueError("ca_file, cert_file and key_file require a tls:// address")


def require_existing_tls_files(files: tuple[str, str, str]) -> None:
    """Raise SettingsError when one of the named files does not exist."""
    if missing := [file for file in files if file and not Path(file).is_file()]:
        raise SettingsError(
            f"no file {missing[0]}; a tls:// address needs PEM files of the authority, the certificate and its key; "
            "relative paths start at the current folder"
        )


def make_cluster_settings(address: str, world_settings: ComputeSettings) -> ComputeSettings:
    """Return the settings of a cluster whose address the environment names; SettingsError for an invalid address.

    `world_settings`: settings of the world's file, of which all but the address apply to this cluster too.
    """
    try:
        return ComputeSettings.model_validate(
            world_settings.model_dump(exclude_unset=True) | {"engine": "dask", "address": address}
        )
    except ValidationError as error:
        why = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
        raise SettingsError(f"{CLUSTER_VARIABLE}: {why}; set certificates in a world's file") from None
