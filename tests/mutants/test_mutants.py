"""Every guard against a fault of recording can fail its test: `NN_name.patch` takes one guard of fault NN away.

To make one: change depthscope/ or probes/ so that tests/faults/test_NN_*.py fails, `git diff > tests/mutants/NN_name.patch`,
put a line of your own on top that says what is gone, and `git checkout` the change.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants.patching import DoesNotApply, applied

ROOT = Path(__file__).parents[2]
PATCHES = sorted(Path(__file__).parent.glob("*.patch"))
FAULTS = sorted((ROOT / "tests" / "faults").glob("test_*.py"))
SECONDS = 900
_SECONDS_A_FILE = 60
"""Far more than the tests of faults take: a mutant may hang."""


def number(path: Path) -> str:
    return path.stem.removeprefix("test_").split("_")[0]


def copied(folder: Path) -> Path:
    """Copy what the tests of faults need, with the links from depthscope/ to app/ and probes/."""
    leave_out = shutil.ignore_patterns("__pycache__", "mutants")
    for name in ("depthscope", "app", "probes", "tests"):
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=leave_out)
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def run_tests(folder: Path, files: list[Path]) -> tuple[int, str]:
    """Run test files within the copy; return pytest's exit code and what it printed."""
    # Not as a part of this session: what ranks recorded for one copy would be taken for what they record in another.
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-m", "", "-p", "no:cacheprovider", "--tb=line"]
        + [str(file.relative_to(ROOT)) for file in files],
        check=False,
        cwd=folder,
        env=own | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS + _SECONDS_A_FILE * len(files),
    )
    return run.returncode, run.stdout


@pytest.mark.parametrize("fault", FAULTS, ids=lambda path: path.stem)
def test_every_fault_has_a_patch(fault: Path) -> None:
    assert any(number(patch) == number(fault) for patch in PATCHES)


@pytest.mark.parametrize("patch", PATCHES, ids=lambda path: path.stem)
def test_every_patch_still_applies(patch: Path) -> None:
    assert any(number(fault) == number(patch) for fault in FAULTS)
    changes = applied(patch.read_text(), lambda path: (ROOT / path).read_text())
    assert all(path.startswith(("depthscope/", "probes/")) for path in changes)


@pytest.mark.soak
def test_without_a_patch_the_copy_passes(tmp_path: Path) -> None:
    code, printed = run_tests(copied(tmp_path), FAULTS)
    assert code == 0, printed


@pytest.mark.soak
@pytest.mark.parametrize("patch", PATCHES, ids=lambda path: path.stem)
def test_without_its_guard_the_fault_is_noticed(patch: Path, tmp_path: Path) -> None:
    folder = copied(tmp_path)
    for path, text in applied(patch.read_text(), lambda path: (folder / path).read_text()).items():
        (folder / path).write_text(text)
    code, printed = run_tests(folder, [fault for fault in FAULTS if number(fault) == number(patch)])
    print(printed)
    assert code == pytest.ExitCode.TESTS_FAILED, printed


def test_a_patch_whose_code_is_gone_does_not_apply() -> None:
    patch = "what it takes away\n--- a/one.py\n+++ b/one.py\n@@ -7,2 +7,2 @@\n a\n-b\n+c\n"
    assert applied(patch, lambda path: "x\na\nb\n") == {"one.py": "x\na\nc\n"}
    for text in ("x\nb\na\n", "aa\nb\nb\n"):
        with pytest.raises(DoesNotApply, match=r"one\.py does not hold"):
            applied(patch, lambda path, text=text: text)
    with pytest.raises(DoesNotApply, match="changes no file"):
        applied("nothing", lambda path: "")
