"""Values with their origins, for machine and reader."""

import pytest

from simcluster.reports.layout import Page
from simcluster.reports.resolved import file_values, resolved_blocks, resolved_record, value_text
from simcluster.reports.terminal import render
from simcluster.scenario import load_text

TEXT = """\
model: llama-7b
cluster: {node: dgx-h100, nodes: 4}
operations: {stragglers: {slow_nodes: [{count: 1, factor: 1.02}]}}
training: {software: {overrides: {overlap_p2p: true}}}
"""


def test_only_single_values_with_their_places():
    values = file_values(load_text(TEXT, "a.yaml"))
    assert values["cluster.nodes"] == (4, "a.yaml:2:27")
    assert values["operations.stragglers.slow_nodes.0.factor"][0] == 1.02
    assert values["training.software.overrides.overlap_p2p"] == (True, "a.yaml:4:35")
    assert not any(isinstance(value, dict) for value, _ in values.values())


def test_record_is_sorted():
    record = resolved_record({"b": (1, "default"), "a": (None, "x")})
    assert list(record.items()) == [
        ("a", {"value": None, "origin": "x"}),
        ("b", {"value": 1, "origin": "default"}),
    ]


def test_table_reads_well():
    values = {"x": (0.1 + 0.2, "a"), "y": (("core_attn", "mlp"), "b"), "z": ([], "default"), "none": (None, "c")}
    assert render(resolved_blocks(values, ["mind"]), Page()).splitlines() == [
        "value  is              from",
        "x      0.3             a",
        "y      core_attn, mlp  b",
        "z      none            default",
        "",
        "note: mind",
    ]


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        ("cluster.fabric.link", 2.5e10, "200 Gbit/s"),
        ("training.software.host_issue_s", 6e-6, "6 us"),
        ("training.software.bucket_bytes", 1.6e8, "160 MB"),
        ("training.software.bucket_bytes_per_rank", 4e6, "4 MB"),
        ("cluster.nodes", 4, "4"),
        ("training.precision", "bf16", "bf16"),
        ("training.software.overlap_p2p", True, "True"),
        ("training.tokens", 1400000000000, "1400000000000"),
        ("acquire.own.residual", 0.2, "20%"),
    ],
)
def test_units_where_the_path_tells_them(path, value, text):
    assert value_text(value, path) == text
