"""Evaluations and comparisons as pages in notebooks.

IPython is told how to show them by their names, so that neither it nor they are imported before one is shown, and
nothing below imports this. `import simcluster` inside IPython does so by itself; elsewhere `%load_ext
simcluster.reports.jupyter` does.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterable
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from simcluster.evaluation import Evaluation
    from simcluster.reports.blocks import Block, Table
    from simcluster.reports.layout import Page
    from simcluster.study import Comparison

_DPI = 90
_EVALUATION = ("simcluster.evaluation.evaluated", "Evaluation")
_COMPARISON = ("simcluster.study.comparison", "Comparison")
_FIGURE = ("matplotlib.figure", "Figure")


def load_ipython_extension(shell: Any) -> None:
    """Registers pages for evaluations and comparisons, and pictures for figures, with an IPython shell."""
    for kind, (module, name), show in _shown():
        shell.display_formatter.formatters[kind].for_type_by_name(module, name, show)


def unload_ipython_extension(shell: Any) -> None:
    """Takes back what `load_ipython_extension` registered."""
    for kind, (module, name), _ in _shown():
        shell.display_formatter.formatters[kind].pop(f"{module}.{name}", None)


def _shown() -> tuple[tuple[str, tuple[str, str], Callable[..., Any]], ...]:
    """Kind of output, type by module and name, and what makes the one of the other."""
    return (
        ("text/html", _EVALUATION, evaluation_html),
        ("text/html", _COMPARISON, comparison_html),
        ("text/plain", _EVALUATION, _as_text),
        ("text/plain", _COMPARISON, _as_text),
        ("image/png", _FIGURE, png),
    )


def _as_text(shown: Evaluation | Comparison, printer: Any, _cycle: bool) -> None:
    """For consoles: the page that the command prints."""
    from simcluster.reports.layout import Page
    from simcluster.reports.terminal import render

    page = Page()
    printer.text(render(_blocks(shown, page), page))


def _blocks(shown: Evaluation | Comparison, page: Page) -> list[Block]:
    from simcluster.evaluation import Evaluation
    from simcluster.reports.compare_page import compare_blocks
    from simcluster.reports.step_page import simulate_blocks

    return simulate_blocks(shown, page) if isinstance(shown, Evaluation) else compare_blocks(shown, page)


def evaluation_html(evaluation: Evaluation) -> str:
    """An evaluation as HTML: what `simcluster simulate` prints, with the waterfall as a picture."""
    from simcluster.reports import plots

    return _page(evaluation, plots.waterfall(evaluation), "where the step goes")


def comparison_html(comparison: Comparison) -> str:
    """A comparison as HTML: what `simcluster compare` prints, with step times and their intervals as a picture."""
    from simcluster.reports import plots

    return _page(comparison, plots.comparison(comparison), "step times")


def _page(shown: Evaluation | Comparison, picture: Figure, words: str) -> str:
    """The first words, a picture, the rest."""
    from simcluster.reports.layout import Page

    first, *rest = _blocks(shown, Page())
    data = base64.b64encode(png(picture)).decode("ascii")
    image = f'<p><img alt="{escape(words)}" src="data:image/png;base64,{data}"></p>'
    return "\n".join([html([first]), image, html(rest)])


def html(blocks: Iterable[Block]) -> str:
    """Blocks as HTML without scripts or styles of its own; text is escaped.

    >>> from simcluster.reports.blocks import Words
    >>> html([Words(("a < b", "so"), "strong")])
    '<p><b>a &lt; b</b><br>so</p>'
    """
    return "\n".join(_block(block) for block in blocks)


def _block(block: Block) -> str:
    from simcluster.reports.blocks import Points, Table

    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Points):
        items = "".join(f"<li>{escape(item)}</li>" for item in block.items)
        return f"<p>{escape(block.head)}</p><ul>{items}</ul>"
    first, *rest = map(escape, block.lines)
    return f"<p>{'<br>'.join([f'<b>{first}</b>' if block.style == 'strong' else first, *rest])}</p>"


def _table(table: Table) -> str:
    """Columns that only a text page needs are left out."""
    from simcluster.reports.blocks import cell_text

    shown = [index for index, column in enumerate(table.columns) if column.shown == "always"]
    sides = ["left" if table.columns[index].align == "left" else "right" for index in shown]
    head = [f'<th style="text-align:{side}">{escape(table.columns[i].header)}</th>' for i, side in zip(shown, sides)]
    rows = [f"<tr>{''.join(head)}</tr>"]
    for row in table.rows:
        cells = [f'<td style="text-align:{side}">{escape(cell_text(row[i]))}</td>' for i, side in zip(shown, sides)]
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table>{''.join(rows)}</table>"


def png(figure: Figure) -> bytes:
    """A figure as a PNG picture."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=_DPI)
    return buffer.getvalue()
