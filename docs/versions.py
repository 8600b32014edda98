"""Writes the list of versions of a site: `python docs/versions.py SITE [ROOT]`.

SITE has a folder for each version. The theme's switcher reads `switcher.json` there;
`index.html` leads to the newest release, or to the newest version if there is none.
ROOT is the address of SITE on its server, by default "/".
"""

import json
import re
import sys
from pathlib import Path

_PAGE = """<!doctype html>
<meta charset="utf-8">
<title>keras_albert</title>
<meta http-equiv="refresh" content="0; url={version}/index.html">
<a href="{version}/index.html">keras_albert {version}</a>
"""


def order(version: str) -> tuple[list[int], bool]:
    """Return what versions are sorted by: their numbers, releases after the others."""
    released, *rest = version.split(".dev")
    numbers = [int(part) for part in re.findall(r"\d+", released)]
    return numbers, not rest


def write(site: Path, root: str = "/") -> list[str]:
    """Write `switcher.json` and `index.html`.

    Args:
        site: The directory with a folder for each version.
        root: string. Its address on the server. Defaults to `"/"`.

    Returns:
        The versions, the newest first.
    """
    versions = [path.parent.name for path in site.glob("*/index.html")]
    versions.sort(key=order, reverse=True)
    releases = [version for version in versions if order(version)[1]]
    newest = (releases or versions)[0]
    entries = [
        {
            "name": version,
            "version": version,
            "url": f"{root.rstrip('/')}/{version}/",
            **({"preferred": True} if version == newest else {}),
        }
        for version in versions
    ]
    (site / "switcher.json").write_text(json.dumps(entries, indent=2) + "\n")
    (site / "index.html").write_text(_PAGE.format(version=newest))
    return versions


if __name__ == "__main__":
    print("versions:", ", ".join(write(Path(sys.argv[1]), *sys.argv[2:])))
