"""`simcluster show`."""

from __future__ import annotations

from pathlib import Path

import click

from simcluster.cli.options import FORMATS, answer, answer_page, common


@click.command()
@click.argument("scenario", type=click.Path(path_type=Path))
@click.option("--candidate", help="One of the candidates of a study.")
@click.option("--resolved", is_flag=True, help="With catalogue values, defaults and assumptions settled.")
@common(FORMATS)
def show(
    scenario: Path,
    candidate: str | None,
    resolved: bool,
    format_: str,
    output: Path | None,
    sets: tuple[str, ...],
    seed: int,
    hardware_db: Path | None,
) -> None:
    r"""Show SCENARIO as it is understood: each value and where it came from.

    \b
    simcluster show examples/llama-65b-512xa100.yaml --resolved
    """
    del seed
    from simcluster.hardware.catalogue import Catalogue
    from simcluster.reports.csv import write
    from simcluster.reports.records import to_json
    from simcluster.reports.resolved import file_values, resolved_blocks, resolved_record, resolved_rows, settled_values
    from simcluster.study import load_one, settled

    loaded = load_one(scenario, sets, None, candidate)
    found = settled(loaded, Catalogue.load(hardware_db)) if resolved else None
    values = settled_values(found.resolved) if found else file_values(loaded)
    if format_ == "json":
        answer(to_json(resolved_record(values)), output)
    elif format_ == "csv":
        answer(write(("path", "value", "origin"), resolved_rows(values)), output)
    else:
        notes = (*loaded.notes, *(found.notes if found else ()))
        answer_page(loaded.scenario.name, lambda _: resolved_blocks(values, notes), format_, output)
