"""Environments to install into, with packages and files that have the same names as ours."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
ROOMS = ("api", "cli", "service", "storage")
DECOYS = (*ROOMS, "json", "numpy", "onnx", "onnxruntime", "pydantic", "sitecustomize", "sqlite3")
DEADLINE_S = 300.0


@dataclass(frozen=True)
class Environment:
    """A virtual environment, a working folder full of decoys, and the file in which they sign."""

    python: Path
    program: Path
    working_dir: Path
    signatures: Path
    variables: dict[str, str]

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a command among the decoys."""
        return subprocess.run(
            [str(part) for part in command],
            cwd=self.working_dir,
            env=self.variables,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=DEADLINE_S,
            check=False,
        )

    def decoys_that_ran(self) -> list[str]:
        """The names of the modules that were taken for the real ones."""
        return self.signatures.read_text("utf-8").split()


def environment(folder: Path, *, system_packages: bool = False) -> Environment:
    """A new environment that has what this one has, and a foreign package of each room's name."""
    venv.create(folder / "venv", with_pip=False, system_site_packages=system_packages)
    scripts = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
    python = scripts / ("python.exe" if os.name == "nt" else "python")
    signatures = folder / "signatures"
    signatures.touch()
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("HONED_", "PYTHON"))}
    made = Environment(
        python=python,
        program=scripts / ("honed.exe" if os.name == "nt" else "honed"),
        working_dir=folder / "work",
        signatures=signatures,
        variables={**variables, "HONED_CONFIG": os.devnull, "PYTHONUTF8": "1"},
    )
    packages = _site_packages(made)
    _plant(packages, ROOMS, signatures)
    _plant(made.working_dir, DECOYS, signatures)
    # Behind its own: a plain line in a .pth file does not read the .pth files of that folder.
    (packages / "dependencies.pth").write_text(f"{_site_packages_of_this()}\n")
    return made


def install(made: Environment, *arguments: str | Path, **variables: str) -> None:
    """`pip install` into the environment, by this environment's pip.

    It compiles nothing: what a test imports is compiled then, and most of it never is.
    """
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", made.python]
    options = ["--no-deps", "--no-build-isolation", "--quiet", "--force-reinstall"]
    command = [*pip, "install", "--no-compile", *options, *arguments]
    subprocess.run(command, env={**made.variables, **variables}, check=True)


def _plant(folder: Path, names: tuple[str, ...], signatures: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name in names:
        program = f"open({str(signatures)!r}, 'a').write({name!r} + '\\n')\n"
        (folder / f"{name}.py").write_text(f"{program}raise ImportError('a decoy: {name}')\n")


def _site_packages(made: Environment) -> Path:
    program = "import sysconfig; print(sysconfig.get_path('purelib'))"
    run = subprocess.run([made.python, "-I", "-c", program], capture_output=True, check=True)
    return Path(run.stdout.decode().strip())


def _site_packages_of_this() -> str:
    import numpy

    return str(Path(numpy.__file__).parents[1])
