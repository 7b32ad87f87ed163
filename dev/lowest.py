"""Print the lowest version of each dependency that pyproject.toml allows, for `make lowest`.

torch is left out: constraints.txt has the version that is tested.
"""

import re
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
for requirement in project["dependencies"]:
    name, bound = re.match(r"([\w-]+)>=([\d.]+)", requirement).groups()
    if name != "torch":
        print(f"{name}=={bound}")
