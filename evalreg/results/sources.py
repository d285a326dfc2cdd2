"""The methods behind results in words, formulas and sources."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal, TypeAlias

from evalreg.checks import fraction, visible
from evalreg.data.clusters import axis_name
from evalreg.report.rendering import MarkupName, marked_up, named
from evalreg.report.sentences import interval_rule, reference_text
from evalreg.report.summaries import combined, score_kinds
from evalreg.report.tables import Texts, level_text
from evalreg.versions import version_of

# By p of (I - H)^-p: the formula of an adjustment, and where it comes from.
_ADJUSTED = {0.5: ("(I - H)^(-1/2)", "symmetric"), 1.0: ("(I - H)^(-1)", "left out")}
# Of crossed clusterings, by the rule that they go by: what half-widths are the root of.
_MEAN_T = "V times the mean of t^2 over the clusterings, weighted by their variances"
# By the rule of intervals: their formula.
_ENDS = {
    "on the logit scale": "interval of p: logit(p) -/+ t se / (p (1 - p)), put back by 1 / (1 + exp(-x))",
    "Fieller's": "interval of N / D: values h with |N - h D| <= t times the standard error of N - h D",
    "Woodruff's": "interval of a quantile: the quantiles at both ends of the interval of the share of values below it",
    "": "interval: estimate -/+ t se",
}
_WIDTHS = {
    "max": "the sum of t^2 V over the clusterings and what they share, and no less than fewer clusterings give",
    "two-term": "the sum of t^2 V over the clusterings",
}
# By the name of a source: how the titles of what it estimates begin.
_ESTIMATED = {
    "means": "means?( by|$)|difference|win rate",
    "ratings": "bradley-terry",
    "controlled": "controlled win rate",
    "rectified": "rectified",
}


@dataclass(frozen=True)
class Paper:
    """A paper, as its entry of BibTeX has it."""

    key: str
    entry: str

    def __getitem__(self, field: str) -> str:
        match = re.search(rf"^  {field} = \{{(.*)\}},$", self.entry, re.MULTILINE)
        return match[1].replace("\\&", "&").replace("--", "-") if match else ""

    @property
    def cited(self) -> str:
        """As a text names it: "Bell and McCaffrey (2002)"."""
        *others, last = [author.partition(",")[0] for author in self["author"].split(" and ")]
        return f"{', '.join(others)}{' and ' * bool(others)}{last} ({self['year']})"

    @property
    def in_brackets(self) -> str:
        """The same inside brackets: "Bell and McCaffrey 2002"."""
        return re.sub(r"[()]", "", self.cited)

    @property
    def text(self) -> str:
        """As a list of sources has it: "Bell and McCaffrey (2002), Survey Methodology 28, 169-181."."""
        where = f"{self['journal']} {self['volume']}, {self['pages']}" if self["journal"] else f"arXiv:{self['eprint']}"
        return f"{self.cited}, {where}."


@cache
def all_sources() -> dict[str, Paper]:
    """The papers of `sources.bib`, each under the name in the comment above it."""
    text = files("evalreg.report").joinpath("templates", "sources.bib").read_text(encoding="utf-8")
    entries = re.findall(r"^% ([^\n]+)\n(@\w+\{(\w+),\n.*?^\}\n)", text, re.MULTILINE | re.DOTALL)
    return {name: Paper(key, entry) for name, entry, key in entries}


# A sentence, and the names of its sources.
Cited: TypeAlias = tuple[str, Texts]


def methods_of(results: Any, alpha: float, ranked: bool) -> Texts:
    """A paragraph on what was estimated, and one on how sure it is."""
    return tuple(" ".join(text for text, _ in part) for part in _cited(results, alpha, ranked))


def _cited(results: Any, alpha: float, ranked: bool) -> list[list[Cited]]:
    """The sentences of both paragraphs with their sources."""
    return [_estimated(results), *([_together(level_text(alpha))] if ranked else [])]


def _estimated(results: Any) -> list[Cited]:
    """What was estimated, and its standard errors."""
    about, cov, model = results.estimate.about, results.cov, results.estimate.about.model.lower()
    options, names = cov.options, [named(axis_name(axis)) for axis in cov.axes]
    scored = cov.widths().scored
    formula = f", with the formula {named(about.formula)}" if about.formula else ""
    by = f"are clustered by {' and '.join(names)}" if names else "take rows to be independent"
    of_rows = ("rows", "finite rows")[: 1 + (options.cov in ("HC1", "HC2", "HC3"))]
    adjusted = (_ADJUSTED[options.kind.power][1],) if options.kind.power in _ADJUSTED else ()
    estimated = [name for name, start in _ESTIMATED.items() if re.match(start, model.removeprefix("contrast of "))]
    how = [line for line in about.lines if line.startswith(("A tie is", "Ties by", "Average predictions"))]
    sentences: list[Cited] = [
        (f"The estimates are: {about.model} of {named(about.outcome)}{formula}.", tuple(estimated)),
        *((line, ("davidson",) * ("Davidson" in line)) for line in how),
        (
            f"Standard errors {by} ({options.cov}; factor {options.factor_words}).",
            ("sandwich", *adjusted) if names else of_rows,
        ),
    ]
    rule = combined(cov)
    repair = ("repair",) * (rule in ("max", "two-term"))
    if cov.crossed:
        shared = ", and what they share is subtracted (inclusion-exclusion)" * (rule != "two-term")
        more = "no variance is below that of fewer clusterings" if rule == "max" else visible(cov.change)
        added = f"The variances of the clusterings are added{shared}{f'; {more}' if more else ''}."
        sentences.append((added, ("crossed",) * bool(shared) + repair))
    if cov.summed:
        from_design = ("satterthwaite",) * (options.dof == "satterthwaite")
        dof = "Satterthwaite degrees of freedom" if from_design else "number of clusters less one"
        text = f"Half-widths are the root of {_WIDTHS.get(rule, _MEAN_T)}; t has each clustering's {dof}."
        sentences.append((text, (*from_design, "banerjee", *repair)))
    elif options.dof == "satterthwaite":
        sentences.append(("Tests and intervals use t with Satterthwaite degrees of freedom.", ("satterthwaite",)))
    elif (reference := reference_text(cov.dof())) != "no degrees of freedom":
        sentences.append((f"Tests and intervals use {reference.replace('normal', 'the normal distribution')}.", ()))
    if scored is not None:
        kinds = tuple(name.split()[0].lower() for name in score_kinds(scored.null))
        text = "The variance grows towards the value tested, as in a score test"
        if scored.null.multiplied:
            granted = cov.paired if kinds == ("tango",) else cov.single
            assert granted is not None
            text += ", times a design effect in clusters; what they do not show is taken to have an intraclass "
            text += f"correlation of {granted.icc:g}"
            kinds += ("rao",)
        sentences.append((f"{text}.", kinds))
    elif ends := interval_rule(results.estimate, cov):
        sentences.append((f"Intervals are {ends}.", ()))
    return sentences


def _together(level: str) -> list[Cited]:
    """How sure statements about all models are."""
    return [
        (f"Joint intervals, sets of ranks and groups hold at {level} for all models at once.", ()),
        ("Joint intervals and p-values of pairs use the distribution of the largest of all statistics.", ("joint",)),
        ("With few clusters or very many models they are counted instead (Bonferroni).", ()),
        ("P-values that decide ranks and groups step down from there (Holm).", ()),
        ("A rank is open to a model unless it is separated from too many others.", ("ranks", "letters")),
        ("A higher score is taken to be better.", ()),
        ("The first of several models was also lucky, and is rated too high on average.", ()),
    ]


def formulas_of(results: Any, ranked: bool) -> Texts:
    """Formulas in plain text."""
    cov = results.cov
    lines = ["estimate - truth = sum over rows of u, each row's influence"]
    if not cov.axes:
        lines.append("V = sum over rows of u u'")
    else:
        adjusted, _ = _ADJUSTED.get(cov.options.kind.power, ("", ""))
        lines.append("V = sum over clusters g of t_g t_g', with t_g the sum of u in g")
        if adjusted:
            lines.append(f"before they are summed, the residuals of g are multiplied by {adjusted}, H its leverage")
    rule = combined(cov)
    if cov.crossed:
        lines.append(f"V = V_A + V_B{' - V_(A and B)' * (rule != 'two-term')} for two clusterings, and so on for more")
    if cov.summed:
        ends = {"max": " - t_AB^2 V_(A and B), and no less than t^2 V of one", "two-term": ""}
        lines.append(f"half-width H: H^2 = t_A^2 V_A + t_B^2 V_B{ends.get(rule, ', times V / (V_A + V_B)')}")
    if cov.widths().scored is not None:
        lines.append("interval: values x with |estimate - x| <= t root V(x), V(x) = V + E (v(x) - v(estimate)) / n")
    elif (of_ends := interval_rule(results.estimate, cov)) in _ENDS:
        lines.append(_ENDS[of_ends])
    if ranked:
        lines.append("joint: c in place of t, with P(max over models of |T| <= c) = 1 - alpha")
    return tuple(lines)


def sources_of(results: Any, ranked: bool) -> Texts:
    """Where these come from."""
    return tuple(all_sources()[name].text for name in source_names(results, ranked))


def source_names(results: Any, ranked: bool) -> Texts:
    """The sources of all sentences, in their order."""
    parts = _cited(results, 0.05, ranked)
    return tuple(dict.fromkeys(name for part in parts for _, names in part for name in names))


def methods_text(results: Any, alpha: float, markup: MarkupName | Literal["bibtex"], more: Texts = ()) -> str:
    """The methods in a markup with what they cite: a list of sources below, or keys of BibTeX in LaTeX; or BibTeX."""
    ranked, level = results.estimate.about.n_models > 1, fraction("alpha", alpha)
    papers = [all_sources()[name] for name in source_names(results, ranked)]
    if markup == "bibtex":
        return "\n".join(paper.entry for paper in papers)
    parts = _cited(results, level, ranked)
    software = f"Computed with evalreg {version_of('evalreg')} and statsmodels {version_of('statsmodels')}."
    parts[0] += [(text, ()) for text in (*more, software)]
    paragraphs = [" ".join(_with_sources(sentence, names, markup) for sentence, names in part) for part in parts]
    if markup == "latex":
        return "\n\n".join(paragraphs)
    mark = "" if markup == "text" else "- "
    listed = [mark + marked_up(paper.text, markup) for paper in papers]
    if markup == "html":
        items = "".join(f"<li>{line.removeprefix(mark)}</li>" for line in listed)
        return "".join(f"<p>{text}</p>\n" for text in paragraphs) + f"<ul>{items}</ul>"
    return "\n\n".join([*paragraphs, "\n".join(listed)])


def _with_sources(sentence: str, names: Texts, markup: MarkupName) -> str:
    """A sentence with its sources before the point."""
    if not names:
        return marked_up(sentence, markup)
    body, point = marked_up(sentence.removesuffix("."), markup), "." if sentence.endswith(".") else ""
    if markup == "latex":
        return f"{body}~\\cite{{{','.join(all_sources()[name].key for name in names)}}}{point}"
    brackets = "; ".join(all_sources()[name].in_brackets for name in names)
    return f"{body} ({marked_up(brackets, markup)}){point}"
