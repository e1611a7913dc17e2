"""What an evaluation rests on: how much was stated, catalogue values with their marks, evidence with its error."""

from __future__ import annotations

from dataclasses import dataclass

from simcluster.analysis.uncertainty import Z80
from simcluster.engine.step import EVIDENCE_ROW
from simcluster.evaluation import Evaluation
from simcluster.hardware.entry import Entry
from simcluster.hardware.quantity import Quantity
from simcluster.reports.blocks import Column, Points, Table, Words
from simcluster.reports.figures import digits
from simcluster.reports.layout import Page
from simcluster.reports.resolved import value_text
from simcluster.shapes import GRADES
from simcluster.timing.records import PEAK_OF
from simcluster.units import format_rate

MARKS = {"datasheet": "d", "measured": "m", "estimate": "e", "derived": ""}
GRADES_MEAN = "Grades: A measured on this hardware, B interpolated, C extrapolated, D datasheet or prior."
_KERNELS = {"gemm": "GEMM kernels", "attention": "attention kernels", "memory": "memory-bound kernels"}
_SCALE_UP, _FABRIC = ("tensor",), ("expert_context", "data_parallel", "messages")
_LISTED = "show --resolved lists them"
_ON_DEMAND = ("training.software.", "operations.", "power.", "facility.")
_AT_ONCE = ("training.software.family", "operations.failures.rates")


@dataclass(frozen=True, slots=True)
class Fact:
    """A value of the hardware: what it is, and who says so.

    mark   m measured, d datasheet, e estimate, * assumed; empty where it was stated or derived
    """

    label: str
    text: str
    mark: str = ""
    source: str = ""

    @property
    def marked(self) -> str:
        """The value with its mark behind it."""
        return f"{self.text} {self.mark}".rstrip()


def is_assumed(origin: str) -> bool:
    """True for a value that nobody stated and that is no default: assumed, or chosen by the planner.

    >>> is_assumed("assumed: 16 GPUs"), is_assumed("planner"), is_assumed("default"), is_assumed("a.yaml:3:1")
    (True, True, False, False)
    """
    return origin.startswith(("assumed", "planner"))


def hardware_facts(evaluation: Evaluation) -> list[Fact]:
    """The catalogue values that the result leans on most."""
    resolved = evaluation.resolved
    gpu, cluster = resolved.cluster.node.gpu, resolved.cluster
    precision = PEAK_OF.get(resolved.layout.precision, resolved.layout.precision)
    rows = (
        (f"GPU peak, {precision}", f"peak_{precision}"),
        ("GPU memory", "memory_visible"),
        ("GPU memory bandwidth", "memory_bandwidth"),
        (f"link of GPUs, {gpu.scale_up}", "scale_up_rate"),
    )
    facts = [_fact(label, gpu.entry.values[key]) for label, key in rows if key in gpu.entry.values]
    if resolved.machine.network.protocol != "none":
        facts.append(_card(evaluation, cluster.fabric.entry))
    return facts


def _fact(label: str, quantity: Quantity) -> Fact:
    origin = quantity.provenance
    source = f"{origin.source}, {origin.date}" if origin.date else origin.source
    return Fact(label, str(quantity), MARKS[origin.kind], source)


def _card(evaluation: Evaluation, fabric: Entry | None) -> Fact:
    """Rate of a network card, one direction."""
    cluster = evaluation.resolved.cluster
    label = f"network card, {cluster.fabric.id}"
    rate = format_rate(cluster.nic_bytes_per_s, bits=True)
    if any(one.path == "cluster.fabric" for one in evaluation.resolved.assumptions):
        return Fact(label, rate, "*", "the node's usual fabric")
    if getattr(evaluation.resolved.scenario.cluster.fabric, "link", None) is not None:
        return Fact(label, rate, "", "stated")
    node = cluster.node.entry
    for quantity in (fabric and fabric.values.get("link_rate"), node and node.values.get("nic_rate")):
        if quantity and quantity.number == cluster.nic_bytes_per_s:
            return _fact(label, quantity)
    return Fact(label, rate)


def facts_table(evaluation: Evaluation) -> Table:
    """Catalogue values with marks and sources."""
    columns = (Column("hardware"), Column("is", "right"), Column(), Column("from"))
    return Table(columns, tuple((fact.label, fact.text, fact.mark, fact.source) for fact in hardware_facts(evaluation)))


def evidence_table(evaluation: Evaluation) -> Table:
    """What the interval is made of: share of the step, half-width that it adds, grade."""
    terms = sorted(evaluation.error_terms, key=lambda term: -term.share * term.sigma)
    rows = []
    for term in terms:
        kind, _, where = term.evidence.partition(":")
        share = digits(100 * term.share) if kind != "model" else ""
        name = _name(kind, where)
        rows.append((name, share, digits(100 * Z80 * term.share * term.sigma), _grade(evaluation, kind, where)))
    columns = (
        Column("what the interval rests on"),
        Column("% of the step", "point"),
        Column("80% error, %", "point"),
        Column("grade"),
    )
    return Table(columns, tuple(rows))


def _name(kind: str, where: str) -> str:
    if kind in _KERNELS:
        return f"{_KERNELS[kind]} of {where}"
    if kind == "collectives":
        return f"collectives on {where}"
    return f"the model itself ({where.replace(':', ', ')})" if kind == "model" else f"{kind} {where}"


def _grade(evaluation: Evaluation, kind: str, where: str) -> str:
    """Grade of a piece of evidence, the worst of those that took time."""
    if kind in _KERNELS:
        names: tuple[str, ...] = (kind,)
    elif kind == "collectives":
        names = _FABRIC if "/" in where else _SCALE_UP
    else:
        return ""
    times = evaluation.times
    rows = [EVIDENCE_ROW[name] for name in names]
    found = [float(times.evidence[row, 0]) for row in rows if times.busy[row] > 0]
    return GRADES[round(max(found))] if found else ""


def coverage_line(evaluation: Evaluation) -> str:
    """How much was stated, how much assumed or left at its default, what is not modelled."""
    resolved = evaluation.resolved
    values = {**resolved.values, **evaluation.means.values}
    origins = [origin for value, origin in values.values() if value is not None]
    assumed = sum(map(is_assumed, origins))
    defaults = origins.count("default")
    line = f"{len(origins) - assumed - defaults} of {len(origins)} inputs stated; {assumed} assumed"
    line += f", {defaults} at their defaults" if defaults else ""
    left_out = ", ".join(evaluation.unmodelled) or "nothing that was stated"
    return f"{line} ({_LISTED}); not modelled: {left_out}."


def coverage(evaluation: Evaluation, page: Page) -> Words | Points:
    """The coverage line, and the assumptions that are more than habits of the software."""
    notable = [one for one in evaluation.assumptions if is_notable(one.path)]
    if not notable:
        return Words((coverage_line(evaluation),))
    items = tuple(f"{one.path} = {value_text(one.value, one.path)}: {one.why}" for one in notable)
    return Points(coverage_line(evaluation), items, page.star)


def is_notable(path: str) -> bool:
    """What a software family decides, and details of running and power, are listed on demand.

    >>> [is_notable(f"training.software.{name}") for name in ("cuda_graphs", "family")]
    [False, True]
    """
    return not path.startswith(_ON_DEMAND) or path in _AT_ONCE
