"""Options that commands share."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from simcluster.errors import UsageError

if TYPE_CHECKING:
    from simcluster.reports.blocks import Block
    from simcluster.reports.layout import Page

FORMATS = ("table", "json", "csv", "markdown")
_COLOUR = "simcluster.colour"
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
Command = TypeVar("Command", bound=Callable[..., Any])


def common(formats: tuple[str, ...]) -> Callable[[Command], Command]:
    """--format, -o, --set, --seed, --hardware-db, --color."""

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
        return coloured(command)

    return add


def coloured(command: Command) -> Command:
    """--color; kept in the context, so that commands need no argument for it."""
    return click.option(
        "--color",
        type=click.Choice(("auto", "always", "never")),
        default="auto",
        show_default=True,
        expose_value=False,
        callback=_keep_colour,
        help="Colour of tables; auto: on a terminal, unless NO_COLOR is set.",
    )(command)


def _keep_colour(context: click.Context, _parameter: click.Parameter, value: str) -> str:
    context.meta[_COLOUR] = value
    return value


def page_for(output: Path | None) -> Page:
    """The page that suits the output of the running command."""
    from simcluster.reports.layout import Page

    context = click.get_current_context(silent=True)
    return Page.for_output(output, context.meta.get(_COLOUR, "auto") if context else "never")


def answer_page(title: str, make: Callable[[Page], Sequence[Block]], format_: str, output: Path | None) -> None:
    """Answers with blocks, as a table page or as Markdown."""
    from simcluster.reports import markdown, terminal

    page = page_for(output)
    if format_ == "markdown":
        answer(markdown.render(title, make(page)), output)
    else:
        answer(terminal.render(make(page), page), output, clean=not page.colour)


def tell(notes: Iterable[str]) -> None:
    """What the reader of the answer should know of its input, each note once, apart from the answer."""
    for note in dict.fromkeys(notes):
        click.echo(f"note: {note}", err=True)


def answer(text: str, output: Path | None, *, clean: bool = True) -> None:
    """Prints the answer, or writes it to a file; UsageError if the file cannot be written.

    clean   make control characters visible: names come from the user's files and may not steer the terminal
    """
    if clean:
        text = _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
    if output is None:
        # What the output's encoding lacks is escaped rather than fatal.
        encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        click.echo(text.encode(encoding, "backslashreplace").decode(encoding), color=True)
        return
    try:
        output.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        message = f"-o {output}: cannot be written: {error.strerror or error}; name a file in a folder that exists"
        raise UsageError(message) from error
