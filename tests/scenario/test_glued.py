"""Keys glued to their values are told, wherever they stand, instead of being dropped."""

import pytest

from simcluster.errors import InputError
from simcluster.scenario import load_text
from simcluster.scenario.glued import glued_keys
from simcluster.scenario.tree import DEFAULT, from_data

JOB = "model: llama-7b\ncluster: {node: dgx-h100, nodes: 4}\n"


def problems(text, *sets):
    with pytest.raises(InputError) as caught:
        load_text(text, "a.yaml", sets=sets)
    return [str(one) for one in caught.value.problems]


def test_only_keys_without_a_value_are_glued():
    data = {"a": {"b:1": None, "c:2": 3, "d": None, "e:": None, ":f": None}, "g:1": [{"h:1": None}]}
    assert list(glued_keys(from_data(data, lambda _: DEFAULT))) == [("a", "b:1"), ("g:1", 0, "h:1")]


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("training: {micro_batch:2}", "put a space after the colon: micro_batch: 2"),
        ("operations: {stragglers: {slow_nodes: [{count:1, factor: 1.05}]}}", "colon: count: 1"),
        ("operations: {stragglers: {slow_nodes: [{count: 1, factor:1.05}]}}", "colon: factor: 1.05"),
        ("what_ifs: {small: {training.micro_batch:2}}", "colon: micro_batch: 2"),
    ],
)
def test_one_problem_for_one_glued_key(text, advice):
    (found,) = problems(f"{JOB}{text}\n")
    assert "as one word" in found
    assert advice in found
    assert found.startswith("a.yaml:3:")


def test_on_the_command_line():
    change = "operations.stragglers.slow_nodes=[{node:5, factor: 1.05}]"
    (found,) = problems(JOB, change)
    assert found.startswith(f"--set {change}: operations.stragglers.slow_nodes.0: YAML reads 'node:5' as one word")
