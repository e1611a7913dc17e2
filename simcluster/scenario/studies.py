"""Studies: several candidates in one file, or named on the command line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

from simcluster.errors import InputError, Problem, UsageError
from simcluster.scenario import tree as trees
from simcluster.scenario.loading import TEXT_KEYS, Loaded, Stack, finish, split, what_if_problems
from simcluster.scenario.tree import Node, Origin
from simcluster.shapes import TERM_MONTHS
from simcluster.yamlmarks import Document, read, read_text


@dataclass(frozen=True, slots=True)
class LoadedStudy:
    """Candidates of a study, in the order of the file; a plain scenario is its own only candidate.

    base      what the candidates share, None if that alone is no scenario
    what_ifs  named changes that the file offers
    """

    base: Loaded | None
    candidates: tuple[tuple[str, Loaded], ...]
    what_ifs: Mapping[str, Mapping[str, Any]]
    document: Document


def load_study(path: str | FilePath, sets: Sequence[str] = ()) -> LoadedStudy:
    """Load a study (or a scenario) with all candidates and what-ifs checked.

    Raises InputError with every problem of all of them.
    """
    return study_of(read(path, text_keys=TEXT_KEYS), sets)


def load_study_text(text: str, file: str = "<text>", sets: Sequence[str] = ()) -> LoadedStudy:
    r"""Load a study from YAML text.

    >>> study = load_study_text('''
    ... model: llama-7b
    ... cluster: {node: dgx-h100, nodes: 4}
    ... candidates: {small: {}, large: {cluster: {nodes: 8}}}
    ... ''')
    >>> [(name, loaded.scenario.cluster.nodes) for name, loaded in study.candidates]
    [('small', 4), ('large', 8)]
    """
    return study_of(read_text(text, file, text_keys=TEXT_KEYS), sets)


def study_of(document: Document, sets: Sequence[str] = ()) -> LoadedStudy:
    """Study of a document that was read before."""
    shared, what_ifs = split(document)
    problems = list(shared.problems)
    changes = _candidates(document, problems)
    candidates: list[tuple[str, Loaded]] = []
    for name, layer in changes.items():
        stack = shared.copy()
        stack.lay(layer)
        stack.lay_sets(sets)
        _gather(problems, candidates, name, stack, document, what_ifs)
    alone: list[tuple[str, Loaded]] = []
    ignored: list[Problem] = []  # the candidates report what matters
    name = str(document.data.get("name") or FilePath(document.file).stem)
    shared.lay_sets(sets)
    _gather(ignored if changes else problems, alone, name, shared, document, what_ifs)
    base = alone[0][1] if alone else None
    candidates = candidates if changes else alone
    reference = base or (candidates[0][1] if candidates else None)
    problems += what_if_problems(reference) if reference and not sets else []
    if problems:
        raise InputError(problems)
    return LoadedStudy(base, tuple(candidates), what_ifs, document)


def apply_candidate(loaded: Loaded, name: str, change: Mapping[str, Any]) -> Loaded:
    """The scenario with the changes of a candidate."""
    stack = Stack.of(loaded)
    stack.lay(trees.from_data(change, lambda _path: Origin("candidate", name)))
    return finish(stack, loaded.document, loaded.what_ifs)


def inline_candidate(text: str, job: Loaded | Mapping[str, Any], sets: Sequence[str] = ()) -> Loaded:
    """The candidate of the command line that COUNTxNODE[/FABRIC][:TERM] names, on a job.

    job   a loaded scenario, whose machines and prices (of a rent: and building) give way, or plain data such as
          {"model": …, "training": {"tokens": …}}

    >>> job = {"model": "llama-7b", "training": {"tokens": "2T"}}
    >>> loaded = inline_candidate("4xdgx-h100:own", job)
    >>> loaded.scenario.name, loaded.scenario.training.tokens, loaded.scenario.acquire.own is not None
    ('4xdgx-h100:own', 2000000000000, True)
    """
    change = {"name": text.strip(), **parse_candidate(text)}
    stack = _of_job(job, rented="rent" in change.get("acquire", {})) if isinstance(job, Loaded) else Stack()
    if not isinstance(job, Loaded):
        stack.lay(trees.from_data(job, lambda _path: Origin("arguments")))
    stack.lay(trees.from_data(change, lambda _path: Origin("candidate", text.strip())))
    stack.lay_sets(sets)
    based = isinstance(job, Loaded)
    return finish(stack, job.document if based else None, job.what_ifs if based else {})  # type: ignore[union-attr]


def _of_job(loaded: Loaded, rented: bool) -> Stack:
    """What a scenario says of its job, without its machines and their prices; of a rent also without its building."""
    stack = Stack.of(loaded)
    for key in ("cluster", "acquire", *(("facility",) if rented else ())):
        if trees.child(stack.tree, key) is not None:
            kept = {name: item for name, item in stack.tree.value.items() if name != key}
            stack.tree = trees.Node(kept, stack.tree.origin)
    return stack


def is_candidate(text: str) -> bool:
    """Whether a word of the command line is a candidate, and not a file.

    >>> is_candidate("4xdgx-h100:own"), is_candidate("4xdgx-h100.yaml"), is_candidate("study.yaml")
    (True, False, False)
    """
    return bool(re.match(r"[0-9]{1,9}x[^/:\s]", text.strip())) and not text.endswith((".yaml", ".yml"))


def parse_candidate(text: str) -> dict[str, Any]:
    """Change that a candidate on the command line stands for: COUNTxNODE[/FABRIC][:TERM].

    TERM is own, on-demand, 1y, 3y or spot. Raises UsageError.

    >>> parse_candidate("32xdgx-b200/ib-ndr-400:own")
    {'cluster': {'nodes': 32, 'node': 'dgx-b200', 'fabric': 'ib-ndr-400'}, 'acquire': {'own': {}}}
    >>> parse_candidate("4xaws-p5:3y")
    {'cluster': {'nodes': 4, 'node': 'aws-p5'}, 'acquire': {'rent': {'term': '3y'}}}
    """
    found = re.fullmatch(r"([0-9]{1,9})x([^/:\s]+)(?:/([^/:\s]+))?(?::([^/:\s]+))?", text.strip())
    if found is None or int(found[1]) == 0:
        form = "COUNTxNODE[/FABRIC][:own|:on-demand|:1y|:3y|:spot], like 32xdgx-b200/ib-ndr-400:own"
        raise UsageError(f"candidate {text!r} is neither a file nor {form}")
    count, node, fabric, term = found.groups()
    change: dict[str, Any] = {"cluster": {"nodes": int(count), "node": node}}
    if fabric:
        change["cluster"]["fabric"] = fabric
    if term == "own":
        change["acquire"] = {"own": {}}
    elif term in TERM_MONTHS:
        change["acquire"] = {"rent": {"term": term}}
    elif term:
        raise UsageError(f"candidate {text!r}: {term!r} is not own, {', '.join(TERM_MONTHS)}")
    return change


def _candidates(document: Document, problems: list[Problem]) -> dict[str, Node]:
    """Layer of each candidate."""
    listed = document.data.get("candidates") or {}
    if not isinstance(listed, dict):
        mark = document.mark(("candidates",))
        problems.append(Problem("candidates should be a mapping", "name each: {name: {cluster: …}}", mark))
        return {}
    layers = {}
    for name, change in listed.items():
        prefix = ("candidates", name)
        if change is not None and not isinstance(change, dict):
            advice = "write what it changes, like {cluster: {nodes: 8}}"
            problems.append(Problem(f"candidates.{name} should be a mapping", advice, document.mark(prefix)))
            continue
        layer = trees.from_data(change or {}, trees.marked(document, prefix, "candidate", name))
        layers[name] = layer
    return layers


def _gather(
    problems: list[Problem],
    into: list[tuple[str, Loaded]],
    name: str,
    stack: Stack,
    document: Document,
    what_ifs: Mapping[str, Mapping[str, Any]],
) -> None:
    """Validate one candidate; append it or its problems."""
    try:
        into.append((name, finish(stack, document, what_ifs)))
    except InputError as error:
        problems.extend(error.problems)
