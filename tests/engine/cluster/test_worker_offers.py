"""Test what a worker offers: the named models, or all complete models of its home, compared by digest."""

from pathlib import Path

import pytest
from support.models.tiny_encoder import make_weights, write_checkpoint

from factmill.tasks.engine.cluster.protocol import RequiredModelOrGraph
from factmill.tasks.engine.cluster.worker import (
    check_worker_options,
    load_servable_resources,
    run_worker_and_return_end_signal,
)
from factmill.tasks.errors import LocalGraphError, UsageError
from factmill.tasks.models import perplexity, translator
from factmill.tasks.models.converting.encoder import make_embedder_folder
from factmill.tasks.models.embedders import SentenceEncoder
from factmill.tasks.models.model_folder import get_models_folder

ADDRESS = "tcp://10.0.0.5:8786"


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """Add a tiny encoder to a home and return its folder."""
    make_embedder_folder(write_checkpoint(tmp_path / "tiny", make_weights()), get_models_folder(tmp_path))
    return get_models_folder(tmp_path) / "tiny"


def test_models_are_served_by_name_and_path_under_their_digests(tiny: Path, tmp_path: Path) -> None:
    digest = SentenceEncoder(tiny, "cpu", 1).digest
    for name in ("tiny", str(tiny)):
        (offer,) = load_servable_resources(tmp_path, [name], [], "cpu", 1, print)
        assert (offer.requirement, offer.name) == (RequiredModelOrGraph("embedder", digest), "tiny")
    identity = translator.get_translator_identity(translator.EMBEDDED_TRANSLATOR, tmp_path, "cpu")
    assert [
        each.requirement
        for each in load_servable_resources(tmp_path, [translator.EMBEDDED_TRANSLATOR], [], "cpu", 1, print)
    ] == [RequiredModelOrGraph("translator", identity)]


def test_damaged_folder_is_refused_when_named_and_skipped_otherwise(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # converting the packaged encoder on first use is slow
    monkeypatch.setattr(
        "factmill.tasks.engine.cluster.worker.choose_minilm_or_ngram_embedder", lambda home: "char-ngrams-1"
    )
    weights = (tiny / "model.bin").read_bytes()
    (tiny / "model.bin").write_bytes(bytes([weights[0] ^ 1]) + weights[1:])
    with pytest.raises(UsageError, match=r"damaged: model\.bin"):
        load_servable_resources(tmp_path, ["tiny"], [], "cpu", 1, print)
    said: list[str] = []
    offers = load_servable_resources(tmp_path, [], [], "cpu", 1, said.append)
    assert [offer.requirement.kind for offer in offers] == ["translator", "perplexity"]
    assert len(said) == 1 and said[0].startswith("note: skipped: ")


def test_missing_model_or_graph_is_reported(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError,
        match=rf"no model nope in .*: {translator.EMBEDDED_TRANSLATOR}, {perplexity.EMBEDDED_LANGUAGE_MODEL}",
    ):
        load_servable_resources(tmp_path, ["nope"], [], "cpu", 1, print)
    with pytest.raises(LocalGraphError, match="no graph nope"):
        load_servable_resources(tmp_path, [], ["nope"], "cpu", 1, print)


@pytest.mark.parametrize(
    ("address", "files", "text"),
    [
        ("10.0.0.5", ("", "", ""), "--address: '10.0.0.5' .* tcp://10.0.0.5:8786"),
        (ADDRESS, ("ca.pem", "", ""), "--address: ca-file, cert-file and key-file .* tls://"),
        ("tls://10.0.0.5:8786", ("", "", ""), "--address: a tls:// address needs ca-file, cert-file and key-file"),
        ("tls://10.0.0.5:8786", ("a", "b", "c"), "no file a;"),
    ],
)
def test_incompatible_worker_options_are_reported(address: str, files: tuple[str, str, str], text: str) -> None:
    check_worker_options(ADDRESS, ("", "", ""))
    with pytest.raises(UsageError, match=text):
        check_worker_options(address, files)


def test_invalid_host_option_is_distinguished_from_other_start_failures() -> None:
    with pytest.raises(UsageError, match=r"^--host 192\.0\.2\.1: not an address of this machine"):
        run_worker_and_return_end_signal(ADDRESS, [], print, "192.0.2.1")
    with pytest.raises(UsageError, match=r"cannot start a worker with these options: .*IPv6"):
        run_worker_and_return_end_signal(ADDRESS, [], print, "::1")
