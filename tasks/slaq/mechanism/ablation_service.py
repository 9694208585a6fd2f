"""A service that ablates a causal language model in a Hugging Face folder; replay needs no model.

| operation | parts | body of the reply |
|---|---|---|
| ablate | messages, answer, start, end (of the part that counts, in characters), recover, largest_set, centre | `{"heads": h, "tokens": [{"token", "base", "importances", "chosen", "recovered"}, …]}` |

Each answer's part is one call, so that a killed run resumes at the next one, and another draw of facts repeats no
ablation. A failure is a failed reply `<reason>: <detail>`, with reasons as in rows.Unscored.

The model reads the messages, by its chat template if it has one, and the answer, which is tokenised separately. A token
counts if it overlaps the part of the answer that counts, so both answers may split the same words differently.
"""

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from factmill.tasks.core.calls.call import Call, CallResponse, ResponseHandler
from factmill.tasks.core.digests import digest_json
from factmill.tasks.errors import UsageError
from factmill.tasks.models.model_folder import digest_file
from factmill.tasks.slaq.core.mechanism.rows import TokenComponentImportances
from factmill.tasks.slaq.mechanism import ablation
from factmill.tasks.slaq.mechanism.ablation import (
    AblationOutOfMemory,
    ComponentAblator,
    NonFiniteLogit,
    UnsupportedArchitecture,
    import_mechanism_extra,
    measure_ablation_effects,
    tokenize_prompt_and_answer,
)
from factmill.tasks.storage.source_files import SourceFile

Device = Literal["auto", "cpu", "cuda"]
Precision = Literal["float32", "bfloat16", "float16"]
CONFIG_FILE = "config.json"
ABLATE_OPERATION = "ablate"
_WEIGHT_SUFFIXES = (".safetensors", ".bin")
_COMPANION_SUFFIXES = (".json", ".model", ".txt", ".jinja")
"""Endings of a model's other files: configuration, tokenizer, template."""


def make_answer_part_ablation_call(
    service: str,
    messages: Sequence[Mapping[str, Any]],
    answer: str,
    start: int,
    text: str,
    *,
    recover: float,
    largest_set: float,
    centre: bool,
) -> Call:
    """Make the call for the components that carry the tokens of a text at `start` in an answer."""
    asked: dict[str, Any] = {
        "messages": [dict(each) for each in messages],
        "answer": answer,
        "start": start,
        "end": start + len(text),
    }
    return Call(service, ABLATE_OPERATION, {**asked, "recover": recover, "largest_set": largest_set, "centre": centre})


def parse_head_count_and_importances(body: Any) -> tuple[int, list[TokenComponentImportances]]:
    """Read the reply to ablate: heads a layer, and the tokens in order."""
    return int(body["heads"]), [TokenComponentImportances.model_validate(each) for each in body["tokens"]]


def list_causal_model_files(folder: Path) -> list[SourceFile]:
    """List the files of a model's folder with their digests; UsageError says what is missing."""
    if not (folder / CONFIG_FILE).is_file():
        raise UsageError(
            f"{folder}: {CONFIG_FILE} not found; expected the folder of a causal language model in Hugging Face format, with "
            f"{CONFIG_FILE}, tokenizer.json and *.safetensors"
        )
    files = sorted(
        path for path in folder.iterdir() if path.is_file() and path.suffix in (*_WEIGHT_SUFFIXES, *_COMPANION_SUFFIXES)
    )
    if not any(path.suffix in _WEIGHT_SUFFIXES for path in files):
        raise UsageError(f"{folder}: no weights found; expected *.safetensors or pytorch_model.bin")
    try:
        # not make_source_file_with_digest, since a model's files contain no rows to check
        return [SourceFile(path, path.name, digest_file(path)) for path in files]
    except OSError as error:
        raise UsageError(f"{error.filename}: cannot be read: {error.strerror}") from error


def digest_causal_model(files: Sequence[SourceFile]) -> str:
    """Return the digest of a model: of its files' names and contents."""
    return digest_json([[file.name, file.sha256] for file in files])


class LocalAblationService:
    """Answers ablate calls; opens the model at the first call, and drops it on `close`."""

    is_outside = True

    def __init__(self, identity: str, folder: Path, device: Device, precision: Precision) -> None:
        """Store how to open the model; load nothing yet."""
        self.identity = identity
        self._folder, self._device, self._precision = folder, device, precision
        self._opened: tuple[Any, Any] | None = None
        self._lock = threading.Lock()
        self._rows = ablation.ROWS_PER_PASS

    def send(self, calls: Sequence[Call], deliver: ResponseHandler) -> None:
        """Answer all calls one after another, since the model itself uses all cores or the GPU."""
        with self._lock:
            for call in calls:
                deliver(call, self._answer(call.parts))

    def close(self) -> None:
        """Release the model's memory."""
        self._opened = None

    def _answer(self, parts: Mapping[str, Any]) -> CallResponse:
        if self._opened is None:
            self._opened = load_causal_model(self._folder, self._device, self._precision)
        model, tokenizer = self._opened
        prompt, ids, offsets = tokenize_prompt_and_answer(tokenizer, parts["messages"], parts["answer"])
        most = getattr(model.config, "max_position_embeddings", None)
        if most and len(prompt) + len(ids) > most:
            return CallResponse(None, "failed", f"too_long: {len(prompt) + len(ids)} tokens, the model reads {most}")
        counted = [at for at, (begin, end) in enumerate(offsets) if begin < parts["end"] and end > parts["start"]]
        if not counted or not prompt:
            return CallResponse(None, "failed", "no_answer: the tokenizer makes no token of it")
        ablator = ComponentAblator(model, self._rows, centre=parts["centre"])
        try:
            effects = measure_ablation_effects(
                ablator, [*prompt, *ids], [len(prompt) + at for at in counted], parts["recover"], parts["largest_set"]
            )
        except NonFiniteLogit as error:
            return CallResponse(None, "failed", f"nan_logits: {error}")
        except AblationOutOfMemory as error:
            return CallResponse(None, "failed", f"out_of_memory: {error}", transient=True)
        except UnsupportedArchitecture as error:
            raise UsageError(f"{self._folder}: {error}") from error
        finally:
            self._rows = ablator.rows
            ablator.close()
        texts = [parts["answer"][begin:end] for begin, end in (offsets[at] for at in counted)]
        tokens = [{"token": text, **asdict(effect)} for text, effect in zip(texts, effects, strict=True)]
        return CallResponse({"heads": ablator.heads, "tokens": tokens}, tokens_in=len(prompt) + len(ids))


def choose_torch_device(device: Device) -> Literal["cpu", "cuda"]:
    """Return torch's device to compute on; UsageError if a GPU is requested and there is none."""
    has_gpu = import_mechanism_extra("torch").cuda.is_available()
    if device == "cuda" and not has_gpu:
        raise UsageError("--device cuda: torch finds no GPU on this machine; give auto or cpu")
    return "cuda" if has_gpu and device != "cpu" else "cpu"


def load_causal_model(folder: Path, device: Device = "auto", precision: Precision = "float32") -> tuple[Any, Any]:
    """Load a model, on the GPU if there is one, and its tokenizer; UsageError says why they cannot be opened."""
    torch, transformers = import_mechanism_extra("torch"), import_mechanism_extra("transformers")
    where = choose_torch_device(device)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
        model = transformers.AutoModelForCausalLM.from_pretrained(
            str(folder), dtype=getattr(torch, precision), local_files_only=True
        )
    except (OSError, ValueError, KeyError, RuntimeError, AttributeError, ImportError) as error:
        first_line = str(error).strip().partition("\n")[0]
        raise UsageError(
            f"{folder}: transformers {transformers.__version__} cannot open it as a causal language model: {first_line}"
        ) from error
    if not tokenizer.is_fast:
        raise UsageError(f"{folder}: its tokenizer has no tokenizer.json, which is needed to locate tokens in a text")
    known = model.get_input_embeddings().num_embeddings
    if len(tokenizer) > known:
        raise UsageError(
            f"{folder}: its tokenizer has {len(tokenizer)} tokens but its model has {known}; they do not belong together"
        )
    return model.eval().to(where), tokenizer


def format_causal_model_layers_and_heads(folder: Path) -> str:
    """Return a model's type and size from its config.json, for people; "" if unreadable."""
    try:
        config = json.loads((folder / CONFIG_FILE).read_bytes())
    except (OSError, ValueError):
        return ""
    layers = config.get("num_hidden_layers", config.get("n_layer"))
    heads = config.get("num_attention_heads", config.get("n_head"))
    return f"{config.get('model_type', 'unknown')}, {layers} layers of {heads} heads" if layers and heads else ""
