"""Rules of single parts: architecture, cluster, training, operations, money."""

from __future__ import annotations

import dataclasses

import pytest
from pydantic import ValidationError

from simcluster import shapes
from simcluster.scenario import (
    Background,
    BatchTokens,
    Checkpoint,
    FabricSpec,
    InlineArchitecture,
    NodeSpec,
    Own,
    Parallelism,
    PurchasePrice,
    Rent,
    RentPrice,
    Sharding,
    StageSpec,
    Training,
    parse_compression,
)

MODEL = {"layers": 2, "hidden": 64, "heads": 4, "ffn": 128, "vocab": 100}


def test_inline_architecture_mirrors_the_shape():
    """A field added to the shape must be offered to users too, with the same default."""
    fields = {field.name: field for field in dataclasses.fields(shapes.Architecture)}
    assert set(InlineArchitecture.model_fields) == set(fields)
    for name, field in InlineArchitecture.model_fields.items():
        if fields[name].default is not dataclasses.MISSING:
            assert field.default == fields[name].default, name


def test_inline_architecture_fills_heads_and_checks_them():
    model = InlineArchitecture.model_validate(MODEL).architecture()
    assert (model.kv_heads, model.head_dim, model.name) == (4, 16, "inline")
    assert InlineArchitecture.model_validate({**MODEL, "heads": 5, "head_dim": 16}).architecture().head_dim == 16
    with pytest.raises(ValidationError, match="state head_dim"):
        InlineArchitecture.model_validate({**MODEL, "heads": 5})
    with pytest.raises(ValidationError, match="not a multiple of kv_heads"):
        InlineArchitecture.model_validate({**MODEL, "kv_heads": 3})


def test_nodes_and_fabrics_are_whole_or_based_on_an_entry():
    assert NodeSpec.model_validate({"gpu": "h100", "gpus": 8, "nics": "8x400G"}).nics.link == 50e9
    assert NodeSpec.model_validate({"base": "dgx", "nics": {"count": 4, "link": "25 GB/s"}}).nics.count == 4
    with pytest.raises(ValidationError, match="needs gpu and gpus"):
        NodeSpec.model_validate({"gpu": "h100"})
    assert FabricSpec.model_validate({"base": "ib", "tiers": 3}).tiers == 3
    with pytest.raises(ValidationError, match="needs protocol and link"):
        FabricSpec.model_validate({"protocol": "ib"})
    with pytest.raises(ValidationError, match="needs from and rate, or job"):
        Background.model_validate({})


@pytest.mark.parametrize(
    ("value", "batch"),
    [
        (2048, 2048),
        ("2048", 2048),
        ("2k sequences", 2000),
        ("64 samples", 64),
        (256.0, 256),
        ("4M tokens", BatchTokens(tokens=4_000_000)),
        ("4Mi tokens", BatchTokens(tokens=4 * 2**20)),
    ],
)
def test_global_batch_in_sequences_or_tokens(value, batch):
    assert Training(global_batch=value).global_batch == batch


@pytest.mark.parametrize("value", [0, -4, "4M", "x tokens", 1.5, True, "0 tokens", "tokens"])
def test_global_batches_that_say_nothing(value):
    with pytest.raises(ValidationError):
        Training(global_batch=value)


def test_sequences_per_step_rounds_to_whole_micro_batches():
    training = Training(global_batch="4M tokens", sequence_length=4096)
    assert training.sequences_per_step() == 977
    assert training.sequences_per_step(multiple=64) == 960
    assert training.sequences_per_step(2048, 2**20) == 2**20
    assert Training(global_batch="4M tokens").sequences_per_step() is None
    assert Training(global_batch=7).sequences_per_step(multiple=2) == 7


@pytest.mark.parametrize(
    "value", ["powersgd", "powersgd(0)", "powersgd(1.5)", "topk(2)", "topk(0)", "zip", "local-sgd(x)"]
)
def test_compressions_that_do_not_exist(value):
    with pytest.raises(ValueError, match=r"compression|quantity"):
        parse_compression(value)
    with pytest.raises(ValidationError):
        Training(grad_compression=value)


def test_explicit_stages_and_shard_groups():
    plan = Parallelism.model_validate({"pp": 2, "stages": [3, {"layers": 4, "head": True}]})
    assert plan.stages == (StageSpec(layers=3), StageSpec(layers=4, head=True))
    for wrong in (3, [], "even", [[1]]):
        with pytest.raises(ValidationError):
            Parallelism.model_validate({"stages": wrong})
    assert Sharding.model_validate({"group": 16}).group == 16
    for wrong in (0, "rack", True):
        with pytest.raises(ValidationError, match="should be 'all', 'node' or a number of ranks"):
            Sharding.model_validate({"group": wrong})


def test_prices_say_of_what():
    assert Own(price="300000 USD/node").price == PurchasePrice(usd=300000)
    assert Own(price="$40000/GPU").price == PurchasePrice(usd=40000, per="gpu")
    assert Rent(price="2.5 USD/GPU-h").price == RentPrice(usd_per_s=2.5 / 3600, per="gpu")
    assert Rent(price="98 USD/h").price == RentPrice(usd_per_s=98 / 3600, per="node")
    for part, price in ((Own, "300000 USD"), (Own, 3), (Rent, "2.5 USD"), (Rent, "list price")):
        with pytest.raises(ValidationError, match="should be"):
            part(price=price)


def test_times_without_unit_only_where_seconds_are_meant():
    assert Checkpoint(interval=1800).interval == 1800
    with pytest.raises(ValidationError, match="above zero, or 'auto'"):
        Checkpoint(interval=0)
    with pytest.raises(ValidationError, match="14 has no unit"):
        Own(lead_time=14)


def test_parts_are_frozen():
    part = Checkpoint()
    with pytest.raises(ValidationError, match="frozen"):
        part.keep = 3  # type: ignore[misc]
