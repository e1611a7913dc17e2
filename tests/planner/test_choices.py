"""Values that an axis may take."""

from __future__ import annotations

import pytest

from simcluster.planner.choices import context_degrees, powers_of_two, runs_with_pipeline, strategies, virtual_degrees
from simcluster.timing.software import choose_family


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("megatron-core", ("zero-1",)),
        ("pytorch-ddp", ("none", "zero-1")),
        ("deepspeed", ("zero-3", "none", "zero-1", "zero-2")),
        ("fsdp2", ("fsdp", "none", "zero-2")),
        ("", ("zero-1", "fsdp")),
    ],
)
def test_a_family_shards_its_own_way_first_and_no_other_than_it_can(name, expected):
    assert strategies(choose_family(name, "")[0]) == expected


def test_hybrid_sharding_needs_a_group():
    family = choose_family("fsdp2", "")[0]
    assert "hsdp" not in strategies(family)
    assert "hsdp" in strategies(family, "node")


def test_deepspeed_keeps_whole_parameters_under_a_pipeline():
    family = choose_family("deepspeed", "")[0]
    assert [runs_with_pipeline(family, name) for name in ("none", "zero-1", "zero-2", "zero-3")] == [1, 1, 0, 0]


def test_context_ranks_keep_long_pieces():
    assert context_degrees(4096, 64) == [1]
    assert context_degrees(131072, 12) == [1, 2, 4]
    assert all(131072 / degree >= 8192 for degree in context_degrees(131072, 1024))


def test_virtual_stages_are_even_with_or_without_embedding_and_head():
    for layers, pp in ((80, 4), (126, 16), (61, 8), (32, 1)):
        for virtual in virtual_degrees(layers, pp)[1:]:
            assert layers % (pp * virtual) == 0 or (layers + 2) % (pp * virtual) == 0
        assert virtual_degrees(layers, pp)[0] == 1


def test_powers_of_two_end_at_the_most():
    assert powers_of_two(1) == [1]
    assert powers_of_two(64)[-1] == 64
    assert powers_of_two(63)[-1] == 32
