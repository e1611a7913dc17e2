"""The catalogue: finds entries by id or alias, in the shipped folder and in the user's own on top of it.

Files are read when they are first needed, one file an entry, named by its id. An alias is looked for in the text of
the files first, so that only those that hold it are parsed. An unknown name is an error, never a neighbour.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from simcluster import yamlmarks
from simcluster.data import data_root
from simcluster.errors import InputError, Mark, Problem
from simcluster.hardware.alias import Alias, fold
from simcluster.hardware.entry import Entry
from simcluster.hardware.gpu import GpuSpec
from simcluster.hardware.network import FabricSpec
from simcluster.hardware.node import NodeSpec
from simcluster.hardware.reading import near, read_entry
from simcluster.hardware.schema import KINDS, ONE_OF
from simcluster.shapes import Assumption

_WORDS = {
    "gpus": "GPU",
    "cpus": "processor",
    "nodes": "node",
    "networks": "fabric",
    "storage": "storage",
    "clouds": "cloud",
    "prices": "price list",
    "facilities": "facility",
    "reliability": "failure rates",
}
_MAX_DEPTH = 8  # of `extends`


class Catalogue:
    """Hardware by name. Make one with `Catalogue.load()`; what it has read it keeps.

    >>> catalogue = Catalogue.load()
    >>> spec, assumptions = catalogue.gpu("h100-sxm")
    >>> spec.id, spec.rates().peak_flops["bf16"], assumptions
    ('h100-80gb-sxm', 989400000000000.0, ())
    >>> catalogue.gpu("H100")[1][0].why
    "'H100' does not settle the GPU; taken as its usual reading h100-80gb-sxm"
    """

    def __init__(self, roots: tuple[Path, ...]) -> None:
        self.roots = roots
        self._files: dict[str, dict[str, list[Path]]] = {}
        self._texts: dict[Path, str] = {}
        self._entries: dict[tuple[str, str], Entry] = {}
        self._sources: dict[str, dict[str, str]] | None = None

    @classmethod
    def load(cls, extra: Path | None = None) -> Catalogue:
        """The shipped catalogue, with the entries of folder `extra` (same layout) on top of it.

        An entry of `extra` with a shipped id overrides value by value; another id adds an entry.
        """
        if extra is not None and not extra.is_dir():
            raise InputError(Problem("is not a folder", "name a folder with gpus/, nodes/ … in it", Mark(str(extra))))
        return cls((data_root("hardware_db"),) + ((extra,) if extra is not None else ()))

    def gpu(self, name: str, date: str | None = None, *, path: str = "gpu") -> tuple[GpuSpec, tuple[Assumption, ...]]:
        """Accelerator by id or alias; InputError with near names if there is none.

        date   ISO date of the row or scenario, for aliases that changed their meaning
        path   what an assumption is listed under
        """
        entry, _, assumed = self.find("gpus", name, date, path=path)
        return GpuSpec.of(entry), assumed

    def node(
        self, name: str, date: str | None = None, *, path: str = "node"
    ) -> tuple[NodeSpec, tuple[Assumption, ...]]:
        """Node or cloud instance by id or alias, with its accelerator."""
        entry, _, assumed = self.find("nodes", name, date, path=path)
        gpu, _, _ = self.find("gpus", entry.text("gpu"))
        return NodeSpec.of(entry, GpuSpec.of(gpu)), assumed

    def fabric(
        self, name: str, date: str | None = None, *, path: str = "fabric"
    ) -> tuple[FabricSpec, tuple[Assumption, ...]]:
        """Fabric by id or alias; an alias that states cards per node sets them."""
        entry, alias, assumed = self.find("networks", name, date, path=path)
        if entry.type not in ("fabric", "scale-up"):
            advice = "name a fabric, or write {protocol: …, link: …, switch: …}"
            raise InputError(Problem(f"{name!r} is a {entry.type}, not a fabric", advice))
        spec = FabricSpec.of(entry)
        if alias is not None and alias.nics:
            spec = replace(spec, nics_per_node=alias.nics)
        return spec, assumed

    def find(
        self, kind: str, name: str, date: str | None = None, *, path: str = ""
    ) -> tuple[Entry, Alias | None, tuple[Assumption, ...]]:
        """Entry of a kind by id or alias, the alias that matched, and what had to be assumed."""
        key = fold(name)
        if key in self.files(kind):
            return self.entry(kind, key), None, ()
        matches = [(entry, alias) for entry, alias in self._aliased(kind, key) if alias.holds(date)]
        if not matches:
            raise InputError(self._unknown(kind, name, date))
        entry, alias = matches[0]
        if not alias.assumed:
            return entry, alias, ()
        why = f"{name!r} does not settle the {_WORDS.get(kind, kind)}; taken as its usual reading {entry.id}"
        return entry, alias, (Assumption(path or kind, entry.id, why),)

    def files(self, kind: str) -> dict[str, list[Path]]:
        """Files of a kind by id, shipped ones first."""
        if kind not in self._files:
            found: dict[str, list[Path]] = {}
            for root in self.roots:
                for path in sorted((root / kind).glob("*.yaml")):
                    found.setdefault(fold(path.stem), []).append(path)
            self._files[kind] = found
        return self._files[kind]

    def entry(self, kind: str, id_: str) -> Entry:
        """The complete entry of an id: the user's file over the shipped one over what they extend."""
        known = self._entries.get((kind, id_))
        if known is None:
            known = self._entries[kind, id_] = self._complete(kind, id_, 0)
        return known

    def _complete(self, kind: str, id_: str, depth: int) -> Entry:
        entry: Entry | None = None
        for path in self.files(kind)[id_]:
            layer = read_entry(path, kind)
            if layer.id != id_:
                message = f"id {layer.id!r} does not fit the file's name"
                raise InputError(Problem(message, f"write {id_}", Mark(str(path))))
            if layer.extends:
                layer = layer.over(self._base(layer, depth))
            if entry is not None:
                _require_type(layer, entry)
                layer = layer.over(entry)
            entry = layer
        assert entry is not None
        if depth == 0:
            _require_complete(entry)
        return entry

    def _base(self, layer: Entry, depth: int) -> Entry:
        mark = Mark(layer.files[-1])
        if layer.extends not in self.files(layer.kind):
            message = f"{layer.id} extends {layer.extends!r}, which does not exist"
            raise InputError(Problem(message, near(layer.extends, self.files(layer.kind)), mark))
        if depth >= _MAX_DEPTH:
            raise InputError(Problem("entries extend each other in a ring", "give one its own values", mark))
        base = self._complete(layer.kind, layer.extends, depth + 1)
        _require_type(layer, base)
        return base

    def _aliased(self, kind: str, key: str) -> Iterator[tuple[Entry, Alias]]:
        """Entries that have the alias, told by the text of their files before any is parsed."""
        for id_, paths in self.files(kind).items():
            if any(key in self._text(path) for path in paths):
                entry = self.entry(kind, id_)
                yield from ((entry, alias) for alias in entry.aliases if alias.key == key)

    def _text(self, path: Path) -> str:
        if path not in self._texts:
            self._texts[path] = path.read_text(encoding="utf-8", errors="replace").casefold()
        return self._texts[path]

    def _unknown(self, kind: str, name: str, date: str | None) -> Problem:
        word, key = _WORDS.get(kind, kind), fold(name)
        dated = [alias.when for _, alias in self._aliased(kind, key)]
        if dated and not date:
            return Problem(
                f"{word} {name!r} means different things at different dates ({', '.join(dated)})", "state one"
            )
        names = {fold(n): n for id_ in self.files(kind) for n in self._names(kind, id_)}
        close = [names[match] for match in get_close_matches(key, list(names), n=3, cutoff=0.6)]
        hint = f"did you mean {', '.join(close)}?" if close else "`simcluster hardware list` shows what there is"
        return Problem(f"the catalogue has no {word} {name!r}", hint)

    def _names(self, kind: str, id_: str) -> list[str]:
        try:
            return [id_, *(alias.name for alias in self.entry(kind, id_).aliases)]
        except InputError:
            return [id_]  # a broken neighbour must not hide that the name is unknown

    def entries(self, kind: str) -> Iterator[Entry]:
        """All entries of a kind, sorted by id."""
        for id_ in sorted(self.files(kind)):
            yield self.entry(kind, id_)

    def named(self, name: str) -> list[Entry]:
        """Entries of any kind that carry the name; InputError with near names if there is none."""
        key = fold(name)
        found = [self.entry(kind, key) for kind in KINDS if key in self.files(kind)]
        if not found:
            found = [entry for kind in KINDS for entry, _ in self._aliased(kind, key)]
        if found:
            return found
        close = get_close_matches(key, [id_ for kind in KINDS for id_ in self.files(kind)])
        hint = f"did you mean {', '.join(close)}?" if close else "`simcluster hardware list` shows what there is"
        raise InputError(Problem(f"the catalogue has no {name!r}", hint))

    def check(self) -> list[Problem]:
        """Everything that is wrong with the catalogue; see `check.py`."""
        from simcluster.hardware.check import check_catalogue  # it imports this module

        return check_catalogue(self)

    def sources(self) -> dict[str, dict[str, str]]:
        """Sources by id: title, reference and kind."""
        if self._sources is None:
            found: dict[str, dict[str, str]] = {}
            for path in (root / "sources.yaml" for root in self.roots):
                data = (yamlmarks.read(path).data or {}) if path.is_file() else {}
                if not isinstance(data, dict):
                    raise InputError(Problem("must be a mapping of ids to sources", "", Mark(str(path))))
                found |= data
            self._sources = found
        return self._sources


def _require_complete(entry: Entry) -> None:
    """InputError that lists the required values an entry lacks."""
    rows, mark = KINDS[entry.kind][entry.type], Mark(entry.files[-1])
    missing = [key for key, row in rows.items() if row.required and key not in entry.values]
    problems = [Problem(f"{entry.id} lacks {key}", f"add it: {rows[key].doc}", mark) for key in missing]
    lacking = [group for group in ONE_OF.get(entry.type, ()) if not any(key in entry.values for key in group)]
    problems += [Problem(f"{entry.id} lacks {' and '.join(group)}", "add at least one", mark) for group in lacking]
    if not entry.values and not entry.table and not rows:
        problems.append(Problem(f"{entry.id} is empty", "add a table", mark))
    if problems:
        raise InputError(problems)


def _require_type(layer: Entry, base: Entry) -> None:
    """InputError if an entry builds on one of another type."""
    if layer.type != base.type:
        message = f"{layer.id} is a {layer.type}, but {base.id} that it builds on is a {base.type}"
        raise InputError(Problem(message, f"write type: {base.type}", Mark(layer.files[-1])))
