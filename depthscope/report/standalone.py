"""A figure as one HTML file: plotly.js inside, nothing is loaded, nothing can be uploaded."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape

import plotly.io

from depthscope.figures import FIGURES, Panel, drawn_figure, sampled_words, theme
from depthscope.report.caption import letters_of
from depthscope.report.errors import ExportError

CONFIG = {
    "displaylogo": False,
    "showSendToCloud": False,  # on by default in plotly 7: it uploads the data
    "plotlyServerURL": "",
    "responsive": True,
    "toImageButtonOptions": {"format": "svg"},
}
_STYLE = """body {{ margin: 24px auto; max-width: 1100px; padding: 0 16px; font: {font}; color: {text};
  background: {surface}; }}
h1 {{ font-size: 18px; }} h2 {{ font-size: 14px; margin: 24px 0 0; }}
small {{ font-size: 13px; font-weight: 400; color: {muted}; }} p {{ max-width: 80ch; }}
.panel {{ height: 420px; }} a {{ color: {accent}; }}"""


def html_bytes(
    name: str,
    panels: Mapping[str, Panel],
    *,
    title: str,
    caption: Sequence[str],
    csv: bytes,
    slots: Mapping[str, int],
    log: bool = True,
) -> bytes:
    """Return the page: a heading, each panel as an interactive chart, the caption, and the numbers as a link.

    ExportError for a figure that has no interactive form.
    """
    parts = []
    letters = letters_of(name, panels)
    for place, (key, panel) in enumerate(panels.items()):
        if panel.figure not in FIGURES:
            raise ExportError(f"figure {name!r} has no interactive form; expected .pdf, .svg, .png or .csv")
        figure = drawn_figure(panel.figure, panel.data, log=log, slots=slots)
        chart = plotly.io.to_html(
            figure,
            config=CONFIG,
            include_plotlyjs=place == 0,
            include_mathjax=False,
            full_html=False,
            div_id=f"panel-{place + 1}",
            default_height="420px",
        )
        title_of = str(panel.data.attributes["title"])
        note = "; ".join(filter(None, (str(panel.data.attributes["note"]), sampled_words(panel.data))))
        heading = f"({letters[key]}) {title_of}" if key in letters else title_of
        heading = f"{escape(heading)} <small>{escape(note)}</small>"
        parts.append(f"<h2>{heading}</h2>\n<div class='panel' id='{escape(key)}'>{chart}</div>")
    light = theme("light")
    style = _STYLE.format(
        font=light["text-13"].replace("var(--font)", light["font"]),
        text=light["text"],
        muted=light["text-secondary"],
        surface=light["surface"],
        accent=light["accent"],
    )
    numbers = base64.b64encode(csv).decode("ascii")
    page = f"""<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>{escape(title)}</title>
<link rel="icon" href="data:,">
<style>{style}</style></head>
<body>
<h1>{escape(title)}</h1>
{"".join(parts)}
<p>{escape(" ".join(caption))}</p>
<p><a download="{escape(name)}.csv" href="data:text/csv;base64,{numbers}">The numbers, as CSV</a></p>
</body>
</html>
"""
    return page.encode()
