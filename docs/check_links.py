"""Checks a built site without a network: `python docs/check_links.py SITE`.

Every link, script, style sheet, picture and download of every page must exist, every
anchor must be in the page that it names, and nothing but links may come from another
host.
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Elements whose address is loaded with the page.
_LOADED = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src")}
# The files that a script within a page loads.
_SCRIPT = re.compile(r"""["'](https?://[^"'\s]+\.js)["']""")
# Written to a folder above, for all versions.
_ABOVE = ("../switcher.json",)


class _Page(HTMLParser):
    """The anchors and the addresses of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.addresses: list[tuple[str, bool]] = []
        self._in_script = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attrs if value}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        is_hint = values.get("rel") in ("canonical", "preconnect")
        for name in ("href", "src"):
            if name in values and not is_hint:
                self.addresses.append((values[name], (tag, name) in _LOADED))
        self._in_script = tag == "script"

    def handle_data(self, data: str) -> None:
        if self._in_script:
            self.addresses += [(address, True) for address in _SCRIPT.findall(data)]

    def handle_endtag(self, tag: str) -> None:
        self._in_script = False


def check(site: Path) -> tuple[list[str], int, int]:
    """Check all pages.

    Args:
        site: The directory of the site.

    Returns:
        The errors, and the numbers of pages and of addresses.
    """
    pages: dict[Path, _Page] = {}
    for path in sorted(site.rglob("*.html")):
        if "_static" in path.relative_to(site).parts:
            continue  # templates of the theme
        page = _Page()
        page.feed(path.read_text(encoding="utf-8"))
        pages[path.resolve()] = page
    errors: list[str] = []
    count = 0
    for path, page in pages.items():
        for address, is_loaded in page.addresses:
            count += 1
            error = _error(path, address, is_loaded, pages)
            if error:
                errors.append(f"{path.relative_to(site.resolve())}: {address} {error}")
    return errors, len(pages), count


def _error(
    path: Path, address: str, is_loaded: bool, pages: dict[Path, _Page]
) -> str | None:
    parts = urlsplit(address)
    if parts.scheme in ("mailto", "data", "javascript") or address in _ABOVE:
        return None
    if parts.scheme or parts.netloc:
        return "is loaded from another host" if is_loaded else None
    target = path
    if parts.path:
        target = (path.parent / unquote(parts.path)).resolve()
        if target.is_dir():
            target /= "index.html"
        if not target.is_file():
            return "does not exist"
    anchor = unquote(parts.fragment)
    # The theme's own: the top of the page.
    if not anchor or target not in pages or anchor in ("", "top"):
        return None
    # Pages of source code take all names of a file for those of one module.
    is_known = anchor in pages[target].anchors or "_modules" in path.parts
    return None if is_known else "has no such anchor"


if __name__ == "__main__":
    found, num_pages, num_addresses = check(Path(sys.argv[1]))
    print("\n".join(found))
    print(f"{num_pages} pages, {num_addresses} addresses, {len(found)} errors")
    sys.exit(bool(found))
