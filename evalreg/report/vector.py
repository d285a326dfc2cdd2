"""Figures as SVG inside a page: text as text, colours of the page, and nothing that acts."""

from __future__ import annotations

import io
import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from evalreg.report.canvas import BLUE, GRID, INK, MUTED, pyplot
from evalreg.report.tables import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Colours that follow the page, light or dark.
_THEMED = {INK: "currentColor", GRID: "var(--grid)", BLUE: "var(--mark)", MUTED: "var(--muted)"}
_THEMED |= {"#ffffff": "var(--page)"}
# Elements that a figure is made of; all others are left out.
_KEPT = {"svg", "g", "path", "defs", "clipPath", "rect", "use", "text", "tspan", "image", "pattern"}
# What matplotlib has in `<style>`, which would hold for the whole page.
_LOOK = {"stroke-linejoin": "round", "stroke-linecap": "butt"}
# The fonts of a text, which matplotlib names at each; newer and older ways.
_FONTS = re.compile(r"font-family: ([^;]*);? ?|(?<=px )('[^;]*)")
# Dots that are drawn as one line; and the attributes of a dot.
MANY_DOTS, _PLACE = 30, {"href", "x", "y"}


@dataclass(frozen=True)
class InlineFigure:
    """A figure as markup that needs nothing beside it, and the note that stood below it."""

    svg: str
    note: str


def drawn(ax: Axes, title: str, name: str, *, themed: bool = True) -> InlineFigure:
    """The figure of axes, which is closed. `name` begins its ids, `themed` gives it the colours of the page."""
    figure: Any = ax.figure
    plt = pyplot()
    try:
        note = " ".join(str(text.get_label()) for text in figure.texts)
        for text in list(figure.texts):
            text.remove()
        stood_for = _stand_ins(figure)
        buffer = io.StringIO()
        with plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": "evalreg"}):
            metadata = {"Date": None, "Creator": None}
            # A little more than none, or letters that are wider here than in the reader's font are cut.
            options: dict[str, Any] = {"bbox_inches": "tight", "pad_inches": 0.08, "transparent": themed}
            figure.savefig(buffer, format="svg", metadata=metadata, **options)
    finally:
        plt.close(figure)
    return InlineFigure(_inlined(buffer.getvalue(), title, name, stood_for, themed), note)


def _stand_ins(figure: Any) -> dict[str, str]:
    """What stands for lines of other scripts while they are laid out, for which the font may have no letters.

    Their texts come back afterwards. The stand-ins are about as wide, so that nothing is cut or drawn over.
    """
    from matplotlib.text import Text

    found: dict[str, str] = {}

    def stand_in(text: str) -> str:
        return "\n".join(_stand_in(line, found) if _is_foreign(line) else line for line in text.split("\n"))

    for ax in figure.axes:
        for axis in (ax.xaxis, ax.yaxis):
            labels = [label.get_text() for label in axis.get_majorticklabels()]
            if any(map(_is_foreign, labels)):
                axis.set_ticklabels([stand_in(label) for label in labels])
    for text in figure.findobj(Text):
        if _is_foreign(text.get_text()):
            text.set_text(stand_in(text.get_text()))
    return found


def _stand_in(line: str, found: dict[str, str]) -> str:
    """Letters that the font has, told apart by a number, about as wide as a line."""
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in line)
    number = f"{len(found)}:"
    # A W is a little narrower than a letter that is as wide as it is high.
    key = number + "W" * wide + "n" * max(len(line) - wide - len(number) + (wide + 39) // 40, 0)
    found[key] = visible(line)
    return key


def _is_foreign(text: str) -> bool:
    """Whether a text holds letters that matplotlib's own font may not have."""
    return any(
        (letter > "\u024f" and not "\u2030" <= letter <= "\u22ff")
        or (letter < " " and letter != "\n")
        or "\x7f" <= letter <= "\x9f"
        for letter in text
    )


def _inlined(svg: str, title: str, name: str, stood_for: dict[str, str], themed: bool) -> str:
    """The markup as a part of a page: no prologue, own ids, only elements that draw."""
    # Control characters are no XML; a label may hold them.
    text = visible(svg, keep="\n\t\r")
    root = ElementTree.fromstring(text[text.index("<svg") :])
    used = set(re.findall(r"#([\w.-]+)", svg))
    # Of elements, not of the markup, whose comments hold labels.
    styles = (part.get("style", "") for part in root.iter() if part.tag.endswith("text"))
    fonts = next(filter(None, map(_FONTS.search, styles)), None)
    _clean(root, name, used, stood_for, themed)
    _shorten(root)
    width, height = (root.attrib.pop(side).removesuffix("pt") for side in ("width", "height"))
    root.attrib.update(role="img", style=f"width: {float(width):.0f}pt; aspect-ratio: {width} / {height}")
    if fonts:
        root.attrib["style"] += f"; font-family: {fonts[1] or fonts[2]}"
    root.set("aria-labelledby", f"{name}-title")
    heading = ElementTree.Element("title", id=f"{name}-title")
    heading.text = visible(title)
    root.insert(0, heading)
    return ElementTree.tostring(root, encoding="unicode")


def _clean(element: Any, name: str, used: set[str], stood_for: dict[str, str], themed: bool) -> None:
    element.tag = element.tag.rpartition("}")[2]
    element.attrib = {key.rpartition("}")[2]: value for key, value in element.attrib.items()}
    attributes = element.attrib
    if attributes.get("id") in used:
        attributes["id"] = f"{name}-{attributes['id']}"
    else:
        attributes.pop("id", None)
    for key, value in list(attributes.items()):
        own = re.sub(r"(^|url\()#", rf"\1#{name}-", value) if key in ("href", "clip-path", "style", "fill") else value
        if key == "style" and themed:
            own = re.sub(r"#[0-9a-f]{6}\b", lambda found: _THEMED.get(found[0], found[0]), own)
        attributes[key] = own
    for key in {"d", "x", "y"} & set(attributes):
        # A hundredth of a point is not seen.
        attributes[key] = re.sub(r"(\.\d\d)\d+", r"\1", " ".join(attributes[key].split()))
    if element.text is not None:
        element.text = stood_for.get(element.text, element.text) if element.text.strip() else None
    element.tail = None
    for child in list(element):
        if str(child.tag).rpartition("}")[2] not in _KEPT:
            element.remove(child)
        else:
            _clean(child, name, used, stood_for, themed)


def _shorten(element: Any) -> None:
    """Say once what many parts share, and leave out what draws nothing."""
    for child in list(element):
        _shorten(child)
        if child.tag == "g" and not len(child) and not child.attrib:
            element.remove(child)
    attributes = element.attrib
    if element.tag == "text" and "style" in attributes:
        attributes["style"] = _FONTS.sub(lambda found: "" if found[1] else "inherit", attributes["style"])
        if attributes.get("transform", "").startswith("rotate(-0 "):
            del attributes["transform"]
    styles = {child.get("style") for child in element} if all(child.tag == "use" for child in element) else set()
    if len(styles) == 1 and len(element) > 1 and "style" not in attributes and (style := styles.pop()):
        attributes["style"] = style
        for child in element:
            del child.attrib["style"]
    if len(element) == 2 and element[0].tag == "defs" and len(element[1]) >= MANY_DOTS and "style" in element[1].attrib:
        _as_one_line(element)


def _as_one_line(element: Any) -> None:
    """Many round dots without an edge as one line of dots, a quarter as long."""
    marks, dots = element
    found = re.fullmatch(r"M 0 ([\d.]+)( C[-\d. ]+){8} z", marks[0].get("d", "")) if len(marks) == 1 else None
    colour = re.fullmatch(r"fill: ([^;]+)", dots.get("style"))
    if found is None or colour is None or marks[0].get("style") or any(set(dot.keys()) != _PLACE for dot in dots):
        return
    line = "".join(f"M{dot.get('x')} {dot.get('y')}h0" for dot in dots)
    look = f"fill: none; stroke: {colour[1]}; stroke-width: {2 * float(found[1]):g}; stroke-linecap: round"
    clip = {key: value for key, value in dots.attrib.items() if key == "clip-path"}
    element[:] = [ElementTree.Element("path", {"d": line, "style": look} | clip)]
