"""`simcluster simulate`."""

from __future__ import annotations

import time
from pathlib import Path

import click

from simcluster.cli.options import FORMATS, answer, answer_page, common, tell
from simcluster.cli.pictures import PLOTS, TRACES, apart, draw, file_for, record


@click.command()
@click.argument("scenario", type=click.Path(path_type=Path))
@click.option("--what-if", "what_if", help="Apply one of the file's what-ifs.")
@click.option("--candidate", help="One of the candidates of a study.")
@click.option(
    "--engine",
    type=click.Choice(("auto", "max-plus", "des")),
    default="auto",
    show_default=True,
    help="Engine of the step; des: event by event, exchanges share links as they meet; auto: max-plus.",
)
@click.option(
    "--trace", callback=file_for(TRACES), metavar="FILE", help="Write the step as a trace: .json or .json.gz."
)
@click.option("--plot", callback=file_for(PLOTS), metavar="FILE", help="Draw the step's pipeline: .svg, .png or .pdf.")
@common(FORMATS)
def simulate(
    scenario: Path,
    what_if: str | None,
    candidate: str | None,
    engine: str,
    trace: Path | None,
    plot: Path | None,
    format_: str,
    output: Path | None,
    sets: tuple[str, ...],
    seed: int,
    hardware_db: Path | None,
) -> None:
    r"""Simulate SCENARIO: a training step, where its time goes, whether it fits; then days, power and cost of the run.

    A parallel layout that is not stated is chosen.

    \b
    simcluster simulate examples/llama-65b-512xa100.yaml
    simcluster simulate examples/llama-65b-512xa100.yaml --set cluster.fabric=roce-200 --format json
    simcluster simulate examples/llama-65b-512xa100.yaml --trace step.json.gz --plot step.svg
    """
    from simcluster.hardware.catalogue import Catalogue
    from simcluster.reports.csv import record_csv
    from simcluster.reports.records import evaluation_record, to_json
    from simcluster.reports.step_page import simulate_blocks
    from simcluster.study import load_one, settled

    started = time.perf_counter()
    apart(trace, plot, output)
    loaded = load_one(scenario, sets, what_if, candidate)
    evaluation = settled(loaded, Catalogue.load(hardware_db), "des" if engine == "des" else "max-plus", seed)
    tell((*loaded.notes, *evaluation.notes))
    record(evaluation, trace)
    draw(evaluation, plot)
    if format_ in ("json", "csv"):
        figures = evaluation_record(evaluation, None, seed)
        figures["meta"] = {"seconds": time.perf_counter() - started, **figures["meta"]}
        answer(to_json(figures) if format_ == "json" else record_csv(figures), output)
        return
    answer_page(evaluation.name, lambda page: simulate_blocks(evaluation, page), format_, output)
