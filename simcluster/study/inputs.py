"""What the user names on the command line, as loaded candidates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from simcluster.errors import InputError, Mark, Problem, UsageError
from simcluster.scenario import Loaded, load_study

_FORM = "give scenario files, or a study with candidates"


def load_candidates(
    paths: Sequence[str], sets: Sequence[str] = (), what_ifs: Sequence[str] = ()
) -> list[tuple[str, Loaded]]:
    """Candidates of all files, in order, with unique names.

    A study gives its candidates (or, without any, itself and its what-ifs if `what_ifs` names them). Raises InputError
    with every problem of every file.
    """
    from simcluster.scenario import apply_what_if

    found: list[tuple[str, Loaded]] = []
    problems: list[Problem] = []
    for path in paths:
        if not Path(path).exists():
            problems.append(Problem("no such file", _FORM, Mark(path)))
            continue
        try:
            study = load_study(path, sets)
            found += study.candidates
            found += [
                (f"{name}, {change}", apply_what_if(loaded, change))
                for change in what_ifs
                for name, loaded in study.candidates
            ]
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    if len(found) < 2:
        raise UsageError(f"compare needs two candidates or more, got {len(found)}; {_FORM}")
    return _unique(found)


def _unique(found: Sequence[tuple[str, Loaded]]) -> list[tuple[str, Loaded]]:
    seen: dict[str, int] = {}
    named = []
    for name, loaded in found:
        seen[name] = seen.get(name, 0) + 1
        named.append((f"{name} ({seen[name]})" if seen[name] > 1 else name, loaded))
    return named
