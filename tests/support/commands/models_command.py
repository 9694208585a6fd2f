"""`factmill models …` in this process, without the rest of the command."""

from typer.testing import CliRunner

from factmill.flows.commands.local_data import models_app


def run_models(*arguments: str) -> str:
    """Run a command; return what it prints, or raise its error."""
    result = CliRunner().invoke(models_app, arguments)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout
