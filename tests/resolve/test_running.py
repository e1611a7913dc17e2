"""How a job is run: rates, spares, restart, checkpoints, storage; stated or assumed, against its arithmetic."""

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simcluster.workload.parameters import count_parameters

STATELESS = [HealthCheck.function_scoped_fixture]  # `settle` resolves anew at each call
HOUR_S, DAY_S = 3600.0, 86400.0
REPAIR_S = 3 * DAY_S
NOTICED_S, SWAP_S = 72.0, 120.0  # estimates of the program: a crash is noticed; a hot spare takes over
RATE = "operations.failures.rates={{interruptions_per_node_day: {}}}"
OWN = "acquire=own"


@pytest.fixture
def terms(settle):
    """`terms("path=value", …)`: how the small job on two DGX A100 is run."""
    return lambda *sets: settle(*sets).means().run


def _assumed(settle, *sets):
    return {one.path: one for one in settle(*sets).means().assumptions}


def test_rates_of_the_fleet_with_the_same_gpu(settle):
    run = settle().means().run
    assert sum(run.failures_per_s.values()) == pytest.approx(2 * 6.50e-3 / DAY_S)  # RSC-1: A100, 6.50 per 1000 days
    assert run.rate_sigma > 0.3
    assert _assumed(settle)["operations.failures.rates"].value == "meta-rsc-1"


def test_rates_of_a_named_fleet(settle):
    run = settle("operations.failures.rates=meta-rsc-2").means().run
    assert sum(run.failures_per_s.values()) == pytest.approx(2 * 2.34e-3 / DAY_S)
    assert run.rate_sigma > 0.3
    assert "operations.failures.rates" not in _assumed(settle, "operations.failures.rates=meta-rsc-2")


@settings(max_examples=15, suppress_health_check=STATELESS)
@given(st.floats(1e-6, 0.1))
def test_an_own_rate_is_taken_as_it_is(settle, rate):
    run = settle(RATE.format(f"{rate:.9f}")).means().run
    assert run.failures_per_s == pytest.approx({"Node": float(f"{rate:.9f}") * 2 / DAY_S})
    assert run.rate_sigma == 0


def _erlang_b(load, servers):
    """By the recursion, B(0) = 1, B(n) = a B(n-1) / (n + a B(n-1))."""
    blocked = 1.0
    for count in range(1, servers + 1):
        blocked = load * blocked / (count + load * blocked)
    return blocked


@settings(max_examples=20, suppress_health_check=STATELESS)
@given(st.floats(1e-4, 0.2), st.sampled_from([2, 16, 64]))
def test_spares_pay_and_the_wait_is_that_of_erlang(settle, rate, nodes):
    sets = (RATE.format(f"{rate:.9f}"), f"cluster.nodes={nodes}", "training.global_batch=1024", OWN)
    run = settle(*sets).means().run
    down = float(f"{rate:.9f}") * nodes * 3
    costs = [(1 + s / nodes) * (1 + down * _erlang_b(down, s) / (s + 1)) for s in range(nodes + 40)]
    assert costs[run.spares] == pytest.approx(min(costs), rel=1e-12)
    wait = SWAP_S + _erlang_b(down, run.spares) * REPAIR_S / (run.spares + 1)
    assert run.detect_s == pytest.approx(NOTICED_S + wait, rel=1e-9)


def test_faults_of_software_take_no_node(settle):
    """63 of 419 interruptions of Llama 3 405B: bugs, watchdog timeouts, a dependency."""
    sets = (OWN, "operations.failures.rates=llama-3-405b", "cluster.spares=0")
    run = settle(*sets).means().run
    soft = ("Software bug", "NCCL watchdog timeout", "Dependency")
    share = sum(run.failures_per_s[cause] for cause in soft) / sum(run.failures_per_s.values())
    assert share == pytest.approx(63 / 419, rel=0.05)  # nodes of this job have fewer cards
    assert run.detect_s == pytest.approx(NOTICED_S + (1 - share) * (SWAP_S + REPAIR_S))


def test_stated_spares_are_kept_and_none_means_a_whole_repair(settle):
    """As if the first failure found the only spare in repair."""
    run = settle(OWN, "cluster.spares=0").means().run
    assert run.spares == 0
    assert run.detect_s == pytest.approx(NOTICED_S + SWAP_S + REPAIR_S)
    assert settle(OWN, "cluster.spares=7").means().run.detect_s == pytest.approx(NOTICED_S + SWAP_S, abs=1e-3)
    assert "cluster.spares" not in _assumed(settle, OWN, "cluster.spares=7")
    assert "cluster.spares" in _assumed(settle, OWN)


def test_a_cloud_gives_another_node(terms):
    """Ten to fifteen minutes from failure to step, half of it the restart (Jiang et al. 2024)."""
    rented = terms("acquire=on-demand")
    assert rented.spares == 0
    assert rented.detect_s == pytest.approx(NOTICED_S + 12.5 * 60 / 2)
    assert terms("acquire=on-demand", "cluster.spares=1").detect_s == pytest.approx(NOTICED_S + SWAP_S)


def test_a_restart_connects_loads_and_warms_up(settle):
    run = settle().means().run
    load = run.checkpoint_bytes / min(run.storage.read_bytes_per_s, 2 * run.node_bytes_per_s)
    assert run.restart_s == pytest.approx(60 + 30 + 0.0165 * 16 + load + 60)
    said = _assumed(settle)["operations.failures.restart"]
    assert said.value == pytest.approx(run.detect_s + run.restart_s)


def test_a_stated_restart_is_all_of_it_but_the_wait_for_a_repair(settle):
    run = settle("operations.failures.restart=20 min").means().run
    assert (run.detect_s, run.restart_s) == (0.0, 1200.0)
    run = settle("operations.failures.restart=20 min", OWN, "cluster.spares=0").means().run
    assert (run.detect_s, run.restart_s) == (REPAIR_S, 1200.0)
    assert "operations.failures.repair_wait_s" in _assumed(settle, OWN, "cluster.spares=0")
    assert "operations.failures.restart" not in _assumed(settle, "operations.failures.restart=20 min")


@pytest.mark.parametrize("term", ["own", "on-demand", "1y", "3y", "spot"])
def test_only_spot_machines_are_taken_away(terms, term):
    """A fifth of the instances a month, each of the two."""
    causes = terms(f"acquire={term}").failures_per_s
    assert ("Pre-emption" in causes) == (term == "spot")
    if term == "spot":
        run = terms("acquire=spot")
        assert run.spot_wait_s == HOUR_S
        node, taken = causes["Node"], causes["Pre-emption"]
        replaced = NOTICED_S + 12.5 * 60 / 2
        assert run.detect_s == pytest.approx(replaced + HOUR_S * taken / (node + taken))
        assert causes["Pre-emption"] == pytest.approx(2 * 0.2 / (365.25 / 12 * DAY_S), rel=0.001)


@pytest.mark.parametrize(
    ("sets", "each"),
    [
        ((), 14),
        (("training.software.overrides={optimizer_state_bytes: 6}",), 8),
    ],
)
def test_a_checkpoint_holds_weights_and_states_of_the_optimizer(settle, sets, each):
    resolved = settle(*sets)
    assert resolved.means().run.checkpoint_bytes == each * count_parameters(resolved.arch).total


@pytest.mark.parametrize(
    ("sets", "waits", "pause"),
    [
        ((), True, 5.0),
        (("operations.checkpoint.mode=async",), True, 5.0),
        (("operations.checkpoint.mode=sync",), False, 0.0),
    ],
)
def test_small_models_pause_for_five_seconds(terms, sets, waits, pause):
    run = terms(*sets)
    assert run.asynchronous == waits
    assert run.pause_s == pytest.approx(pause)


def test_large_models_pause_longer_as_a_power_of_their_size(settle):
    """5 s at 7B and 30 s at 405B."""
    resolved = settle("model=llama-3-70b", "cluster.nodes=8", "training.parallelism={tp: 8, pp: 8}")
    size = count_parameters(resolved.arch).total
    assert resolved.means().run.pause_s == pytest.approx(5 * 6 ** (math.log(size / 7e9) / math.log(405 / 7)), rel=1e-9)


def test_intervals_are_stated_or_open(terms):
    assert terms().interval_s is None
    assert terms("operations.checkpoint.interval=auto").interval_s is None
    assert terms("operations.checkpoint.interval=30 min").interval_s == 1800.0


def test_storage_written_out_is_as_fast_as_its_network_or_drives(terms):
    """100 Gbit/s are 12.5 GB/s; each byte is written twice."""
    run = terms("operations.storage.system={drives: 24, drive: nvme-8tb, nic: 100 Gbit/s, replicas: 2}")
    assert (run.storage.read_bytes_per_s, run.storage.write_bytes_per_s) == (12.5e9, 6.25e9)


def test_storage_without_a_word_is_the_guideline_and_is_listed(settle):
    """20 GB/s of writing and 40 of reading for 32 nodes, at most 4 and 8 for each node."""
    run = settle().means().run
    write = run.storage.write_bytes_per_s
    assert 0 < write <= 2 * 4e9
    assert run.storage.read_bytes_per_s == pytest.approx(2 * write)
    assert _assumed(settle)["operations.storage.write_bytes_per_s"].value == write


def test_stragglers_are_as_stated(settle):
    slow = "operations.stragglers.slow_nodes=[{count: 1, factor: 1.02}, {count: 1, factor: 1.5}]"
    run = settle("operations.stragglers.node_sigma=1%", slow).means().run
    assert run.node_sigma == 0.01
    assert run.slow_nodes == ((1, 1.02), (1, 1.5))
    assert "operations.stragglers.node_sigma" in _assumed(settle)
    assert "operations.stragglers.node_sigma" not in _assumed(settle, "operations.stragglers.node_sigma=0%")


def test_incidents(settle):
    full = "operations.failures.incidents={per_month: 2, diagnose: {median: 2 h, p90: 1 day}}"
    assert settle(full).means().run.incidents == (2, 7200.0, DAY_S)
    assert settle("operations.failures.incidents={per_month: 0}").means().run.incidents is None
    half = "operations.failures.incidents={per_month: 2}"
    assert settle(half).means().run.incidents == (2, 12 * 3600.0, 4 * DAY_S)
    assert {path.rpartition(".")[2] for path in _assumed(settle, half) if "incidents" in path} == {"median", "p90"}


def test_unknown_names_come_together_and_at_their_places(refused, text):
    text += "operations: {failures: {rates: meta-rsc-9}, storage: {system: weka-99}}\n"
    found = refused(text=text)
    assert len(found) == 2
    assert any(one.startswith("a.yaml:14:25: operations.failures.rates: ") and "meta-rsc-1" in one for one in found)
    assert any(one.startswith("a.yaml:14:55: operations.storage.system: ") for one in found)
