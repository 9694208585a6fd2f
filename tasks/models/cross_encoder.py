"""Cross-encoders: score pairs of texts read together, for example whether one entails or contradicts the other.

A converted encoder runs on CTranslate2 and gives the state of the first token. Its small head (linear, tanh, linear) is
computed here in float64. The result is a probability for each label of the checkpoint, or one score.

A pair gets the same bits in every batch (exact_batches.py). Other processors, and GPUs, differ in the last bits of the
encoder's float32, which rounding probabilities to two digits hides except for ties.
"""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from factmill.tasks.core.rows import StrictModel
from factmill.tasks.errors import UsageError
from factmill.tasks.models.devices import (
    Device,
    choose_ctranslate2_device,
    count_workers,
    find_amd_onednn_matmul_instructions,
    open_ctranslate2_model,
)
from factmill.tasks.models.exact_batches import run_equal_length_filled_batches
from factmill.tasks.models.model_folder import (
    load_manifest_and_check_sizes,
    load_verified_manifest,
    parse_settings_in_manifest,
    resolve_model_folder,
)

Floats = npt.NDArray[np.float64]

HEAD_FILE = "head.npz"
"""File with the head's arrays in float32: dense_weight, dense_bias, out_weight, out_bias."""
ENTAILMENT_LABELS, CONTRADICTION_LABELS = frozenset({"entailment"}), frozenset({"contradiction"})
CONSISTENT_LABELS = frozenset({"consistent", "entailment", "correct", "supported"})
"""Names, in lower case, that checkpoints give the label of a text that follows from the other."""
SCORE_LABEL = "score"
"""Among a label's wanted names: accept a single score of any range."""


class CrossEncoderSettings(StrictModel):
    """How a converted cross-encoder makes scores (ModelManifest.settings)."""

    labels: list[str]
    """The checkpoint's labels; a single one means a score."""
    activation: Literal["softmax", "sigmoid", "none"]
    """Maps the head's outputs to numbers from 0 to 1; none: the output is a score of any range."""
    is_typed: bool
    """True if the encoder takes token types, which mark the second text."""
    max_tokens: int
    """Tokens of both texts and the special ones; beyond this the end of the longer text is cut."""

    def resolve_label_columns(self, wanted: Sequence[Collection[str]], name: str) -> list[int]:
        """Return the column of each wanted label, given its possible lower-case names; a single score matches any.

        UsageError if a label is missing, or is not a probability where one is wanted; `name`: the model's.
        """
        is_single = len(self.labels) == len(wanted) == 1
        any_size = is_single and SCORE_LABEL in wanted[0]
        found = [
            [number for number, label in enumerate(self.labels) if is_single or label.strip().lower() in names]
            for names in wanted
        ]
        if (self.activation == "none" and not any_size) or any(len(columns) != 1 for columns in found):
            wanted_names = ", ".join(" or ".join(sorted(names)) for names in wanted)
            raise UsageError(
                f"the cross-encoder {name} has the labels {', '.join(self.labels)} (activation {self.activation}); expected "
                f"probabilities of: {wanted_names}. Name them in id2label of the checkpoint's config.json and convert it again"
            )
        return [columns[0] for columns in found]


class PairScorer(Protocol):
    """Scores pairs of texts: a cross-encoder, here or on a cluster's workers."""

    @property
    def name(self) -> str: ...

    def score(self, pairs: Sequence[tuple[str, str]], wanted: Sequence[Collection[str]] | None = None) -> Floats:
        """Return the scores of pairs (`CrossEncoder.score`)."""
        ...


class CrossEncoder:
    """A converted cross-encoder (models/converting/encoder.py)."""

    def __init__(self, path: Path, device: Device = "auto", threads: int | None = None) -> None:
        """Open a model folder; `threads` batches run in parallel on the CPU (default: one a core)."""
        import ctranslate2
        from tokenizers import Tokenizer

        manifest = load_verified_manifest(path, "cross-encoder")
        self.settings = parse_settings_in_manifest(path, manifest, CrossEncoderSettings)
        self.name, self.digest = manifest.name, manifest.digest
        self._tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
        self.device = choose_ctranslate2_device(device)
        self._workers, self._multiplier = (
            count_workers(self.device, threads),
            find_amd_onednn_matmul_instructions(self.device),
        )
        self._encoder = open_ctranslate2_model(
            "Encoder", path, self.device, "float32", self._workers, manifest.made_with
        )
        self._to_cpu = ctranslate2.Device.cpu
        with np.load(path / HEAD_FILE) as head:
            self._head = {name: head[name].astype(np.float64) for name in head.files}

    def score(self, pairs: Sequence[tuple[str, str]], wanted: Sequence[Collection[str]] | None = None) -> Floats:
        """Return the scores of pairs (len(pairs) × len(settings.labels)).

        `wanted`: return only the columns of these labels (CrossEncoderSettings.find_columns).
        """
        columns = slice(None) if wanted is None else self.settings.resolve_label_columns(wanted, self.name)
        different = sorted(set(pairs))
        # one by one: after encode_batch the tokenizer's threads warn whenever this process forks
        encoded = [self._tokenizer.encode(first.strip(), second.strip()) for first, second in different]
        tokens, types = [each.ids for each in encoded], [each.type_ids for each in encoded]
        scores = np.zeros((len(different), len(self.settings.labels)))
        for rows, found in run_equal_length_filled_batches(
            [len(ids) for ids in tokens],
            self._workers,
            self._multiplier,
            lambda rows: self._score_batch([tokens[row] for row in rows], [types[row] for row in rows]),
        ):
            scores[rows] = found
        place = {pair: row for row, pair in enumerate(different)}
        return scores[[place[pair] for pair in pairs]][:, columns]

    def _score_batch(self, tokens: list[list[int]], types: list[list[int]]) -> Floats:
        token_types = types if self.settings.is_typed else None
        output = self._encoder.forward_batch(tokens, token_type_ids=token_types).last_hidden_state
        first = np.array(output.to_device(self._to_cpu))[:, 0].astype(np.float64)
        return np.stack([self._apply_head(state) for state in first])

    def _apply_head(self, state: Floats) -> Floats:
        """Return the scores of one pair, computed alone without a matrix library: no bit depends on other pairs."""
        head = self._head
        inner = np.tanh(np.einsum("ij,j->i", head["dense_weight"], state) + head["dense_bias"])
        logits: Floats = np.einsum("ij,j->i", head["out_weight"], inner) + head["out_bias"]
        if self.settings.activation == "softmax":
            powers = np.exp(logits - logits.max())
            return powers / powers.sum()
        return 1 / (1 + np.exp(-logits)) if self.settings.activation == "sigmoid" else logits


def resolve_cross_encoder_folder(name_or_path: str | Path, home_folder: Path) -> Path:
    """Return the folder of a cross-encoder by name (below the home) or path; else UsageError."""
    return resolve_model_folder(str(name_or_path), home_folder, "cross-encoder")


def get_cross_encoder_identity(
    name_or_path: str | Path, home_folder: Path, wanted_labels: Sequence[Collection[str]]
) -> dict[str, str]:
    """Return name and digest of a cross-encoder without opening it; UsageError if a wanted label is missing."""
    path = resolve_cross_encoder_folder(name_or_path, home_folder)
    manifest = load_manifest_and_check_sizes(path, "cross-encoder")
    parse_settings_in_manifest(path, manifest, CrossEncoderSettings).resolve_label_columns(wanted_labels, manifest.name)
    return {"name": manifest.name, "digest": manifest.digest}
