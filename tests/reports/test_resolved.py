"""Values with their origins, for machine and reader."""

from simcluster.reports.resolved import file_values, resolved_record, resolved_table
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
    table = resolved_table(
        {"x": (0.1 + 0.2, "a"), "y": (("core_attn", "mlp"), "b"), "z": ([], "default"), "none": (None, "c")}, ["mind"]
    )
    assert table.splitlines() == [
        "value  is              from",
        "x      0.3             a",
        "y      core_attn, mlp  b",
        "z      none            default",
        "note: mind",
    ]
