"""What is installed is what stands in the tree."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_wheel_holds_every_file_of_the_tree(tmp_path: Path) -> None:
    command = ["git", "ls-files", "depthscope", "app", "probes"]
    tracked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    source = tmp_path / "source"
    for name in [*tracked, "pyproject.toml", "README.md", "LICENSE"]:
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_symlink():
            target.symlink_to((ROOT / name).readlink())
        else:
            target.write_bytes((ROOT / name).read_bytes())
    build = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(tmp_path),
        str(source),
    ]
    done = subprocess.run(build, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    shipped = {
        name for name in zipfile.ZipFile(wheel).namelist() if not name.split("/")[0].endswith(".dist-info")
    }
    expected = set()
    for name in tracked:
        if not (ROOT / name).is_symlink():
            expected.add(name if name.startswith("depthscope/") else f"depthscope/{name}")
    assert shipped == expected
