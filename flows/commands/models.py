"""`factmill models`: convert, list and remove local models."""

import time
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any, Literal

import typer

from factmill.flows.cli.options import JsonOption, print_result
from factmill.tasks import progress
from factmill.tasks.errors import UsageError
from factmill.tasks.models import model_folder
from factmill.tasks.models.model_folder import ModelManifest, models_folder
from factmill.tasks.settings import factmill_home

models_app = typer.Typer(help="Convert, list and remove local models (CTranslate2).", no_args_is_help=True)
add_app = typer.Typer(help="Convert a checkpoint's directory.", no_args_is_help=True)
models_app.add_typer(add_app, name="add")
ModelNameOption = Annotated[
    str | None, typer.Option(help="Name of the model. Default: that of the directory.", metavar="NAME")
]
_QUANTIZATION_HELP = (
    "How weights are stored. int8 (in 7 bits) is the quickest, with the same bytes on CPUs of one class; float32 gives the "
    "same bytes on any CPU; float16 is computed in float32 on a CPU."
)
_Quantization = Literal["int8", "float16", "float32"]
QuantizationOption = Annotated[_Quantization, typer.Option("--quantization", help=_QUANTIZATION_HELP)]
TranslatorQuantizationOption = Annotated[
    _Quantization | None,
    typer.Option("--quantization", help=f"{_QUANTIZATION_HELP} Default: int8, or as a factmill folder has them."),
]
ReplaceModelOption = Annotated[bool, typer.Option("--replace", help="Replace a model of that name.")]


@add_app.command("embedder")
def add_embedder(
    checkpoint: Path = typer.Argument(
        ...,
        help="Directory with config.json, model.safetensors, 1_Pooling/config.json and tokenizer.json or vocab.txt.",
        metavar="PATH",
    ),
    name: ModelNameOption = None,
    replace: ReplaceModelOption = False,
    as_json: JsonOption = False,
) -> None:
    """Convert a sentence encoder of the BERT family (bert, roberta, xlm-roberta, camembert); torch is not needed.

    Example: factmill models add embedder ./all-MiniLM-L6-v2
    """
    _convert_and_print("encoder:add_embedder", checkpoint, name, replace, as_json)


@add_app.command("cross-encoder")
def add_cross_encoder(
    checkpoint: Path = typer.Argument(
        ..., help="Directory with config.json, model.safetensors and tokenizer.json or vocab.txt.", metavar="PATH"
    ),
    name: ModelNameOption = None,
    replace: ReplaceModelOption = False,
    as_json: JsonOption = False,
) -> None:
    """Convert a classifier of pairs of texts (NLI, consistency) of the BERT family (bert, roberta, xlm-roberta, camembert); torch is not needed.

    Example: factmill models add cross-encoder ./nli-model
    """
    _convert_and_print("encoder:add_cross_encoder", checkpoint, name, replace, as_json)


@add_app.command("translator")
def add_translator(
    checkpoint: Path = typer.Argument(
        ...,
        help="Directory of an NLLB-200 checkpoint with its sentencepiece.bpe.model, or of CTranslate2's conversion.",
        metavar="PATH",
    ),
    name: ModelNameOption = None,
    quantization: TranslatorQuantizationOption = None,
    replace: ReplaceModelOption = False,
    as_json: JsonOption = False,
) -> None:
    """Convert an NLLB-200 checkpoint; reading its weights needs the extra `convert` (torch, transformers).

    Example: factmill models add translator ./nllb-200-distilled-600M --quantization float32
    """
    _convert_and_print("translator:add_translator", checkpoint, name, replace, as_json, quantization=quantization)


@add_app.command("perplexity")
def add_perplexity(
    checkpoint: Path = typer.Argument(
        ...,
        help="Directory of a causal language model's checkpoint with tokenizer.json or its SentencePiece file, or of CTranslate2's conversion.",
        metavar="PATH",
    ),
    name: ModelNameOption = None,
    quantization: QuantizationOption = "float16",
    replace: ReplaceModelOption = False,
    as_json: JsonOption = False,
) -> None:
    """Convert a causal language model (GPT-2, Llama, Mistral, Qwen, Gemma, OPT, …) that says how probable a text is.

    Reading its weights needs the extra `convert` (torch, transformers).

    Example: factmill models add perplexity ./gpt2
    """
    _convert_and_print("perplexity:add_perplexity", checkpoint, name, replace, as_json, quantization=quantization)


@models_app.command("list")
def list_models(as_json: JsonOption = False) -> None:
    """List the local models, damaged ones too."""
    folder = models_folder(factmill_home())
    found = []
    for name in model_folder.list_model_names(folder):
        try:
            found.append(_make_model_json(model_folder.load_model_manifest(model_folder.model_path(name, folder))))
        except UsageError as error:
            unknown = dict.fromkeys(("kind", "digest", "size_bytes"))
            found.append({"name": name, **unknown, "state": "damaged", "advice": str(error)})
    note = "" if found else "no models yet; try: factmill models add --help"
    print_result(as_json, found, map(_format_model_line, found), note)


@models_app.command("remove")
def remove_model(name: str = typer.Argument(..., help="Name of the model.", metavar="NAME")) -> None:
    """Remove a local model.

    Example: factmill models remove all-MiniLM-L6-v2
    """
    model_folder.remove_model(name, models_folder(factmill_home()))
    typer.echo(f"removed the model {name}")


@add_app.callback()
def _show_warnings() -> None:
    progress.set_progress_style()


def _convert_and_print(
    converter: str, checkpoint: Path, name: str | None, replace: bool, as_json: bool, **more: Any
) -> None:
    """Convert a checkpoint; print the model's description and the seconds it took.

    `converter`: `module:function` of the converter, in tasks/models/converting; `more`: further arguments of the converter.
    """
    started = time.perf_counter()
    convert = resolve_name(f"factmill.tasks.models.converting.{converter}")
    manifest = convert(checkpoint, models_folder(factmill_home()), name, "replace" if replace else "refuse", **more)
    added = {**_make_model_json(manifest), "seconds": round(time.perf_counter() - started, 2)}
    print_result(as_json, added, [f"{_format_model_line(added)}  in {added['seconds']} s"])


def _format_model_line(model: dict[str, Any]) -> str:
    if model["state"] == "damaged":
        return f"{model['name']:24} damaged: {model['advice']}"
    return f"{model['name']:24} {model['kind']:13} {model['size_bytes']:>15,} bytes  {model['digest'][:16]}"


def _make_model_json(manifest: ModelManifest) -> dict[str, Any]:
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
