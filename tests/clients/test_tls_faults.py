"""Test TLS faults that no retry repairs: every client stops at once, with the reason and the remedy."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.webs.every_client import CLIENTS
from support.webs.loopback import Loopback
from support.webs.proxies import make_certificates

from factmill.tasks.core.service_settings import ServiceLimits
from factmill.tasks.errors import ServiceUnreachable

PATIENT = ServiceLimits(parallel=4, timeout_s=20, attempts=9, backoff_s=60)
"""A second try would come after the test's time."""
FAULTS = {
    "expired": "certificate has expired.*REQUESTS_CA_BUNDLE",
    "other host": "Hostname mismatch.*REQUESTS_CA_BUNDLE",
    "unknown authority": "unable to get local issuer certificate.*REQUESTS_CA_BUNDLE",
    "no TLS": "no common version of TLS.*https",
    "old TLS": "no common version of TLS.*https",
}


@pytest.fixture(params=FAULTS)
def fault(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    host = "other.invalid" if fault == "other host" else "localhost"
    bundle, tls = make_certificates(tmp_path, host, -1 if fault == "expired" else 1)
    if fault == "old TLS":
        tls.set_ciphers("ALL:@SECLEVEL=0")
        tls.minimum_version = tls.maximum_version = ssl.TLSVersion.TLSv1_1
    for name in ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"):
        if fault == "unknown authority":
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, str(bundle))
    loopback = Loopback(tls=None if fault == "no TLS" else tls)
    yield f"https://localhost:{loopback.port}"
    loopback.close()


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@pytest.mark.parametrize("name", CLIENTS)
def test_insecure_connection_stops_run_at_once(name: str, url: str, fault: str, inbox) -> None:
    open_client, make_call = CLIENTS[name]
    with pytest.raises(ServiceUnreachable, match=FAULTS[fault]) as error:
        open_client(url, PATIENT).send([make_call("Berlin")], inbox)
    assert "localhost" in str(error.value)
