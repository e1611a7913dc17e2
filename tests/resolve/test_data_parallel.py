"""What each sharding strategy moves, over which ranks, told from the layout."""

import pytest

from simcluster.shapes import GroupShape

WHOLE = ["zero-3", "fsdp"]


@pytest.fixture
def data(settle):
    """Data-parallel plan of two nodes of eight GPUs, tp and pp 1 unless stated."""

    def call(strategy, *sets, tp=1, pp=1, cp=1, group="all", **overrides):
        layout = f"training.parallelism={{tp: {tp}, pp: {pp}, cp: {cp}}}"
        changes = [f"training.software.overrides.{name}={value}" for name, value in overrides.items()]
        sharding = f"training.sharding={{strategy: {strategy}, group: {group}}}"
        return settle(layout, sharding, "training.micro_batch=1", "training.global_batch=64", *changes, *sets).plan.data

    return call


def test_no_sharding_sums_whole_gradients(data):
    plan = data("none")
    assert (plan.reduce_kind, plan.gather_kind, plan.shards, plan.units) == ("all_reduce", "none", 1, None)
    assert plan.group == GroupShape(16, 2, 1)


def test_optimizer_shards_reduce_and_gather(data):
    plan = data("zero-1")
    assert (plan.reduce_kind, plan.gather_kind, plan.shards, plan.units) == ("reduce_scatter", "all_gather", 16, None)
    assert plan.gather_group == plan.group


@pytest.mark.parametrize("strategy", WHOLE)
def test_sharded_parameters_move_inside_chunks(data, strategy):
    plan = data(strategy)
    assert plan.reduce_kind == "reduce_scatter"
    assert plan.gather_kind == "none"
    assert (plan.units.gather, plan.units.reduce, plan.units.regather, plan.units.reduce_each) == (True,) * 4
    assert plan.units.replicas.ranks == 1


def test_sharded_gradients_move_as_they_come_and_parameters_once(data):
    plan = data("zero-2")
    assert (plan.units.gather, plan.units.reduce, plan.gather_kind) == (False, True, "all_gather")


def test_hybrid_shards_stay_in_the_node(data):
    plan = data("hsdp", group="node")
    assert plan.gather_group == GroupShape(8, 1, 1)
    assert (plan.shards, plan.units.replicas.ranks, plan.units.replicas.domains) == (8, 2, 2)
    assert plan.units.replicas.sharers == 8  # each GPU of a node has a partner of its own in the other


@pytest.mark.parametrize(("tp", "shards", "replicas"), [(1, 8, 2), (2, 4, 2), (4, 2, 2)])
def test_tensor_parallel_ranks_leave_fewer_for_a_set(data, tp, shards, replicas):
    plan = data("hsdp", tp=tp, group="node")
    assert (plan.shards, plan.gather_group.domains, plan.units.replicas.ranks) == (shards, 1, replicas)


@pytest.mark.parametrize("group", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("strategy", [*WHOLE, "hsdp", "zero-2"])
def test_sets_and_their_replicas_are_all_ranks(data, strategy, group):
    plan = data(strategy, group=group)
    assert plan.shards == group
    if group > 1:
        assert plan.gather_group.ranks * plan.units.replicas.ranks == plan.group.ranks == 16


@pytest.mark.parametrize("strategy", [*WHOLE, "hsdp"])
def test_sets_of_one_rank_hold_everything(data, strategy):
    assert data(strategy, group=1).reduce_kind == "all_reduce"


def test_context_ranks_share_gradients_too(data):
    plan = data("zero-1", cp=4)
    assert (plan.group.ranks, plan.shards) == (16, 16)


def test_pipeline_ranks_do_not(data):
    assert data("zero-1", pp=4).group.ranks == 4


@pytest.mark.parametrize(("family", "bytes"), [("fp32", 4.0), ("bf16", 2.0)])
def test_gradients_travel_in_the_type_of_the_software(data, family, bytes):
    assert data("zero-1", gradient_dtype=family).gradient_bytes == bytes


def test_parameters_travel_in_low_precision_where_the_software_does_it(data):
    sets = ("cluster.node=dgx-h100", "cluster.fabric=ib-ndr-400", "training.precision=fp8")
    assert data("fsdp", *sets, fp8_param_gather="true").parameter_bytes == 1.0
    assert data("fsdp", *sets, fp8_param_gather="false").parameter_bytes == 2.0
    assert data("fsdp", fp8_param_gather="true").parameter_bytes == 2.0


def test_a_pipeline_may_keep_parameters_whole_for_a_step(data):
    once = data("fsdp", pp=2, reshard_with_pp="false").units
    assert (once.gather_once, once.regather, once.reduce_each) == (True, False, False)
    again = data("fsdp", pp=2, reshard_with_pp="true").units
    assert (again.gather_once, again.regather, again.reduce_each) == (False, True, True)
    alone = data("fsdp", pp=1, reshard_with_pp="false").units
    assert (alone.gather_once, alone.regather) == (False, True)


def test_broadcast_from_each_owner(data):
    assert data("zero-1", parameter_sync="broadcast").gather_kind == "broadcast"


def test_buckets_grow_with_the_ranks(data):
    plan = data("zero-1", bucket_bytes="100e6", bucket_bytes_per_rank="10e6")
    assert plan.bucket_bytes == 160e6
    assert data("zero-1", bucket_bytes="200e6", bucket_bytes_per_rank="10e6").bucket_bytes == 200e6


MOE = "model={experts: 8, top_k: 2, expert_ffn: 1024}"


@pytest.mark.parametrize(
    ("plan", "ranks"),
    [
        ("{tp: 1, pp: 1, ep: 8}", 2),
        ("{tp: 1, pp: 1, ep: 1}", 16),
        ("{tp: 2, pp: 1, ep: 4, etp: 2}", 2),
        ("{tp: 2, pp: 1, ep: 8, etp: 1}", 2),
        ("{tp: 4, pp: 2, ep: 8, etp: 1}", 1),
        ("{tp: 4, pp: 2, ep: 2, etp: 4}", 1),
    ],
)
def test_experts_are_summed_over_their_copies(settle, plan, ranks):
    """Copies of an expert: ranks of a stage over ep etp."""
    data = settle(MOE, f"training.parallelism={plan}", "training.micro_batch=1").plan.data
    assert data.expert_group.ranks == ranks


def test_expert_states_are_shared_by_the_copies_alone(settle):
    data = settle(MOE, "training.parallelism={tp: 1, pp: 1, ep: 4}", "training.micro_batch=1").plan.data
    assert (data.shards, data.expert_shards) == (16, 4)
    none = settle(MOE, "training.parallelism={tp: 1, pp: 1, ep: 4}", "training.sharding={strategy: none}",
                  "training.micro_batch=1")  # fmt: skip
    assert (none.plan.data.shards, none.plan.data.expert_shards) == (1, 1)
