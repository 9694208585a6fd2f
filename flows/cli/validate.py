"""The commands `factmill validate …`: files of questions are checked before anything is built of them."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import AsJson, print_json, print_lines
from tasks.core.rows import MOST
from tasks.fanoutqa.core.questions import LEAST_ARTICLES

validate_app = typer.Typer(help="Check files of questions before a build.", no_args_is_help=True)


@validate_app.callback()
def validate() -> None:
    """Check files of questions before a build."""


@validate_app.command("fanoutqa", no_args_is_help=True)
def validate_fanoutqa(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="JSON or JSON Lines, or folders of them: questions as authors write them, or as released.",
            metavar="PATH...",
        ),
    ],
    least_articles: Annotated[
        int, typer.Option(min=1, max=MOST, help="Different articles that an authored question needs.", metavar="N")
    ] = LEAST_ARTICLES,
    duplicates: Annotated[
        bool, typer.Option("--duplicates", help="Also compare the wordings of all questions by their embeddings.")
    ] = False,
    world: Annotated[str, typer.Option(help="World whose sentence encoder compares.", metavar="WORLD")] = "embedded",
    as_json: AsJson = False,
) -> None:
    """Check fan-out questions, without network. Exit code 1 when a question breaks a rule of its form.

    Each broken rule is told with the sub-question that breaks it: strategy[1].then[0] is the first under then of the
    second under strategy, decomposition[1] the second of a released question. Articles without page or revision and
    flags of a question's structure are told too; neither makes it invalid.

    \b
    Examples:
      factmill validate fanoutqa questions.json
      factmill validate fanoutqa drafts/*.json --least-articles 3 --json
      factmill validate fanoutqa fanout-final-dev.json --duplicates
    """
    from tasks.fanoutqa.checking.validate import compare_wordings, format_file_report, format_pairs, validate_file
    from tasks.fanoutqa.params import find_question_files

    reports = [validate_file(file, least_articles) for file in find_question_files(files).values()]
    similar = compare_wordings(reports, world) if duplicates else None
    is_valid = not any(report.invalid for report in reports)
    if as_json:
        told: dict[str, object] = {"valid": is_valid, "files": [report.as_json() for report in reports]}
        if similar:
            told["duplicates"] = asdict(similar)
        print_json(told)
    else:
        lines = [line for report in reports for line in format_file_report(report)]
        print_lines([*lines, *(format_pairs(similar) if similar else ())])
    if not is_valid:
        raise typer.Exit(1)
