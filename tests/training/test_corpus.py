"""The demo's text: Python's standard library, split once and for all."""

from __future__ import annotations

import hashlib

import pytest

from depthscope.training import CorpusError, read_corpus


def held_out(name):
    return int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) < 0.05 * 2**32


@pytest.fixture
def tree(tmp_path):
    """Forty modules, of which the rule holds out some, and files that are not to be read."""
    for number in range(40):
        folder = tmp_path / ("package" if number % 2 else ".")
        folder.mkdir(exist_ok=True)
        (folder / f"module_{number:02}.py").write_text(f"value = {number}\n")
    for name in (
        "test/test_a.py",
        "package/tests/test_b.py",
        "site-packages/other.py",
        "idlelib/idle_test/test_c.py",
        "__pycache__/module.py",
        "_sysconfigdata__linux_.py",
        "sitecustomize.py",
        "notes.txt",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name} is not part of the text\n")
    return tmp_path


def test_the_split_depends_on_names_alone(tree):
    corpus = read_corpus(tree)
    names = sorted(f"module_{n:02}.py" if n % 2 == 0 else f"package/module_{n:02}.py" for n in range(40))
    assert corpus.validation_files == tuple(filter(held_out, names))
    assert corpus.train_files == tuple(name for name in names if not held_out(name))
    assert len(corpus.validation_files) > 0


def test_the_parts_hold_the_bytes_of_their_files_in_order(tree):
    corpus = read_corpus(tree)
    for part, files in ((corpus.train, corpus.train_files), (corpus.validation, corpus.validation_files)):
        assert bytes(part.tolist()) == b"".join((tree / name).read_bytes() for name in files)


def test_a_new_file_moves_no_other(tree):
    before = read_corpus(tree)
    (tree / "another.py").write_text("new = True\n")
    after = read_corpus(tree)
    assert set(before.validation_files) == set(after.validation_files) - {"another.py"}
    assert set(before.train_files) == set(after.train_files) - {"another.py"}
    assert before.digest != after.digest


def test_text_that_occurs_twice_is_in_one_part_only(tree):
    before = read_corpus(tree)
    copied = (tree / before.validation_files[0]).read_bytes()
    (tree / "zzz.py").write_bytes(copied)
    after = read_corpus(tree)
    assert "zzz.py" not in after.train_files + after.validation_files
    assert copied not in bytes(after.train.tolist())


def test_a_folder_without_sources_says_where_it_looked(tmp_path):
    with pytest.raises(CorpusError, match=f"{tmp_path}.*0 Python files"):
        read_corpus(tmp_path)


def test_the_standard_library_is_a_text_of_megabytes_without_its_tests():
    corpus, again = read_corpus(), read_corpus()
    assert len(corpus.train) > 3_000_000
    assert 0.01 < len(corpus.validation) / len(corpus.train) < 0.2
    assert "json/decoder.py" in corpus.train_files + corpus.validation_files
    assert not set(corpus.train_files) & set(corpus.validation_files)
    assert not [name for name in corpus.train_files if "site-packages" in name or "/tests/" in name]
    assert corpus.digest == again.digest
