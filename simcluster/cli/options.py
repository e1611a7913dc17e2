"""Options that commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from simcluster.errors import UsageError

Command = TypeVar("Command", bound=Callable[..., Any])


def common(formats: tuple[str, ...]) -> Callable[[Command], Command]:
    """--format, -o, --set, --seed, --hardware-db."""

    def add(command: Command) -> Command:
        for option in reversed(
            (
                click.option(
                    "--format",
                    "format_",
                    type=click.Choice(formats),
                    default=formats[0],
                    show_default=True,
                    help="Form of the answer.",
                ),
                click.option(
                    "-o",
                    "--output",
                    type=click.Path(path_type=Path, dir_okay=False),
                    help="Write the answer to a file.",
                ),
                click.option(
                    "--set",
                    "sets",
                    multiple=True,
                    metavar="PATH=VALUE",
                    help="Change a value, like training.micro_batch=2.",
                ),
                click.option(
                    "--seed",
                    type=click.IntRange(min=0),
                    default=0,
                    show_default=True,
                    help="Seed of the draws behind intervals.",
                ),
                click.option(
                    "--hardware-db",
                    "hardware_db",
                    type=click.Path(path_type=Path, file_okay=False),
                    help="Folder whose entries extend or override the catalogue.",
                ),
            )
        ):
            command = option(command)
        return command

    return add


def answer(text: str, output: Path | None) -> None:
    """Prints the answer, or writes it to a file; UsageError if the file cannot be written."""
    if output is None:
        # What the terminal's encoding lacks is escaped rather than fatal.
        encoding = click.get_text_stream("stdout").encoding or "ascii"
        click.echo(text.encode(encoding, "backslashreplace").decode(encoding))
        return
    try:
        output.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        message = f"-o {output}: cannot be written: {error.strerror or error}; name a file in a folder that exists"
        raise UsageError(message) from error
