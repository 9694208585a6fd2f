"""`factmill models`: convert, list and remove local models."""

import time
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any, Literal

import typer

from factmill.flows.cli.options import JsonOption, has_subcommand, print_result
from factmill.tasks import progress
from factmill.tasks.errors import UsageError
from factmill.tasks.models import model_folder
from factmill.tasks.models.model_folder import ModelManifest, get_models_folder
from factmill.tasks.settings import factmill_home

models_app = typer.Typer()
ModelNameOption = Annotated[
    str | None, typer.Option(help="Name for the model. Default: the name of FOLDER.", metavar="NAME")
]
_QUANTIZATION_HELP = (
    "Number format of the stored weights, only for translator and perplexity. int8 (7 bits used) is the fastest and gives the same "
    "bytes on CPUs of one class; float32 gives the same bytes on any CPU; float16 is computed in float32 on a CPU. Default: for a "
    "translator int8, or the format of an existing factmill folder; for perplexity float16."
)
_Quantization = Literal["int8", "float16", "float32"]
ModelKind = Literal["embedder", "cross-encoder", "translator", "perplexity"]
_CONVERTERS: dict[ModelKind, str] = {
    "embedder": "encoder:make_embedder_folder",
    "cross-encoder": "encoder:make_cross_encoder_folder",
    "translator": "translator:make_translator_folder",
    "perplexity": "language_model:make_language_model_folder",
}
"""Kind → `module:function` of its converter, in tasks/models/converting."""
_DEFAULT_QUANTIZATION: dict[ModelKind, _Quantization | None] = {"translator": None, "perplexity": "float16"}
"""Kinds whose weights can be stored in several ways → default; None: int8, or as a factmill folder has them."""


@models_app.command("add")
def add_model(
    kind: ModelKind = typer.Argument(..., help="Kind of model; see above.", metavar="KIND"),
    checkpoint: Path = typer.Argument(
        ..., help="Folder with a checkpoint, or with a checkpoint that CTranslate2 has converted.", metavar="FOLDER"
    ),
    name: ModelNameOption = None,
    quantization: _Quantization | None = typer.Option(None, help=_QUANTIZATION_HELP),
    replace: bool = typer.Option(False, "--replace", help="Replace an existing model of this name."),
    as_json: JsonOption = False,
) -> None:
    """Convert a model's checkpoint to a local model.

    \b
    Kinds:
      embedder       a sentence encoder of the BERT family (bert, roberta, xlm-roberta, camembert).
                     FOLDER holds config.json, model.safetensors, 1_Pooling/config.json and
                     tokenizer.json or vocab.txt
      cross-encoder  a classifier of pairs of texts (NLI, consistency) of the BERT family. FOLDER
                     holds config.json, model.safetensors and tokenizer.json or vocab.txt
      translator     an NLLB-200 checkpoint with its sentencepiece.bpe.model
      perplexity     a causal language model (GPT-2, Llama, Mistral, Qwen, Gemma, OPT, …) that computes
                     how probable a text is. FOLDER holds tokenizer.json or the SentencePiece file

    Translator and perplexity need torch and transformers: pip install 'factmill[convert]'.

    \b
    Examples:
      factmill models add embedder ./all-MiniLM-L6-v2
      factmill models add translator ./nllb-200-distilled-600M --quantization float32
      factmill models add perplexity ./gpt2 --name small
    """
    if quantization and kind not in _DEFAULT_QUANTIZATION:
        raise UsageError(
            f"--quantization does not apply to the kind {kind}, which has one number format; it applies to "
            f"{' and '.join(_DEFAULT_QUANTIZATION)}"
        )
    progress.set_progress_style()
    more = {"quantization": quantization or _DEFAULT_QUANTIZATION[kind]} if kind in _DEFAULT_QUANTIZATION else {}
    _convert_and_print(_CONVERTERS[kind], checkpoint, name, replace, as_json, **more)


@models_app.callback(invoke_without_command=True)
def list_models(context: typer.Context, as_json: JsonOption = False) -> None:
    """List local models (CTranslate2), convert and remove them.

    Without a subcommand, the command lists the models, including damaged ones.
    """
    if has_subcommand(context):
        return
    folder = get_models_folder(factmill_home())
    found = []
    for name in model_folder.list_model_names(folder):
        try:
            found.append(
                _make_model_json(model_folder.load_manifest_and_check_sizes(model_folder.get_model_path(name, folder)))
            )
        except UsageError as error:
            unknown = dict.fromkeys(("kind", "digest", "size_bytes"))
            found.append({"name": name, **unknown, "state": "damaged", "advice": str(error)})
    note = "" if found else "no models yet; to add one, see factmill models add --help"
    print_result(as_json, found, map(_format_model_line, found), note)


@models_app.command("remove")
def remove_model(name: str = typer.Argument(..., help="Name of the model.", metavar="NAME")) -> None:
    """Remove a local model.

    Example: factmill models remove all-MiniLM-L6-v2
    """
    model_folder.remove_model(name, get_models_folder(factmill_home()))
    typer.echo(f"removed the model {name}")


def _convert_and_print(
    converter: str, checkpoint: Path, name: str | None, replace: bool, as_json: bool, **more: Any
) -> None:
    """Convert a checkpoint; print the model's description and the seconds it took.

    `converter`: `module:function` of the converter, in tasks/models/converting; `more`: further arguments of the converter.
    """
    started = time.perf_counter()
    convert = resolve_name(f"factmill.tasks.models.converting.{converter}")
    manifest = convert(checkpoint, get_models_folder(factmill_home()), name, "replace" if replace else "refuse", **more)
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
