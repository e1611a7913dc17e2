"""Scenario files to validated scenarios that know where each value came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

from pydantic import ValidationError

from simcluster.errors import InputError, Mark, Problem, UsageError
from simcluster.scenario import tree as trees
from simcluster.scenario.aliases import translate
from simcluster.scenario.checks import check
from simcluster.scenario.dump import to_dict
from simcluster.scenario.problems import from_validation, glued_problems, problem
from simcluster.scenario.scenario import Scenario
from simcluster.scenario.suggest import did_you_mean
from simcluster.scenario.tree import DEFAULT, Node, Origin, Path
from simcluster.yamlmarks import Document, read, read_text

TEXT_KEYS = ("torch", "cuda", "date", "name")
STUDY_KEYS = ("what_ifs", "candidates")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A scenario, who stated each of its values, and what it was made from.

    origins   by dotted path; values that nobody stated have the origin "default"
    notes     lines to show: foreign words that were understood, parts of the file that were not used
    what_ifs  named changes of the file: dotted path to value
    tree      the stated data; changes are laid over it
    """

    scenario: Scenario
    origins: Mapping[str, Origin]
    document: Document | None
    notes: tuple[str, ...]
    what_ifs: Mapping[str, Mapping[str, Any]]
    tree: Node

    @property
    def file(self) -> str:
        """File that the scenario came from, or a name in angle brackets; relative paths in it start there."""
        return self.document.file if self.document else "<arguments>"

    @property
    def name(self) -> str:
        r"""Name of the scenario, followed by the changes that were laid over its file.

        >>> text = "name: job\nmodel: llama-7b\ncluster: {node: dgx-h100, nodes: 4}\n"
        >>> load_text(text).set("cluster.nodes=8").name
        'job, cluster.nodes=8'
        """
        laid = [origin.name for origin in self.origins.values() if origin.kind in ("what_if", "--set")]
        return ", ".join(dict.fromkeys([self.scenario.name, *filter(None, laid)]))

    def what_if(self, change: str | Mapping[str, Any] | None = None, /, **changes: Any) -> Loaded:
        r"""The scenario with a what-if of its file, or with changes by dotted path (a keyword writes `__` for a dot).

        Raises InputError for an unknown name, an unknown path, or a value that does not make sense there.

        >>> text = "model: llama-7b\ncluster: {node: dgx-h100, nodes: 4}\nwhat_ifs: {wide: {cluster.nodes: 8}}\n"
        >>> loaded = load_text(text)
        >>> [one.scenario.cluster.nodes for one in (loaded.what_if("wide"), loaded.what_if({"cluster.nodes": 2}))]
        [8, 2]
        >>> loaded.what_if(cluster__fabric="roce-200").scenario.cluster.fabric
        'roce-200'
        """
        named = apply_what_if(self, change) if isinstance(change, str) else self
        stated = {} if change is None or isinstance(change, str) else change
        stated = {**stated, **{path.replace("__", "."): value for path, value in changes.items()}}
        if not stated:
            return named
        label = ", ".join(f"{path.rpartition('.')[2]}={_short(value)}" for path, value in stated.items())
        return apply_changes(named, stated, Origin("what_if", label))

    def set(self, *changes: str) -> Loaded:
        """The scenario with changes as `dotted.path=value`, like --set on the command line.

        Raises UsageError for a malformed change, InputError for an unknown path or a wrong value.
        """
        return apply_sets(self, changes)


def _short(value: Any) -> str:
    """A value on one line, in the form of YAML."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {_short(item)}' for key, item in value.items())}}}"
    return str(value)


def load(path: str | FilePath, *, sets: Sequence[str] = (), what_if: str | None = None) -> Loaded:
    """Load a scenario file (of a study: what its candidates share).

    sets     changes as `dotted.path=value`, the value in YAML; the last word
    what_if  name of one of the file's what-ifs, applied before `sets`

    Raises InputError with every problem of file and sets; UsageError for a malformed `sets` entry.
    """
    return from_document(read(path, text_keys=TEXT_KEYS), sets=sets, what_if=what_if)


def load_text(text: str, file: str = "<text>", *, sets: Sequence[str] = (), what_if: str | None = None) -> Loaded:
    r"""Load a scenario from YAML text. See `load`.

    >>> text = "model: llama-7b\ncluster: {node: dgx-h100, nodes: 4}\n"
    >>> loaded = load_text(text, "a.yaml", sets=["training.micro_batch=2"])
    >>> loaded.scenario.training.micro_batch, str(loaded.origins["training.micro_batch"])
    (2, '--set')
    >>> str(loaded.origins["cluster.nodes"]), str(loaded.origins["training.precision"])
    ('a.yaml:2:27', 'default')
    """
    return from_document(read_text(text, file, text_keys=TEXT_KEYS), sets=sets, what_if=what_if)


def load_mapping(data: Mapping[str, Any], *, sets: Sequence[str] = (), name: str = "") -> Loaded:
    """Load a scenario from plain data, as the command line composes it."""
    stack = Stack()
    stack.lay(trees.from_data(data, lambda _path: Origin("arguments", name)))
    stack.lay_sets(sets)
    return finish(stack, None, {})


def from_document(document: Document, *, sets: Sequence[str] = (), what_if: str | None = None) -> Loaded:
    """Load the scenario of a document that was read before."""
    stack, what_ifs = split(document)
    if isinstance(document.data, dict) and document.data.get("candidates"):
        stack.notes.append(f"{document.mark(('candidates',))}: candidates left aside, this is what they share")
    if what_if is not None:
        _lay_what_if(stack, document, what_ifs, what_if)
    stack.lay_sets(sets)
    loaded = finish(stack, document, what_ifs)
    # On a changed base a what-if may have lost its sense; then it is wrong only for whoever asks for it.
    wrong = what_if_problems(loaded) if not sets and what_if is None else []
    if wrong:
        raise InputError(wrong)
    return loaded


def apply_what_if(loaded: Loaded, name: str) -> Loaded:
    """The scenario with one of its named changes."""
    stack = Stack.of(loaded)
    _lay_what_if(stack, loaded.document, loaded.what_ifs, name)
    return finish(stack, loaded.document, loaded.what_ifs)


def apply_changes(loaded: Loaded, changes: Mapping[str, Any], origin: Origin) -> Loaded:
    """The scenario with changes by dotted path, all of one origin."""
    stack = Stack.of(loaded)
    for path, value in changes.items():
        stack.lay(trees.nested(path.split("."), trees.from_data(value, lambda _path: origin)))
    return finish(stack, loaded.document, loaded.what_ifs)


def apply_sets(loaded: Loaded, sets: Sequence[str]) -> Loaded:
    """The scenario with `dotted.path=value` changes."""
    stack = Stack.of(loaded)
    stack.lay_sets(sets)
    return finish(stack, loaded.document, loaded.what_ifs)


def what_if_problems(loaded: Loaded) -> list[Problem]:
    """What is wrong with the named changes of a scenario."""
    problems: list[Problem] = []
    for name in loaded.what_ifs:
        try:
            apply_what_if(loaded, name)
        except InputError as error:
            problems.extend(error.problems)
    return problems


@dataclass(slots=True)
class Stack:
    """Layers of stated data while they are laid over one another, and what is to be told about them."""

    tree: Node = field(default_factory=lambda: Node({}, DEFAULT))
    notes: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    @classmethod
    def of(cls, loaded: Loaded) -> Stack:
        """What a loaded scenario was made from."""
        return cls(loaded.tree, list(loaded.notes))

    def copy(self) -> Stack:
        """An independent stack with the same layers."""
        return Stack(self.tree, list(self.notes), list(self.problems))

    def lay(self, layer: Node) -> None:
        """Put a layer on top; foreign words in it are translated first, so that they meet the same keys."""
        translated = translate(layer)
        self.tree = trees.merge(self.tree, translated.tree) if self.tree.origin != DEFAULT else translated.tree
        self.notes += translated.notes
        self.problems += translated.problems

    def lay_sets(self, sets: Sequence[str]) -> None:
        """Put `dotted.path=value` changes on top; one without path or value is a UsageError."""
        for text in sets:
            try:
                path, value = parse_set(text)
            except InputError as error:
                self.problems.extend(error.problems)
                continue
            other = self._other_way(path)
            if other:
                self.notes.append(f"--set {text}: left aside where machines are got by {other}")
                continue
            origin = Origin("--set", text)
            leaf = trees.from_data(value, lambda _path, origin=origin: origin)  # type: ignore[misc]
            self.lay(trees.nested(path, leaf))

    def _other_way(self, path: Sequence[str]) -> str:
        """The way to get machines that rules out a detail of the other one; "" where the path is no such detail.

        A detail changes a price or a share; the whole of `acquire`, or `acquire.rent.term`, chooses the way.
        """
        if len(path) < 3 or path[0] != "acquire" or path[1:] == ("rent", "term"):
            return ""
        other = _WAYS.get(path[1], "")
        found, depth = trees.find(self.tree, ("acquire", other))
        return other if depth == 2 and found.value is not None else ""


_WAYS = {"own": "rent", "rent": "own"}  # each rules out the other


def split(document: Document) -> tuple[Stack, Mapping[str, Mapping[str, Any]]]:
    """Scenario part of a document and its what-ifs."""
    if not isinstance(document.data, dict):
        mark = Mark(document.file, document.place.line, document.place.column)
        raise InputError(Problem("a scenario is a mapping", "begin with model: and cluster:", mark))
    stack = Stack()
    data = {key: value for key, value in document.data.items() if key not in STUDY_KEYS}
    stack.lay(trees.from_data(data, trees.marked(document, (), "file")))
    what_ifs = document.data.get("what_ifs") or {}
    if not isinstance(what_ifs, dict):
        advice = "name each: {name: {dotted.path: value}}"
        stack.problems.append(Problem("what_ifs should be a mapping", advice, document.mark(("what_ifs",))))
        what_ifs = {}
    for name, changes in what_ifs.items():
        if not isinstance(changes, dict) or not changes:
            advice = "write {dotted.path: value}"
            mark = document.mark(("what_ifs", name))
            stack.problems.append(Problem(f"what_ifs.{name} should be a mapping", advice, mark))
    return stack, {name: item for name, item in what_ifs.items() if isinstance(item, dict)}


def parse_set(text: str) -> tuple[tuple[str, ...], Any]:
    """Path and value of a `dotted.path=value` change; the value is YAML.

    >>> parse_set("training.parallelism.tp=8")
    (('training', 'parallelism', 'tp'), 8)
    """
    dotted, equals, value = text.partition("=")
    path = tuple(dotted.strip().split("."))
    if not equals or not all(path):
        raise UsageError(f"--set {text}: write dotted.path=value, like training.micro_batch=2")
    if path[-1] in TEXT_KEYS:
        return path, value.strip()
    try:
        return path, read_text(value, "value").data
    except InputError as error:
        reasons = "; ".join(f"{item.message}" for item in error.problems)
        raise InputError(Problem(f"--set {text}: {reasons}")) from None


def finish(stack: Stack, document: Document | None, what_ifs: Mapping[str, Mapping[str, Any]]) -> Loaded:
    """Validate what was laid; raises InputError with every problem."""
    scenario, found = validate(stack.tree)
    problems = [*stack.problems, *glued_problems(stack.tree), *found]
    if scenario is None or problems:
        raise InputError(problems)
    origins = origins_of(scenario, stack.tree)
    return Loaded(scenario, origins, document, tuple(stack.notes), what_ifs, stack.tree)


def validate(tree: Node) -> tuple[Scenario | None, list[Problem]]:
    """Scenario of a tree and all problems; checks run also when single values are wrong, on what is right."""
    try:
        scenario: Scenario | None = Scenario.model_validate(trees.plain(tree))
    except ValidationError as error:
        found = from_validation(error, tree)
    else:
        assert scenario is not None
        return scenario, [problem(tree, _steps(item.path), item.message, item.advice) for item in check(scenario)]
    rest = tree
    for path, _ in found:
        rest = trees.without(rest, path)
    bad = [trees.dotted(path) for path, _ in found]
    problems = [item for _, item in found]
    try:
        scenario = Scenario.model_validate(trees.plain(rest))
    except ValidationError:
        return None, problems
    sound = [item for item in check(scenario) if not any(_touches(use, path) for use in item.uses for path in bad)]
    return None, problems + [problem(tree, _steps(item.path), item.message, item.advice) for item in sound]


def _touches(one: str, other: str) -> bool:
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")


def _steps(path: str) -> Path:
    return tuple(path.split("."))


def origins_of(scenario: Scenario, tree: Node) -> dict[str, Origin]:
    """Origin of every value of a scenario by dotted path."""
    origins = {}
    for path in trees.leaves(to_dict(scenario, defaults=True)):
        node, depth = trees.find(tree, path)
        stated = depth == len(path) or (depth > 0 and not isinstance(node.value, (dict, list)))
        origins[trees.dotted(path)] = node.origin if stated and node.value is not None else DEFAULT
    return origins


def _lay_what_if(stack: Stack, document: Document | None, what_ifs: Mapping[str, Mapping[str, Any]], name: str) -> None:
    """Put a what-if on top; an unknown name is an InputError."""
    if name not in what_ifs:
        mark = Mark(document.file) if document else None
        advice = did_you_mean(name, what_ifs) if what_ifs else "the file has no what_ifs"
        raise InputError(Problem(f"what_if {name!r} is not known", advice, mark))
    for path, value in what_ifs[name].items():
        prefix = ("what_ifs", name, path)
        origins = trees.marked(document, prefix, "what_if", name) if document else lambda _: Origin("what_if", name)
        stack.lay(trees.nested(path.split("."), trees.from_data(value, origins)))
