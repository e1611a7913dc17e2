"""Files beside the answer: traces and pictures of a step. Their names are judged before anything is computed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from simcluster.errors import UsageError

if TYPE_CHECKING:
    from simcluster.evaluation import Evaluation

TRACES = (".json", ".json.gz")
PLOTS = (".svg", ".png", ".pdf")


def file_for(suffixes: tuple[str, ...]) -> Callable[[click.Context, click.Parameter, str | None], Path | None]:
    """A callback that takes a file's name; UsageError if it has another suffix or could not be written."""

    def read(_context: click.Context, parameter: click.Parameter, value: str | None) -> Path | None:
        if value is None:
            return None
        option, path = parameter.opts[0], Path(value)
        if not path.name.endswith(suffixes) or path.name in suffixes:
            raise UsageError(f"{option} {value}: unknown kind of file; name one that ends with {_either(suffixes)}")
        folder = path.parent
        if not folder.is_dir():
            raise _unwritable(option, path, f"there is no folder {folder}")
        if path.is_dir():
            raise _unwritable(option, path, "it is a folder")
        if not os.access(path if path.exists() else folder, os.W_OK):
            raise _unwritable(option, path, "Permission denied")
        return path

    return read


def apart(*files: Path | None) -> None:
    """UsageError if two outputs are one file."""
    named = [file.resolve() for file in files if file is not None]
    for file in named:
        if named.count(file) > 1:
            raise UsageError(f"{file.name}: named for two outputs; name two files")


def record(evaluation: Evaluation, file: Path | None) -> None:
    """Writes the trace of a step."""
    if file is None:
        return
    from simcluster.formats.trace import write_trace
    from simcluster.reports.trace import step_trace

    trace = step_trace(evaluation)
    _written("--trace", file, lambda: write_trace(file, trace))


def draw(evaluation: Evaluation, file: Path | None) -> None:
    """Draws the pipeline of a step."""
    if file is None:
        return
    from simcluster.reports.plots import save, step_timeline

    figure = step_timeline(evaluation)
    _written("--plot", file, lambda: save(figure, file))


def _written(option: str, file: Path, write: Callable[[], None]) -> None:
    try:
        write()
    except OSError as error:
        raise _unwritable(option, file, error.strerror or str(error)) from error


def _unwritable(option: str, path: Path, why: str) -> UsageError:
    return UsageError(f"{option} {path}: cannot be written: {why}; name a file in a folder that exists")


def _either(words: tuple[str, ...]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"
