"""The commands `factmill models …`: their options, and how their results are printed."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from flows.cli.options import AsJson, print_json
from tasks import progress

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
    checkpoint: Annotated[
        Path,
        typer.Argument(
            help="Directory with config.json, model.safetensors, 1_Pooling/config.json and tokenizer.json or vocab.txt.",
            metavar="PATH",
        ),
    ],
    name: Name = None,
    replace: Replace = False,
    as_json: AsJson = False,
) -> None:
    """Convert a sentence encoder of the BERT family (bert, roberta, xlm-roberta, camembert); torch is not needed.

    Example: factmill models add embedder ./all-MiniLM-L6-v2
    """
    from flows.commands.local.models import add
    from tasks.models.converting.encoder import add_embedder as convert

    _print_added(add(convert, checkpoint, name, replace), as_json)


@add_app.command("cross-encoder")
def add_cross_encoder(
    checkpoint: Annotated[
        Path,
        typer.Argument(
            help="Directory with config.json, model.safetensors and tokenizer.json or vocab.txt.", metavar="PATH"
        ),
    ],
    name: Name = None,
    replace: Replace = False,
    as_json: AsJson = False,
) -> None:
    """Convert a classifier of pairs of texts (NLI, consistency) of the BERT family (bert, roberta, xlm-roberta, camembert); torch is not needed.

    Example: factmill models add cross-encoder ./nli-model
    """
    from flows.commands.local.models import add
    from tasks.models.converting.cross_encoder import add_cross_encoder as convert

    _print_added(add(convert, checkpoint, name, replace), as_json)


@add_app.command("translator")
def add_translator(
    checkpoint: Annotated[
        Path,
        typer.Argument(
            help="Directory of an NLLB-200 checkpoint with its sentencepiece.bpe.model, or of CTranslate2's conversion.",
            metavar="PATH",
        ),
    ],
    name: Name = None,
    quantization: StoredTranslator = None,
    replace: Replace = False,
    as_json: AsJson = False,
) -> None:
    """Convert an NLLB-200 checkpoint; reading its weights needs the extra `convert` (torch, transformers).

    Example: factmill models add translator ./nllb-200-distilled-600M --quantization float32
    """
    from flows.commands.local.models import add
    from tasks.models.converting.translator import add_translator as convert

    _print_added(add(convert, checkpoint, name, replace, quantization=quantization), as_json)


@add_app.command("perplexity")
def add_perplexity(
    checkpoint: Annotated[
        Path,
        typer.Argument(
            help="Directory of a causal language model's checkpoint with tokenizer.json or its SentencePiece file, or of "
            "CTranslate2's conversion.",
            metavar="PATH",
        ),
    ],
    name: Name = None,
    quantization: Stored = "float16",
    replace: Replace = False,
    as_json: AsJson = False,
) -> None:
    """Convert a causal language model (GPT-2, Llama, Mistral, Qwen, Gemma, OPT, …) that says how probable a text is.

    Reading its weights needs the extra `convert` (torch, transformers).

    Example: factmill models add perplexity ./gpt2
    """
    from flows.commands.local.models import add
    from tasks.models.converting.perplexity import add_perplexity as convert

    _print_added(add(convert, checkpoint, name, replace, quantization=quantization), as_json)


@models_app.command("list")
def list_models(as_json: AsJson = False) -> None:
    """List the local models, damaged ones too."""
    from flows.commands.local.models import listing

    found = listing()
    if as_json:
        print_json(found)
        return
    for model in found:
        typer.echo(_format_model(model))
    if not found:
        typer.echo("no models yet; try: factmill models add --help", err=True)


@models_app.command("remove")
def remove_model(name: Annotated[str, typer.Argument(help="Name of the model.", metavar="NAME")]) -> None:
    """Remove a local model.

    Example: factmill models remove all-MiniLM-L6-v2
    """
    from tasks.models.model_folder import models_folder
    from tasks.models.model_folder import remove_model as remove
    from tasks.settings import home

    remove(name, models_folder(home()))
    typer.echo(f"removed the model {name}")


@add_app.callback()
def _show_warnings() -> None:
    progress.show()


def _print_added(added: dict[str, Any], as_json: bool) -> None:
    print_json(added) if as_json else typer.echo(f"{_format_model(added)}  in {added['seconds']} s")


def _format_model(model: dict[str, Any]) -> str:
    if model["state"] == "damaged":
        return f"{model['name']:24} damaged: {model['advice']}"
    return f"{model['name']:24} {model['kind']:13} {model['size_bytes']:>15,} bytes  {model['digest'][:16]}"
