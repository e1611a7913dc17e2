"""A published row's facts to a scenario. Only facts come in, so no measured figure or source reaches a prediction."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from simcluster.errors import InputError
from simcluster.formats.published_facts import PublishedFacts, flash_kernel
from simcluster.hardware.catalogue import Catalogue
from simcluster.hardware.gpu import GpuSpec
from simcluster.hardware.node import NodeSpec
from simcluster.scenario import Loaded, load_mapping
from simcluster.shapes import Architecture, Assumption
from simcluster.timing.software import SoftwareFamily, choose_family, resolve
from simcluster.workload.catalogue import list_models, load_model

_RATED = re.compile(r"(ib|roce|tcp|efa|opa|slingshot)\b.*?-(\d{2,4})")
_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class Built:
    """The scenario of a row, and what the row left open and was filled in on the way."""

    loaded: Loaded
    assumed: tuple[Assumption, ...]


def unsupported(facts: PublishedFacts) -> str | None:
    """What a row has that a scenario cannot hold yet; what it can hold but not simulate is told by resolving it.

    >>> unsupported(PublishedFacts(offload="activations")), unsupported(PublishedFacts())
    ('offload of activations', None)
    """
    if facts.offload == "activations":
        return "offload of activations"
    return None


def find_gpu(facts: PublishedFacts, catalogue: Catalogue) -> tuple[GpuSpec, tuple[Assumption, ...]] | None:
    """The catalogue's GPU of that name at that date with what the name leaves open; None for one it does not have."""
    try:
        return catalogue.gpu(facts.gpu, facts.date or None, path="cluster.node.gpu")
    except InputError:
        return None


def scenario_of(facts: PublishedFacts, catalogue: Catalogue) -> Built:
    """The scenario that a row describes.

    Raises InputError when the GPU is unknown or the facts do not make a scenario.

    >>> facts = PublishedFacts(gpu="H100", n_gpus=16, layers=16, hidden=2048, heads=16, kv_heads=16, head_dim=128,
    ...     ffn=8192, vocab=32000, gated_ffn=True, sequence_length=2048, global_batch=64, micro_batch=1, tp=2, pp=1,
    ...     cp=1, dp=8, framework="Megatron-LM", date="2024-06")
    >>> built = scenario_of(facts, Catalogue.load())
    >>> built.loaded.scenario.cluster.nodes, built.loaded.scenario.training.parallelism.tp
    (2, 2)
    """
    gpu, named = catalogue.gpu(facts.gpu, facts.date or None, path="cluster.node.gpu")
    fills = [*facts.assumed, *named]
    family = resolve(choose_family(facts.framework, facts.date)[0], gpu.generation)
    data = {
        "name": "published",
        "model": _model(facts, fills),
        "cluster": _cluster(facts, gpu, catalogue, fills),
        "training": _training(facts, family, fills),
    }
    return Built(load_mapping(data), tuple(fills))


def _stated(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _model(facts: PublishedFacts, fills: list[Assumption]) -> dict[str, Any]:
    tied = facts.tied_embeddings
    if tied is None:
        tied = facts.gated_ffn is False
        why = "not stated: blocks without a gate are taken as GPT blocks, which tie them; others do not"
        fills.append(Assumption("model.tied_embeddings", tied, why))
    model = _stated(
        {
            "name": facts.model_name[:_LONGEST_NAME] or None,
            "layers": facts.layers,
            "hidden": facts.hidden,
            "heads": facts.heads,
            "kv_heads": facts.kv_heads,
            "head_dim": facts.head_dim,
            "ffn": facts.ffn,
            "vocab": facts.vocab,
            "gated_ffn": facts.gated_ffn,
            "tied_embeddings": tied,
            **_experts(facts),
        }
    )
    details = known_details(facts)
    if "kv_rank" in details:
        model["head_dim"] = details["nope_dim"] + details["rope_dim"]
    for key, value in details.items():
        if key not in model:
            model[key] = value
            fills.append(Assumption(f"model.{key}", value, "as in the catalogue's model of the same dimensions"))
    if facts.gated_ffn is False and tied:
        why = "the columns do not say: a block without a gate and with tied embeddings is taken as that of GPT"
        gpt = {"norm": "layernorm", "learned_positions": facts.sequence_length or 0}
        gpt |= dict.fromkeys(("qkv_bias", "out_bias", "mlp_bias"), True)
        fills += [Assumption(f"model.{key}", value, why) for key, value in gpt.items()]
        model |= gpt
    return model


def _experts(facts: PublishedFacts) -> dict[str, Any]:
    if not facts.experts:
        return {}
    return {"experts": facts.experts, "top_k": facts.top_k, "expert_ffn": facts.expert_ffn}


# What published tables have no column for; taken from the catalogue's model of the same dimensions.
_DETAILS = (
    *("shared_ffn", "shared_gate", "dense_layers", "moe_every", "router_bias", "q_rank", "kv_rank", "nope_dim"),
    *("rope_dim", "value_dim", "window", "window_kind", "full_every", "attention_sinks", "qk_norm"),
)


@cache
def _catalogue_models() -> Mapping[tuple[int, ...], Architecture]:
    """Models of the catalogue by the dimensions that tables print."""
    models = (load_model(name)[0] for name in list_models())
    return {(arch.hidden, arch.heads, arch.experts, arch.top_k): arch for arch in models}


def known_details(facts: PublishedFacts) -> dict[str, Any]:
    """Further facts of a model with experts that the catalogue has under the same dimensions; empty if it has none."""
    if not facts.experts:
        return {}
    key = (facts.hidden or 0, facts.heads or 0, facts.experts, facts.top_k or 0)
    arch = _catalogue_models().get(key)
    if arch is None:
        return {}
    found = {name: getattr(arch, name) for name in _DETAILS}
    return {name: value for name, value in found.items() if value != Architecture.__dataclass_fields__[name].default}


def usual_node(gpu: GpuSpec, catalogue: Catalogue) -> NodeSpec | None:
    """The node that a GPU usually sits in: its maker's own, else a board of partners, else any; None if there is none.

    >>> catalogue = Catalogue.load()
    >>> usual_node(catalogue.gpu("h100-80gb-sxm")[0], catalogue).id
    'dgx-h100'
    """
    found = [entry for entry in catalogue.entries("nodes") if entry.text("gpu") == gpu.id]
    if not found:
        return None
    best = min(found, key=lambda entry: (not entry.id.startswith("dgx"), bool(entry.text("provider")), entry.id))
    return NodeSpec.of(best, gpu)


def _cluster(facts: PublishedFacts, gpu: GpuSpec, catalogue: Catalogue, fills: list[Assumption]) -> dict[str, Any]:
    base = usual_node(gpu, catalogue)
    gpus, nodes = _counts(facts, base, fills)
    node: dict[str, Any] = {"gpu": gpu.id, "gpus": gpus}
    if base is not None:
        node["base"] = base.id
        fills.append(Assumption("cluster.node.base", base.id, f"the usual node of {gpu.id}, for what is not stated"))
    domain = facts.nvlink_domain or (base.scale_up_domain if base and base.gpus == gpus else None)
    if domain:
        node["scale_up_domain"] = min(domain, gpus * nodes)
    cluster: dict[str, Any] = {"node": node, "nodes": nodes}
    fabric = _fabric(facts, base, gpus, catalogue, fills) if nodes > 1 else None
    return cluster | ({"fabric": fabric} if fabric else {})


def _counts(facts: PublishedFacts, base: NodeSpec | None, fills: list[Assumption]) -> tuple[int, int]:
    """GPUs of a node and nodes; a job smaller than a node runs on a node of its size."""
    world, gpus = facts.n_gpus or 1, facts.gpus_per_node
    if gpus is None:
        gpus = base.gpus if base else 8
        fills.append(Assumption("cluster.node.gpus", gpus, "not stated: as in the usual node"))
    if world < gpus:
        fills.append(Assumption("cluster.node.gpus", world, f"the job has fewer GPUs than a node of {gpus}"))
        return world, 1
    return gpus, -(-world // gpus)


def _fabric(
    facts: PublishedFacts, base: NodeSpec | None, gpus: int, catalogue: Catalogue, fills: list[Assumption]
) -> str | dict[str, Any] | None:
    """Fabric of several nodes; None leaves it to the node."""
    stated = _known_fabric(facts.fabric, catalogue, fills)
    cards = facts.nics_per_node
    if cards is None and base is not None and gpus != base.gpus:
        cards = max(1, round(base.nics * gpus / base.gpus))
        why = f"not stated: as many for each GPU as in {base.id}"
        fills.append(Assumption("cluster.fabric.links_per_node", cards, why))
        stated = stated or ({"base": base.fabric} if base.fabric else None)
    if stated is None:
        return None
    if "protocol" in stated or cards:
        return stated | ({"links_per_node": cards} if cards else {})
    name: str = stated["base"]
    return name


def _known_fabric(id_: str | None, catalogue: Catalogue, fills: list[Assumption]) -> dict[str, Any] | None:
    """`{base}` for a fabric of the catalogue, else protocol and link as the id tells them."""
    if id_ is None or id_ == "none":
        return None
    try:
        spec, _ = catalogue.fabric(id_)
    except InputError:
        rated = _RATED.match(id_)
        if rated:
            return {"protocol": rated[1], "link": f"{rated[2]} Gbit/s"}
        fills.append(Assumption("cluster.fabric", None, f"{id_} is not in the catalogue: the fabric of the node type"))
        return None
    return None if spec.scale_up else {"base": spec.id}


def _training(facts: PublishedFacts, family: SoftwareFamily, fills: list[Assumption]) -> dict[str, Any]:
    return _stated(
        {
            "sequence_length": facts.sequence_length,
            "global_batch": facts.global_batch,
            "micro_batch": facts.micro_batch,
            "precision": facts.precision,
            "parallelism": _parallelism(facts, fills),
            "sharding": _sharding(facts),
            "recompute": {"modules": list(facts.recompute_modules)}
            if facts.recompute == "selective" and facts.recompute_modules
            else facts.recompute,
            "software": _software(facts, family, fills),
        }
    )


def _parallelism(facts: PublishedFacts, fills: list[Assumption]) -> dict[str, Any]:
    virtual = facts.vpp
    if virtual > 1 and facts.pp == 1:
        virtual = 1
        fills.append(Assumption("training.parallelism.virtual_stages", 1, "there is one stage"))
    if not facts.schedule:
        fills.append(Assumption("training.parallelism.schedule", "1f1b", "not stated"))
    if facts.stage_layout:
        why = "the stated stage layout is not read: layers are spread evenly"
        fills.append(Assumption("training.parallelism.stages", "auto", why))
    return _stated(
        {
            "tp": facts.tp,
            "pp": facts.pp,
            "dp": facts.dp,
            "cp": facts.cp,
            "ep": facts.ep,
            "etp": facts.etp if facts.experts else None,
            "sequence_parallel": facts.sequence_parallel,
            "schedule": facts.schedule or None,
            "virtual_stages": virtual,
        }
    )


def _sharding(facts: PublishedFacts) -> dict[str, Any]:
    group = facts.sharding_group or ("node" if facts.sharding == "hsdp" else None)
    return _stated({"strategy": facts.sharding, "group": group, "offload": facts.offload})


def _software(facts: PublishedFacts, family: SoftwareFamily, fills: list[Assumption]) -> dict[str, Any]:
    kernel = None
    if facts.attention:
        kernel = flash_kernel(facts.attention, family.attention, facts.date)
        if kernel != facts.attention:
            fills.append(Assumption("training.software.attention", kernel, "fused; the generation is not stated"))
    overrides = {name: value for name, value in facts.software if not isinstance(value, tuple)}
    fills += [
        Assumption(f"training.software.{name}", list(value), "stated, without effect: a scenario cannot hold it")
        for name, value in facts.software
        if isinstance(value, tuple) and value
    ]
    return _stated(
        {
            "family": facts.framework[:_LONGEST_NAME] or None,
            "date": facts.date or None,
            "attention": kernel,
            "overrides": overrides or None,
        }
    )
