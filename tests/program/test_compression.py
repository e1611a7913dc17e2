"""Gradient compression: traffic by hand, and a gain that never exceeds what was exposed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.errors import InputError
from simcluster.program.compression import Compression, wire
from simcluster.shapes import GroupShape

GROUP = GroupShape(16)


@pytest.mark.parametrize(
    ("compression", "kind", "sent", "codec", "share"),
    [
        (None, "reduce_scatter", 4e6, 0.0, 1.0),
        (Compression("bf16"), "reduce_scatter", 2e6, 1.5 * 4e6, 1.0),
        (Compression("fp8"), "reduce_scatter", 1e6, 1.25 * 4e6, 1.0),
        (Compression("powersgd", 4), "all_reduce", 4 * 4 * (1000 + 1000), 3 * 4e6, 1.0),
        (Compression("topk", 0.01), "all_gather", 16 * 0.01 * 8 * 1e6, 3 * 4e6, 1.0),
        (Compression("local-sgd", 8), "all_reduce", 4e6, 0.0, 1 / 8),
    ],
)
def test_traffic_of_a_million_gradients(compression, kind, sent, codec, share):
    """A 1000 x 1000 matrix of fp32 gradients over 16 ranks."""
    found = wire(compression, "all_reduce" if kind != "reduce_scatter" else kind, 1e6, 4.0, GROUP, 1000)
    assert (found.kind, found.bytes) == (kind, pytest.approx(sent))
    assert (found.codec_bytes, found.share) == (pytest.approx(codec), pytest.approx(share))


def test_gradients_that_are_narrow_already_are_left_alone():
    assert wire(Compression("bf16"), "all_reduce", 1e6, 2.0, GROUP, 1000) == wire(
        None, "all_reduce", 1e6, 2.0, GROUP, 1000
    )


@given(
    method=st.sampled_from(["bf16", "fp8", "powersgd(2)", "topk(0.001)", "local-sgd(16)"]),
    nodes=st.sampled_from([2, 5, 16]),
    fabric=st.sampled_from(["tcp-10", "tcp-100", "ib-hdr-200"]),
    overlap=st.booleans(),
)
def test_no_method_gains_more_than_the_exposed_data_parallel_time(run, method, nodes, fabric, overlap):
    change = {
        "cluster": {"nodes": nodes, "fabric": fabric},
        "training": {
            "global_batch": 16 * nodes,
            "parallelism": {"tp": 1, "pp": 1, "sequence_parallel": False},
            "sharding": {"strategy": "none"},
            "software": {"overrides": {"overlap_grad_reduce": overlap}},
        },
    }
    plain = run(change)
    exposed = dict(plain.waterfall.items())["data_parallel"]
    change["training"]["grad_compression"] = method
    gain = plain.step.time_s - run(change).step.time_s
    assert gain <= exposed * (1 + 1e-9)
    if fabric == "tcp-10":
        assert gain > 0


def test_methods_that_need_the_whole_gradient_do_not_go_with_shards(run):
    for method in ("powersgd(2)", "topk(0.01)", "local-sgd(4)"):
        with pytest.raises(InputError, match="whole gradient"):
            run({"training": {"grad_compression": method, "sharding": {"strategy": "zero-1"}}})
