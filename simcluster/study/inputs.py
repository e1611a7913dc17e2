"""What the user names on the command line, as loaded candidates."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from simcluster.errors import InputError, Mark, Problem, UsageError
from simcluster.scenario import (
    Loaded,
    apply_what_if,
    did_you_mean,
    inline_candidate,
    is_candidate,
    load,
    load_study,
)
from simcluster.study.naming import Named, unique

_FORM = "give scenario files, a study with candidates, or machines like 32xdgx-b200:own"


def load_candidates(
    words: Sequence[str],
    sets: Sequence[str] = (),
    what_ifs: Sequence[str] = (),
    job: Mapping[str, Any] | None = None,
) -> Named:
    """Candidates of all words, in order, with unique names.

    words   files, or machines as COUNTxNODE[/FABRIC][:TERM]; a study gives its candidates (without any, itself)
    what_ifs  named changes of the files, each of which gives further candidates
    job     what the command line says of the job (`model`, `training`); it also changes the job of files. Machines
            without a model are laid over the only file among the words.

    Raises InputError with every problem of every word.
    """
    problems: list[Problem] = []
    found: dict[str, Named] = {}
    for word in dict.fromkeys(words):
        if not _is_machine(word):
            found[word] = _gathered(problems, partial(_of_file, word, [*_as_sets(job), *sets], what_ifs))
    machines = [word for word in dict.fromkeys(words) if word not in found]
    if what_ifs and not found:
        raise UsageError(f"--what-if {what_ifs[0]}: what-ifs belong to scenario files; use --set")
    base = _base(job or {}, found, machines)
    for word in machines:
        found[word] = _gathered(problems, partial(_of_machine, word, base, sets))
    if problems:
        raise InputError(problems)
    candidates = [one for word in words for one in found[word]]
    if len(candidates) < 2:
        raise UsageError(f"compare needs two candidates or more, got {len(candidates)}; {_FORM}")
    return unique(candidates)


def load_one(
    path: str | Path, sets: Sequence[str] = (), what_if: str | None = None, candidate: str | None = None
) -> Loaded:
    """The scenario of a file, or one candidate of a study.

    Raises InputError as `load` does, and for a study of which no candidate is named and that is no scenario by itself.
    """
    if candidate is None:
        try:
            return load(path, sets=sets, what_if=what_if)
        except InputError as error:
            raise _study_instead(path, error) from error
    study = load_study(path, sets)
    names = [name for name, _ in study.candidates]
    if candidate not in names:
        raise InputError(Problem(f"no candidate {candidate!r}", did_you_mean(candidate, names), Mark(str(path))))
    found = dict(study.candidates)[candidate]
    return apply_what_if(found, what_if) if what_if is not None else found


def _study_instead(path: str | Path, error: InputError) -> InputError:
    """What to say of a study that was taken for a scenario; the error itself if its candidates are wrong too."""
    try:
        names = [name for name, _ in load_study(path).candidates]
    except InputError:
        return error
    if len(names) < 2:
        return error
    return InputError(Problem("is a study", f"name one of {', '.join(names)} with --candidate", Mark(str(path))))


def _is_machine(word: str) -> bool:
    return is_candidate(word) and not Path(word).exists()


def _gathered(problems: list[Problem], make: Callable[[], Named]) -> Named:
    """What `make` gives, or nothing with its problems noted."""
    try:
        return make()
    except InputError as error:
        problems += error.problems
        return []


def _of_machine(word: str, job: Loaded | Mapping[str, Any], sets: Sequence[str]) -> Named:
    return [(word.strip(), inline_candidate(word, job, sets))]


def _of_file(path: str, sets: Sequence[str], what_ifs: Sequence[str]) -> Named:
    if not Path(path).exists():
        raise InputError(Problem(f"no such file{_nearly(path)}", _FORM, Mark(path)))
    study = load_study(path, sets)
    changed = [
        (f"{name}, {change}", apply_what_if(loaded, change)) for change in what_ifs for name, loaded in study.candidates
    ]
    return [*study.candidates, *changed]


def _nearly(word: str) -> str:
    """A hint for what looks like machines."""
    looks = re.fullmatch(r"\d+[\w.-]*(/[\w.-]+)?(:[\w-]+)?", word) and not word.endswith((".yaml", ".yml"))
    return ", nor machines as COUNTxNODE" if looks else ""


def _as_sets(job: Mapping[str, Any] | None) -> Iterator[str]:
    """The job of the command line as changes of a file."""
    for key, value in (job or {}).items():
        if isinstance(value, Mapping):
            yield from (f"{key}.{below}" for below in _as_sets(value))
        else:
            yield f"{key}={value}"


def _base(job: Mapping[str, Any], found: Mapping[str, Named], machines: Sequence[str]) -> Loaded | Mapping[str, Any]:
    """The job that machines are given: that of the command line, or of the only file."""
    if not machines or "model" in job:
        return job
    jobs = [loaded for named in found.values() for _, loaded in named[:1]]
    if len(found) != 1 or not jobs:
        which = ", ".join(machines)
        raise UsageError(f"{which}: on which job? Give --model (and --tokens), or one scenario file beside them")
    return jobs[0]
