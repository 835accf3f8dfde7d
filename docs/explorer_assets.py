"""Makes what explorer pages need of KaTeX, as files of the package: `make assets`, which needs npm.

KaTeX comes from the npm registry in a pinned version, whose hash is checked. Of its style only the fonts that pages use
are kept, as data within the style, so that a page loads nothing. `SHA256SUMS` says what was made, which the tests
compare.
"""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ASSETS = Path(__file__).parent.parent / "src" / "accumulus" / "show" / "assets"
VERSION = "0.19.1"
#: Of the archive, as the registry has it.
DIGEST = "24da5a599eb2fcede2e270b99a6ff48bca816beecc95feeb84e8cccbd1bb34fd"
#: What formulas of pages are set in.
FONTS = ("Main-Regular", "Math-Italic", "Size1-Regular", "Size2-Regular", "Size3-Regular", "Size4-Regular")
MADE = ("katex.min.js", "katex.css", "LICENSE-KaTeX.txt")


def style(text: str, fonts: dict[str, bytes]) -> str:
    """The style with fonts that are used as data, and without the others."""

    def face(match: re.Match[str]) -> str:
        name = re.search(r"fonts/KaTeX_([\w-]+)\.woff2", match[0])
        assert name is not None
        if name[1] not in fonts:
            return ""
        data = base64.b64encode(fonts[name[1]]).decode()
        return re.sub(r"src:[^;}]*", f'src:url("data:font/woff2;base64,{data}") format("woff2")', match[0])

    return re.sub(r"@font-face\{[^}]*\}", face, text)


def main() -> None:
    """Make all files anew."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["npm", "pack", "--silent", f"katex@{VERSION}"], cwd=folder, check=True, capture_output=True)
        (archive,) = Path(folder).glob("katex-*.tgz")
        found = hashlib.sha256(archive.read_bytes()).hexdigest()
        if found != DIGEST:
            sys.exit(f"katex {VERSION} has the hash {found}; expected {DIGEST}")
        with tarfile.open(archive) as files:
            read = {member.name: files.extractfile(member).read() for member in files if member.isfile()}  # type: ignore[union-attr]
    fonts = {name: read[f"package/dist/fonts/KaTeX_{name}.woff2"] for name in FONTS}
    made = {
        "katex.min.js": read["package/dist/katex.min.js"],
        "katex.css": style(read["package/dist/katex.min.css"].decode(), fonts).encode(),
        "LICENSE-KaTeX.txt": read["package/LICENSE"],
    }
    for name, data in made.items():
        (ASSETS / name).write_bytes(data)
    sums = [f"{hashlib.sha256(made[name]).hexdigest()}  {name}\n" for name in MADE]
    (ASSETS / "SHA256SUMS").write_text(f"# KaTeX {VERSION}, by docs/explorer_assets.py\n{''.join(sums)}", newline="\n")


if __name__ == "__main__":
    main()
