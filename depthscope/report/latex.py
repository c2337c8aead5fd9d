r"""LaTeX: text with its special characters escaped, and the catalogue's formulas as mathematics."""

from __future__ import annotations

import re

_ESCAPES = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "‖": r"$\Vert$",
    "√": r"$\surd$",
    "≥": r"$\geq$",
    "²": r"$^2$",
    "−": "$-$",
    "×": r"$\times$",
    "σ": r"$\sigma$",
    "α": r"$\alpha$",
    "–": "--",
    "…": r"\ldots{}",
    "|": r"\textbar{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
}
_WORDS = {
    "alpha": r"\alpha",
    "theta": r"\theta",
    "Phi": r"\Phi",
    "Pi": r"\Pi",
    "sum": r"\sum",
    "prod": r"\prod",
    "log": r"\log",
    "cos": r"\cos",
    "max": r"\max",
    "mean": r"\operatorname{mean}",
    "std": r"\operatorname{std}",
    "rms": r"\operatorname{rms}",
    "sigmoid": r"\operatorname{sigmoid}",
    "n_sources": r"n_{\mathrm{sources}}",
    "newest": r"\mathrm{newest}",
    "distance": r"\mathrm{distance}",
    "constant": r"\mathrm{constant}",
}
_MATHS = re.compile(
    r"dL/d|n_sources|[A-Za-z]+|\|\||->|_\{[^{}]*\}|_[A-Za-z0-9]+|\^-?\d+|[0-9.]+|[\s()+\-*/<>|,=\[\]]"
)


def escaped(text: str) -> str:
    """Return plain text as LaTeX shows it literally."""
    return "".join(_ESCAPES.get(character, character) for character in text)


def mathematics(formula: str) -> str:
    r"""Return a formula of the catalogue as inline mathematics: ``rms(f_l)`` is ``$\operatorname{rms}(f_{l})$``.

    What is said in words after a comma stays text; a formula with other words in it is returned as text.
    """
    words = re.search(r", (\w+ the part .*)", formula)
    if words is not None:
        return f"{mathematics(formula[: words.start()])}, {_said(words[1])}"
    made = _translated(formula)
    return escaped(formula) if made is None else f"${made}$"


def _said(text: str) -> str:
    """Return words in which symbols with an index, as ``h_{l+1}``, are mathematics."""
    parts = re.split(r"(\w+_(?:\{[^{}]*\}|\w+))", text)
    return "".join(mathematics(part) if place % 2 else escaped(part) for place, part in enumerate(parts))


def _translated(formula: str) -> str | None:
    text = formula
    place = 0
    out: list[str] = []
    open_norm = open_size = False
    while place < len(text):
        if text.startswith("sqrt(", place):
            end = _closing(text, place + 4)
            inner = _translated(text[place + 5 : end])
            if inner is None:
                return None
            out.append(rf"\sqrt{{{inner}}}")
            place = end + 1
            continue
        match = _MATHS.match(text, place)
        if match is None:
            return None
        token = match[0]
        place = match.end()
        if token == "dL/d":
            out.append(r"\partial L / \partial ")
        elif token == "||":
            out.append(r"\rVert" if open_norm else r"\lVert ")
            open_norm = not open_norm
        elif token == "|":
            out.append(r"\rvert" if open_size else r"\lvert ")
            open_size = not open_size
        elif token == "->":
            out.append(r"\to ")
        elif token == "<":
            out.append(r"\langle ")
        elif token == ">":
            out.append(r"\rangle ")
        elif token == "*":
            out.append(r"\circ ")
        elif token.startswith("_"):
            index = token[1:].strip("{}")
            inner = _WORDS.get(index, index.replace("->", r"\to "))
            out.append(f"_{{{inner}}}")
        elif token.startswith("^"):
            out.append(f"^{{{token[1:]}}}")
        elif token in _WORDS:
            out.append(_WORDS[token] + (" " if _WORDS[token][-1].isalpha() else ""))
        elif token.isalpha() and len(token) > 1:
            return None
        else:
            out.append(token)
    joined = re.sub(r" +", " ", "".join(out)).strip()
    return re.sub(r"(\\[A-Za-z]+) (?=[_^({])", r"\1", joined)


def _closing(text: str, opening: int) -> int:
    """Return the place of the parenthesis that closes the one at `opening`."""
    depth = 0
    for place in range(opening, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return place
    return len(text)
