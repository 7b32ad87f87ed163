"""What `pip install .` puts on a machine, far from the checkout."""

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

from attnexp import __version__
from attnexp.config.compose import compose
from attnexp.runs.identity import identify


def test_a_folder_named_like_the_package_does_not_hide_it(tmp_path: Path) -> None:
    """A clone is such a folder for scripts and notebooks beside it."""
    (tmp_path / "attnexp" / "attnexp").mkdir(parents=True)
    program = "import attnexp; print(attnexp.__version__)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout == f"{__version__}\n", done.stderr


@pytest.mark.slow  # pip builds the package
def test_a_plain_install_finds_its_conf_from_anywhere(tmp_path: Path) -> None:
    source = tmp_path / "source"
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-build-isolation", "-q"]
    subprocess.run([*pip, "--target", str(site), str(source)], check=True, capture_output=True)
    program = (
        "from attnexp.config import compose, options, study; print(options.conf_dir()); "
        "print(compose.compose(['experiment=blog_pe']).position.name, "
        "*study.load_study('blog').variants); "
        "from attnexp.runs.identity import identify; "
        "print(identify(compose.compose(['experiment=blog_pe']), '').run_id)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path, env={"PYTHONPATH": str(site)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == [
        str(site / "attnexp/conf"),
        "sinusoidal no_pe pe",
        identify(compose(["experiment=blog_pe"]), "").run_id,  # the same code, and so the same ids
    ], done.stderr
    shipped = {path.relative_to(site / "attnexp/conf") for path in site.rglob("*.yaml")}
    assert shipped == {path.relative_to(ROOT / "conf") for path in (ROOT / "conf").rglob("*.yaml")}
    for kind in ("*.py", "*.html"):
        files = [path.relative_to(ROOT) for path in (ROOT / "attnexp").rglob(kind)]
        assert files
        assert all((site / name).read_bytes() == (ROOT / name).read_bytes() for name in files)
