"""`factmill models`: convert, list and remove local models."""

import time
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any, Literal

import typer

from factmill.flows.cli.options import AsJson, print_result
from factmill.tasks import progress
from factmill.tasks.errors import UsageError
from factmill.tasks.models import model_folder
from factmill.tasks.models.model_folder import ModelManifest, models_folder
from factmill.tasks.settings import home

models_app = typer.Typer(help="Local models: converted for CTranslate2.", no_args_is_help=True)
add_app = typer.Typer(help="Convert a checkpoint's directory.", no_args_is_help=True)
models_app.add_typer(add_app, name="add")
Name = Annotated[str | None, typer.Option(help="Name of the model. Default: that of the directory.", metavar="NAME")]
_STORED = (
    "How weights are stored. int8 (in 7 bits) is the quickest, with the same bytes on CPUs of one class; float32 gives the "
    "same bytes on any CPU; float16 is computed in float32 on a CPU."
)
_Stored = Literal["int8", "float16", "float32"]
Stored = Annotated[_Stored, typer.Option("--quantization", help=_STORED)]
StoredTranslator = Annotated[
    _Stored | None, typer.Option("--quantization", help=f"{_STORED} Default: int8, or as a factmill folder has them.")
]
Replace = Annotated[bool, typer.Option("--replace", help="Replace a model of that name.")]


@add_app.command("embedder")
def add_embedder(
    checkpoint: Path = typer.Argument(
        ...,
        help="Directory with config.json, model.safetensors, 1_Pooling/config.json and tokenizer.json or vocab.txt.",
        metavar="PATH",
    ),
    name: Name = None,
    replace: Replace = False,
    as_json: AsJson = False,
) -> None:
    """Convert a sentence encoder of the BERT family (bert, roberta, xlm-roberta, camembert); torch is not needed.

    Example: factmill models add embedder ./all-MiniLM-L6-v2
    """
    _add("encoder:add_embedder", checkpoint, name, replace, as_json)


@add_app.command("cross-encoder")
def add_cross_encoder(
    checkpoint: Path = typer.Argument(
        ..., help="Directory with config.json, model.safetensors and tokenizer.json or vocab.txt.", metavar="PATH"
    ),
    name: Name = None,
    replace: Replace = False,
    as_json: AsJson = False,
) -> None:
    """Convert a classifier of pairs of texts (NLI, consistency) of the BERT family (bert, roberta, xlm-roberta, camembert); torch is not needed.

    Example: factmill models add cross-encoder ./nli-model
    """
    _add("encoder:add_cross_encoder", checkpoint, name, replace, as_json)


@add_app.command("translator")
def add_translator(
    checkpoint: Path = typer.Argument(
        ...,
        help="Directory of an NLLB-200 checkpoint with its sentencepiece.bpe.model, or of CTranslate2's conversion.",
        metavar="PATH",
    ),
    name: Name = None,
    quantization: StoredTranslator = None,
    replace: Replace = False,
    as_json: AsJson = False,
) -> None:
    """Convert an NLLB-200 checkpoint; reading its weights needs the extra `convert` (torch, transformers).

    Example: factmill models add translator ./nllb-200-distilled-600M --quantization float32
    """
    _add("translator:add_translator", checkpoint, name, replace, as_json, quantization=quantization)


@add_app.command("perplexity")
def add_perplexity(
    checkpoint: Path = typer.Argument(
        ...,
        help="Directory of a causal language model's checkpoint with tokenizer.json or its SentencePiece file, or of CTranslate2's conversion.",
        metavar="PATH",
    ),
    name: Name = None,
    quantization: Stored = "float16",
    replace: Replace = False,
    as_json: AsJson = False,
) -> None:
    """Convert a causal language model (GPT-2, Llama, Mistral, Qwen, Gemma, OPT, …) that says how probable a text is.

    Reading its weights needs the extra `convert` (torch, transformers).

    Example: factmill models add perplexity ./gpt2
    """
    _add("perplexity:add_perplexity", checkpoint, name, replace, as_json, quantization=quantization)


@models_app.command("list")
def list_models(as_json: AsJson = False) -> None:
    """List the local models, damaged ones too."""
    folder = models_folder(home())
    found = []
    for name in model_folder.list_models(folder):
        try:
            found.append(_describe(model_folder.read_model(model_folder.model_path(name, folder))))
        except UsageError as error:
            unknown = dict.fromkeys(("kind", "digest", "size_bytes"))
            found.append({"name": name, **unknown, "state": "damaged", "advice": str(error)})
    note = "" if found else "no models yet; try: factmill models add --help"
    print_result(as_json, found, map(_format_model, found), note)


@models_app.command("remove")
def remove_model(name: str = typer.Argument(..., help="Name of the model.", metavar="NAME")) -> None:
    """Remove a local model.

    Example: factmill models remove all-MiniLM-L6-v2
    """
    model_folder.remove_model(name, models_folder(home()))
    typer.echo(f"removed the model {name}")


@add_app.callback()
def _show_warnings() -> None:
    progress.show()


def _add(place: str, checkpoint: Path, name: str | None, replace: bool, as_json: bool, **more: Any) -> None:
    """Convert a checkpoint; print the model's description and the seconds it took.

    `place`: `module:function` of the converter, in tasks/models/converting; `more`: further arguments of the converter.
    """
    started = time.perf_counter()
    convert = resolve_name(f"factmill.tasks.models.converting.{place}")
    manifest = convert(checkpoint, models_folder(home()), name, "replace" if replace else "refuse", **more)
    added = {**_describe(manifest), "seconds": round(time.perf_counter() - started, 2)}
    print_result(as_json, added, [f"{_format_model(added)}  in {added['seconds']} s"])


def _format_model(model: dict[str, Any]) -> str:
    if model["state"] == "damaged":
        return f"{model['name']:24} damaged: {model['advice']}"
    return f"{model['name']:24} {model['kind']:13} {model['size_bytes']:>15,} bytes  {model['digest'][:16]}"


def _describe(manifest: ModelManifest) -> dict[str, Any]:
    return {
        "name": manifest.name,
        "kind": manifest.kind,
        "state": "whole",
        "digest": manifest.digest,
        "size_bytes": manifest.size_bytes,
        "settings": manifest.settings,
        "made_with": manifest.made_with,
        "source": manifest.source,
        "advice": None,
    }
