"""Zero-ablation of every attention head and every MLP of a causal language model (paper §5.1, equation 6).

A head is ablated at the input of the output projection, an MLP at its output: hooks multiply both by a mask with a row
for each run. So one pass ablates a different component in each of its rows. Each row gives the logits of all of an
answer's tokens, since a token's logit does not depend on later tokens. Layers before the first ablated one are
unaffected, so a pass begins at that layer with the input recorded without ablation.

The libraries of the extra `mechanism` are imported only where they are used, since most users never need them.
Recorded ablations depend on the model and on this module alone: their keys contain its digest.
"""

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from factmill.tasks.errors import UsageError

MECHANISM_MODULES = ("torch", "transformers", "sklearn", "ot", "scipy")
"""Modules of the extra; scipy comes with scikit-learn and POT."""
_LOGIT_TOLERANCE = 1e-3
"""Tolerance between the model's logits and those of our pass through its layers, as a share of the largest."""
ROWS_PER_PASS = 32
"""Rows of a pass, halved when a pass does not fit into memory."""


def import_mechanism_extra(module: str) -> Any:
    """Import a module of the extra `mechanism`; UsageError says what to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UsageError(
            f"the mechanistic analysis needs {error.name or module}, which is not installed: pip install 'factmill[mechanism]' "
            "(for the CPU-only build of torch, first install torch as its documentation describes)"
        ) from error


def require_mechanism_extra() -> None:
    """Raise UsageError unless the whole extra is installed, before any work begins."""
    for module in MECHANISM_MODULES:
        import_mechanism_extra(module)


def tokenize_prompt_and_answer(
    tokenizer: Any, messages: Sequence[Mapping[str, Any]], answer: str
) -> tuple[list[int], list[int], list[tuple[int, int]]]:
    """Return the token ids of the messages and of the answer, and the character spans of the answer's tokens."""
    if tokenizer.chat_template:
        text = tokenizer.apply_chat_template(
            list(messages), tokenize=False, add_generation_prompt=True, enable_thinking=False
        )
        prompt = tokenizer(text, add_special_tokens=False)["input_ids"]
    else:
        text = "\n\n".join(str(each["content"]) for each in messages) + "\n"
        prompt = tokenizer(text)["input_ids"]
        end = tokenizer.eos_token_id
        # some tokenizers append an end token, which would end the prompt before the answer
        prompt = prompt[:-1] if len(prompt) > 1 and prompt[-1] == end != prompt[0] else prompt
    encoded = tokenizer(answer, add_special_tokens=False, return_offsets_mapping=True)
    return (
        list(prompt),
        list(encoded["input_ids"]),
        [(int(begin), int(end)) for begin, end in encoded["offset_mapping"]],
    )


class UnsupportedArchitecture(Exception):
    """The model is not built like Llama, Qwen or GPT-2; the message names the parts expected."""


class AblationOutOfMemory(Exception):
    """A pass does not fit into memory; it is fatal for a pass of one row."""


class NonFiniteLogit(Exception):
    """A logit is NaN or infinite; the message says when."""


@dataclass(frozen=True, slots=True)
class TransformerParts:
    """The parts of a transformer that ablation needs."""

    layers: Sequence[Any]
    projections: Sequence[Any]
    """Output projection of each layer's joined heads."""
    mlps: Sequence[Any]
    norm: Any
    """Norm after the last layer."""
    unembedding: Any
    heads: int


def find_transformer_parts(model: Any) -> TransformerParts:
    """Find the parts of a model built like Llama (Qwen, Mistral …) or GPT-2; UnsupportedArchitecture for any other."""
    body = getattr(model, "base_model", None)
    layers, norm = (
        next((found for name in names if (found := getattr(body, name, None)) is not None), None)
        for names in (("layers", "h"), ("norm", "ln_f"))
    )
    unembedding = model.get_output_embeddings()
    heads = getattr(model.config, "num_attention_heads", None)
    if layers is None or norm is None or unembedding is None or not heads:
        raise UnsupportedArchitecture(
            f"{type(model).__name__}: layers (`layers` or `h`), last norm (`norm` or `ln_f`), unembedding or heads not found; "
            "expected an architecture like Llama, Qwen or GPT-2"
        )
    attention = [getattr(layer, "self_attn", None) or getattr(layer, "attn", None) for layer in layers]
    projections = [getattr(each, "o_proj", None) or getattr(each, "c_proj", None) for each in attention]
    mlps = [getattr(layer, "mlp", None) for layer in layers]
    if None in projections or None in mlps:
        raise UnsupportedArchitecture(
            f"{type(model).__name__}: a layer lacks `self_attn.o_proj` (or `attn.c_proj`) or `mlp`; expected an architecture like "
            "Llama, Qwen or GPT-2"
        )
    return TransformerParts(list(layers), projections, mlps, norm, unembedding, int(heads))


@dataclass(frozen=True, slots=True)
class ComponentsCarryingOneToken:
    """The components that carry one token (fields as in rows.TokenComponentImportances)."""

    base: float
    importances: list[float]
    chosen: list[int]
    """The minimal set, most important first; empty if none was found."""
    recovered: float | None
    """Share of the base logit that the set alone gives; None if no set of the allowed size gives enough."""


class ComponentAblator:
    """A model whose components can be ablated; one text at a time."""

    def __init__(self, model: Any, rows: int = ROWS_PER_PASS, centre: bool = False) -> None:
        """Hook a model. `rows`: rows of a pass, halved when they do not fit into memory.

        `centre`: subtract the mean over the vocabulary from each logit, which changes no probability; for models whose
        logits are below 0.
        """
        self._torch = import_mechanism_extra("torch")
        self._model, self._blocks = model, find_transformer_parts(model)
        self._rows, self._centre = rows, centre
        self._components = len(self._blocks.layers) * (self.heads + 1)
        self._keep: Any = None
        self._caught: list[tuple[tuple[Any, ...], dict[str, Any]]] | None = None
        self._entered: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        self._hooks = []
        parts = zip(self._blocks.layers, self._blocks.projections, self._blocks.mlps, strict=True)
        for at, (layer, projection, mlp) in enumerate(parts):
            self._hooks += [
                layer.register_forward_pre_hook(self._capture_layer_input, with_kwargs=True),
                projection.register_forward_pre_hook(self._ablate_heads(at)),
                mlp.register_forward_hook(self._ablate_mlp(at)),
            ]

    def close(self) -> None:
        """Remove the hooks from the model."""
        for hook in self._hooks:
            hook.remove()

    @property
    def heads(self) -> int:
        """Attention heads a layer."""
        return self._blocks.heads

    @property
    def rows(self) -> int:
        """Rows of a pass that have fitted into memory so far."""
        return self._rows

    def run_unablated(self, ids: Sequence[int], places: Sequence[int]) -> list[float]:
        """Load a text (token ids); return the logits of its tokens at these places with nothing ablated.

        NonFiniteLogit if one is NaN or infinite; UnsupportedArchitecture if the model's logits are not its unembedding of the last norm.
        """
        torch = self._torch
        device = next(self._model.parameters()).device
        self._at = torch.tensor([place - 1 for place in places], device=device)
        self._tokens = torch.tensor([ids[place] for place in places], device=device)
        with torch.inference_mode(), self._convert_memory_errors():
            self._caught = []
            try:
                # text after the last of the tokens changes none of their logits
                read = torch.tensor([list(ids[: max(places)])], device=device)
                logits = self._model(read, use_cache=False).logits[0, self._at]
            finally:
                self._entered, self._caught = self._caught, None
            if len(self._entered) != len(self._blocks.layers):
                raise UnsupportedArchitecture(f"{type(self._model).__name__} does not call each layer exactly once")
            self._require_numbers(logits, "with nothing ablated")
            base = self._gather_token_logits(logits)
            ours = self._run_layers(0, torch.ones((1, self._components), device=device))[0]
        self._require_numbers(base, "with nothing ablated")
        if float((ours - base).abs().max()) > _LOGIT_TOLERANCE * max(1.0, float(base.abs().max())):
            raise UnsupportedArchitecture(
                f"the logits of {type(self._model).__name__} are not the unembedding of its last norm"
            )
        return [float(each) for each in base]

    def run_with_each_ablated(self) -> list[list[float]]:
        """Return the logits of the text's tokens with each component ablated alone (shape: components × tokens)."""
        torch = self._torch

        def ablate(first: int, rows: int) -> tuple[int, Any, None]:
            keep = torch.ones((rows, self._components), device=self._at.device)
            keep[torch.arange(rows), torch.arange(first, first + rows)] = 0.0
            return first // (self.heads + 1), keep, None

        return self._run_in_passes(self._components, ablate, "with one of the components {} to {} ablated")

    def run_with_only(self, sets: Sequence[Sequence[int]], tokens: Sequence[int]) -> list[float]:
        """Return one token's logit a set, with all components but the set's ablated; `tokens`: its index, a set."""
        torch = self._torch

        def keep_some(first: int, rows: int) -> tuple[int, Any, Any]:
            keep = torch.zeros((rows, self._components), device=self._at.device)
            for row, kept in enumerate(sets[first : first + rows]):
                keep[row, list(kept)] = 1.0
            return 0, keep, torch.tensor(list(tokens[first : first + rows]), device=self._at.device)

        return self._run_in_passes(len(sets), keep_some, "with all but a set of components ablated")

    def _run_in_passes(self, count: int, mask: Callable[[int, int], tuple[int, Any, Any]], when: str) -> list[Any]:
        """Return the logits of `count` runs, with as many runs a pass as fit into memory.

        `mask`: first run and number of runs of a pass → arguments of `_run_layers`; `when`: names a pass's first and last run
        in NonFiniteLogit's message.
        """
        found: list[Any] = []
        while len(found) < count:
            first, rows = len(found), min(self._rows, count - len(found))
            try:
                with self._torch.inference_mode(), self._convert_memory_errors():
                    logits = self._run_layers(*mask(first, rows))
            except AblationOutOfMemory:
                if rows == 1:
                    raise
                self._rows = rows // 2
            else:
                self._require_numbers(logits, when.format(first, first + rows - 1))
                found += logits.tolist()
                continue
            if self._torch.cuda.is_available():
                self._torch.cuda.empty_cache()
        return found

    def _run_layers(self, start: int, keep: Any, chosen: Any = None) -> Any:
        """Run the layers from `start` on, each run with a row of `keep` (shape: rows × components).

        Return the logits of all of the text's tokens (rows × tokens), or of one token a row (`chosen`: rows).
        """
        rows = len(keep)
        self._keep = keep.view(rows, len(self._blocks.layers), self.heads + 1)
        try:
            arguments, named = self._entered[start]
            hidden = (arguments[0] if arguments else named["hidden_states"]).expand(rows, -1, -1)
            for layer, (arguments, named) in zip(self._blocks.layers[start:], self._entered[start:], strict=True):
                out = (
                    layer(hidden, *arguments[1:], **named) if arguments else layer(**{**named, "hidden_states": hidden})
                )
                hidden = out[0] if isinstance(out, tuple) else out
        finally:
            self._keep = None
        if chosen is None:
            return self._gather_token_logits(self._blocks.unembedding(self._blocks.norm(hidden[:, self._at])))
        hidden = hidden[self._torch.arange(rows, device=hidden.device), self._at[chosen]]
        return self._gather_token_logits(self._blocks.unembedding(self._blocks.norm(hidden)), self._tokens[chosen])

    def _gather_token_logits(self, logits: Any, tokens: Any = None) -> Any:
        """Gather the logits of the text's tokens from those of the vocabulary."""
        logits = logits.float()
        tokens = self._tokens if tokens is None else tokens
        index = tokens.expand(logits.shape[:-1]).unsqueeze(-1)
        found = logits.gather(-1, index).squeeze(-1)
        return found - logits.mean(-1) if self._centre else found

    def _require_numbers(self, logits: Any, when: str) -> None:
        if not bool(self._torch.isfinite(logits).all()):
            raise NonFiniteLogit(f"a logit is NaN or infinite {when}")

    def _capture_layer_input(self, _layer: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        if self._caught is not None:
            self._caught.append((arguments, named))

    def _ablate_heads(self, layer: int) -> Any:
        def hook(_projection: Any, arguments: tuple[Any, ...]) -> Any:
            if self._keep is None:
                return None
            joined, *rest = arguments
            mask = self._keep[:, layer, : self.heads].to(joined.dtype)
            each = joined.view(*joined.shape[:-1], self.heads, -1) * mask[:, None, :, None]
            return (each.view(joined.shape), *rest)

        return hook

    def _ablate_mlp(self, layer: int) -> Any:
        def hook(_mlp: Any, _arguments: tuple[Any, ...], out: Any) -> Any:
            if self._keep is None:
                return None
            hidden, *rest = (
                out if isinstance(out, tuple) else (out,)
            )  # mixtures of experts also return their router's choice
            hidden = hidden * self._keep[:, layer, self.heads].to(hidden.dtype)[:, None, None]
            return (hidden, *rest) if isinstance(out, tuple) else hidden

        return hook

    @contextmanager
    def _convert_memory_errors(self) -> Iterator[None]:
        try:
            yield
        except (MemoryError, RuntimeError) as error:
            if isinstance(error, MemoryError) or "memory" in str(error).lower():
                raise AblationOutOfMemory(str(error).partition("\n")[0][:200]) from error
            raise


def measure_ablation_effects(
    ablator: ComponentAblator, ids: Sequence[int], places: Sequence[int], recover: float, largest_set: float
) -> list[ComponentsCarryingOneToken]:
    """Return the components that carry each token of a text at these places.

    Components join a token's set in order of importance, ties in the order of the layers, until the set alone (all
    others ablated) gives the share `recover` of the token's logit. A set has at least one component and at most the
    share `largest_set` of all. If any token's logit is not above 0, nothing is ablated: tokens then have only their
    base.
    """
    base = ablator.run_unablated(ids, places)
    if min(base) <= 0:
        return [ComponentsCarryingOneToken(round(each, 6), [], [], None) for each in base]
    ablated = ablator.run_with_each_ablated()
    importances = [
        [round((logit - row[token]) / logit, 6) + 0.0 for row in ablated] for token, logit in enumerate(base)
    ]
    most = max(1, int(largest_set * len(ablated)))
    # sorting is stable: ties stay in the order of the layers
    orders = [sorted(range(len(each)), key=[-share for share in each].__getitem__) for each in importances]
    found: dict[int, tuple[list[int], float | None]] = {}
    # grow the sets of all tokens together
    size = dict.fromkeys(range(len(base)), 1)
    while size:
        each = max(1, ablator.rows // len(size))
        tried = [(at, upto) for at, first in size.items() for upto in range(first, min(first + each, most + 1))]
        logits = ablator.run_with_only([orders[at][:upto] for at, upto in tried], [at for at, _ in tried])
        for (at, upto), logit in zip(tried, logits, strict=True):
            if at not in found and logit >= recover * base[at]:
                found[at] = orders[at][:upto], round(logit / base[at], 6)
        for at in list(size):
            size[at] += each
            if at not in found and size[at] > most:
                found[at] = [], None
            if at in found:
                del size[at]
    return [ComponentsCarryingOneToken(round(base[at], 6), importances[at], *found[at]) for at in range(len(base))]
