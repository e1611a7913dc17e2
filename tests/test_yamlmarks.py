from __future__ import annotations

import contextlib
import time

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster import yamlmarks
from simcluster.errors import InputError
from simcluster.yamlmarks import read, read_text

TEXT = """\
name: a
cluster:
  node: x
  list:
    - 1
    - {deep: 2, other: [3, 4]}
"""


def problems(text: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        read_text(text, "f.yaml")
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("path", "key", "value"),
    [
        (("name",), "1:1", "1:7"),
        (("cluster",), "2:1", "3:3"),
        (("cluster", "node"), "3:3", "3:9"),
        (("cluster", "list", 0), "5:7", "5:7"),
        (("cluster", "list", 1, "deep"), "6:8", "6:14"),
        (("cluster", "list", 1, "other", 1), "6:28", "6:28"),
        (("cluster", "absent", "more"), "2:1", "3:3"),
        (("cluster", "list", 7), "4:3", "5:5"),
        ((), "1:1", "1:1"),
    ],
)
def test_marks_of_keys_and_values(path, key, value):
    document = read_text(TEXT, "f.yaml")
    assert str(document.mark(path)) == f"f.yaml:{key}"
    assert str(document.mark(path, value=True)) == f"f.yaml:{value}"


def test_words_and_numbers_of_the_narrow_dialect():
    data = read_text(
        "[no, off, yes, y, 12:30, 1e3, 1_000, 0o7, 010, 2024-06-01, .5, -3, ~, true, FALSE, .inf, 1e999]"
    ).data
    expected = ["no", "off", "yes", "y", "12:30", 1000.0, 1000, "0o7", 10, "2024-06-01", 0.5, -3, None, True, False]
    assert data == [*expected, ".inf", "1e999"]
    assert read_text("'8'").data == "8"


def test_keys_are_text_and_text_keys_stay_text():
    document = read_text("torch: 2.10\n1: a\nno: b\ncuda: ~\nother: 2.10\n", text_keys={"torch", "cuda"})
    assert document.data == {"torch": "2.10", "1": "a", "no": "b", "cuda": None, "other": 2.1}


def test_every_duplicate_and_tag_is_told_at_once():
    assert problems("a: 1\na: 2\nb: !!python/name:os.system x\nc: {d: 1, d: 2}\n") == [
        "f.yaml:2:1: key 'a' is given twice; the first is on line 1, keep one",
        "f.yaml:3:4: tag 'tag:yaml.org,2002:python/name:os.system' is not allowed; remove it; quote text instead",
        "f.yaml:4:11: key 'd' is given twice; the first is on line 4, keep one",
    ]


@pytest.mark.parametrize(
    ("text", "start", "words"),
    [
        ("a: [1, 2\nb: 3", "f.yaml:2:", "check brackets"),
        ("a:\n\t- b", "f.yaml:2:1", "spaces, not tabs"),
        ("a: b: c", "f.yaml:1:5", "in quotes"),
        ("a: 'x", "f.yaml:1:", "close the quote"),
        ("a: *x", "f.yaml:1:4", "no anchor before it"),
        ("a: &x [*x]", "f.yaml:1:8", "no anchor before it"),
        ("? [a]\n: b", "f.yaml:1:3", "a key must be a word"),
        ("*a : b", "f.yaml:1:1", "a key must be a word"),
        ("a: 1\n--- \nb: 2", "f.yaml:2:1", "one document"),
        ("<<: 3\na: 1", "f.yaml:1:5", "takes a mapping"),
        ("a: \x00", "f.yaml:1:4", "control character"),
        ("[" * 1000, "f.yaml:1:65", "64 deep"),
    ],
)
def test_what_is_not_accepted_is_told_with_its_place(text, start, words):
    found = problems(text)
    assert found[0].startswith(start)
    assert words in found[0]


def test_aliases_and_merge_keys_within_a_budget():
    document = read_text("base: &b {x: 1, y: 2}\nuse: {<<: *b, y: 3}\nboth: {<<: [*b, {z: 4}]}\nlist: [*b]\n")
    assert document.data["use"] == {"y": 3, "x": 1}
    assert document.data["both"] == {"x": 1, "y": 2, "z": 4}
    assert document.data["list"] == [{"x": 1, "y": 2}]
    assert str(document.mark(("use", "x"))) == "<text>:1:11"
    laughs = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    laughs += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    assert "aliases repeat too many values" in problems("\n".join(laughs))[0]


def test_files(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n")
    assert read(path).data == {"a": 1, "b": 2}
    path.write_bytes(b"a: 1\nb: \xff\n")
    with pytest.raises(InputError, match=r"a\.yaml:2:1: is not UTF-8 text"):
        read(path)
    path.write_bytes(b"#" * (yamlmarks.MAX_BYTES + 1))
    with pytest.raises(InputError, match="larger than 4 MiB"):
        read(path)
    with pytest.raises(InputError, match="no such file"):
        read(tmp_path / "none.yaml")
    with pytest.raises(InputError, match="cannot be read"):
        read(tmp_path)


DATA = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.text("abc: #'\"-", max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abcxyz", min_size=1, max_size=4), inner, max_size=3)
    ),
    max_leaves=12,
)


@settings(max_examples=60)
@given(DATA)
def test_reads_what_pyyaml_writes_and_marks_every_value(data):
    document = read_text(yaml.safe_dump(data))
    assert document.data == data

    def walk(value, path):
        mark = document.mark(path, value=True)
        assert mark.line >= 1
        assert mark.column >= 1
        for key, item in (
            value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        ):
            walk(item, (*path, key))

    walk(data, ())


@settings(max_examples=100)
@given(st.text("ab:-[]{},&*!#|>'\"%@`? \n\t0.", max_size=40))
def test_any_text_reads_or_is_an_input_error(text):
    with contextlib.suppress(InputError):
        read_text(text)


def test_python_parser_gives_the_same(monkeypatch):
    fast = read_text(TEXT)
    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    slow = read_text(TEXT)
    assert slow == fast


@pytest.mark.skipif(not hasattr(yaml, "CSafeLoader"), reason="PyYAML without libyaml")
def test_two_thousand_rows_are_fast():
    rows = "\n".join(f"- id: row-{i}\n  value: {i * 1.5}\n  unit: GB/s\n  source: some text" for i in range(2000))
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        read_text(rows)
        best = min(best, time.perf_counter() - start)
    assert best < 0.25  # about 0.035 s on an idle core
