"""Examples in docstrings as code on the pages of the reference: an extension of Griffe, which mkdocs.yml names."""

from __future__ import annotations

import re
from typing import Any

import griffe


class DocstringExamples(griffe.Extension):
    """Fences what begins with ``>>>`` and ends with an empty line."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Fence the examples of one docstring."""
        if obj.docstring is not None:
            obj.docstring.value = re.sub(
                r"^>>> .*?(?=\n[ \t]*\n|\Z)", r"```pycon\n\g<0>\n```", obj.docstring.value, flags=re.M | re.S
            )
