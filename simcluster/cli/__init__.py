"""The command line: parse, call, print.

Commands are imported when they run, so that `--help` answers at once.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from typing import Any

import click

from simcluster.errors import InputError, SimclusterError

COMMANDS = {
    "compare": "simcluster.cli.compare:compare",
    "simulate": "simcluster.cli.simulate:simulate",
    "validate": "simcluster.cli.validate:validate",
    "show": "simcluster.cli.show:show",
    "hardware": "simcluster.cli.hardware:hardware",
}
PURPOSE = {
    "compare": "Compare cluster designs for a job: which, by how much, why.",
    "simulate": "Simulate one training step: time, where it goes, memory.",
    "validate": "Predict published runs and print the error.",
    "show": "Show a scenario with every value settled and where it came from.",
    "hardware": "Look at the catalogue of GPUs, nodes and networks.",
}
NO_ANSWER = 1
INTERNAL_ERROR = 70
INTERRUPTED = 130


class _Lazy(click.Group):
    """A group that imports a command only when it is named."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return keep_examples(command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(PURPOSE.items()))


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(None, "--version", package_name="simcluster")
@click.option("--debug", is_flag=True, help="Show tracebacks (also SIMCLUSTER_DEBUG=1).")
def app(debug: bool) -> None:
    r"""What a GPU cluster will do with a training job, before anybody pays for it.

    \b
    simcluster compare examples/llama-65b-512xa100.yaml examples/llama-65b-512xa100-roce.yaml
    simcluster simulate examples/llama-65b-512xa100.yaml --set training.micro_batch=2

    Exit codes: 0 answered, 1 could not answer, 2 wrong usage, 3 wrong input, 4 a stated limit is broken,
    70 internal error, 130 interrupted.
    """
    if debug:
        os.environ["SIMCLUSTER_DEBUG"] = "1"


def keep_examples(command: click.Command) -> click.Command:
    r"""The command with its lists of examples left unwrapped.

    click marks such lists with a backspace character; docstrings say \b in two characters.
    """
    command.help = (command.help or "").replace("\\b\n", "\b\n")
    if isinstance(command, click.Group):
        for below in command.commands.values():
            keep_examples(below)
    return command


keep_examples(app)


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line and exits."""
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    try:
        result: Any = app.main(arguments, prog_name="simcluster", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return INTERRUPTED
    except Exception as error:
        if os.environ.get("SIMCLUSTER_DEBUG"):
            traceback.print_exc()
        click.echo(_message(error), err=True)
        return _exit_code(error)
    return result if isinstance(result, int) else 0


def _exit_code(error: Exception) -> int:
    if isinstance(error, SimclusterError):
        return error.exit_code
    return NO_ANSWER if isinstance(error, OSError) else INTERNAL_ERROR


def _message(error: Exception) -> str:
    if isinstance(error, InputError) and len(error.problems) > 1:
        return f"{error}\n{len(error.problems)} problems"
    if isinstance(error, SimclusterError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.filename or 'output'}: {error.strerror or error}"
    return f"simcluster failed: {type(error).__name__}: {error}; this is a defect (--debug shows where)"
