"""The methods behind results in words, formulas and sources."""

from __future__ import annotations

from typing import Any

from evalreg.data.clusters import axis_name
from evalreg.report.pages import named

_BOUNDED = "Intervals are built on the logit scale, so that they stay between 0 and 1"
_SOURCES = {
    "means": "Miller (2024), Adding Error Bars to Evals, arXiv:2411.00640.",
    "ratings": "Bradley and Terry (1952), Biometrika 39, 324-345.",
    "sandwich": "Liang and Zeger (1986), Biometrika 73, 13-22.",
    "rows": "White (1980), Econometrica 48, 817-838.",
    "symmetric": "Bell and McCaffrey (2002), Survey Methodology 28, 169-181.",
    "satterthwaite": "Pustejovsky and Tipton (2018), Journal of Business & Economic Statistics 36, 672-683.",
    "left out": "MacKinnon, Nielsen and Webb (2023), Journal of Applied Econometrics 38, 671-694.",
    "crossed": "Cameron, Gelbach and Miller (2011), Journal of Business & Economic Statistics 29, 238-249.",
    "repair": "MacKinnon, Nielsen and Webb (2024), arXiv:2406.08880.",
    "joint": "Hothorn, Bretz and Westfall (2008), Biometrical Journal 50, 346-363.",
    "ranks": "Mogstad, Romano, Shaikh and Wilhelm (2024), Review of Economic Studies 91, 476-518.",
    "letters": "Piepho (2004), Journal of Computational and Graphical Statistics 13, 456-466.",
}


# By p of (I - H)^-p: the formula of an adjustment, and where it comes from.
_ADJUSTED = {0.5: ("(I - H)^(-1/2)", "symmetric"), 1.0: ("(I - H)^(-1)", "left out")}


def methods_of(results: Any, alpha: float, ranked: bool) -> tuple[str, ...]:
    """A paragraph on what was estimated, and one on how sure it is."""
    about, cov = results.estimate.about, results.cov
    options, names = cov.options, [named(axis_name(axis)) for axis in cov.axes]
    level = f"{100 * (1 - alpha):.4g}%"
    formula = f", with the formula {named(about.formula)}" if about.formula else ""
    sentences = [f"The estimates are: {about.model} of {named(about.outcome)}{formula}."]
    if names:
        twice = "The variances of the clusterings are added, and what they share is subtracted (inclusion-exclusion)."
        sentences.append(
            f"Standard errors are clustered by {' and '.join(names)} ({options.cov}; factor {options.factor_words})."
        )
        sentences += [twice] if cov.crossed else []
    else:
        sentences.append(f"Standard errors take rows to be independent ({options.cov}; factor {options.factor_words}).")
    if options.dof == "satterthwaite":
        sentences.append("Tests and intervals use t with Satterthwaite degrees of freedom.")
    elif options.dof == "normal":
        sentences.append("Tests and intervals use the normal distribution.")
    elif names:
        sentences.append("Tests and intervals use t with the number of clusters less one as degrees of freedom.")
    if results.estimate.bounded and about.interval != "wald":
        sentences.append(f"{_BOUNDED}.")
    if not ranked:
        return (" ".join(sentences),)
    together = (
        f"Joint intervals, sets of ranks and groups hold at {level} for all models at once. Joint intervals and the "
        "p-values of pairs use the distribution of the largest of all statistics under their estimated covariance. "
        "With few clusters, p-values of pairs, ranks and groups go on from there step by step (Holm). A rank is open "
        "to a model unless it is separated from too many others. A higher score is taken to be better. "
        "The first of several models was also lucky, and is rated too high on average."
    )
    return (" ".join(sentences), together)


def formulas_of(results: Any, ranked: bool) -> tuple[str, ...]:
    """Formulas in plain text."""
    cov = results.cov
    found = ["estimate - truth = sum over rows of u, each row's influence"]
    if not cov.axes:
        found.append("V = sum over rows of u u'")
    else:
        adjusted, _ = _ADJUSTED.get(cov.options.kind.power, ("", ""))
        found.append("V = sum over clusters g of t_g t_g', with t_g the sum of u in g")
        if adjusted:
            found.append(f"before they are summed, the residuals of g are multiplied by {adjusted}, H its leverage")
    if cov.crossed:
        found.append("V = V_A + V_B - V_(A and B) for two clusterings, and so on for more")
    if results.estimate.bounded and results.estimate.about.interval != "wald":
        found.append("interval of p: logit(p) -/+ t se / (p (1 - p)), put back by 1 / (1 + exp(-x))")
    else:
        found.append("interval: estimate -/+ t se")
    if ranked:
        found.append("joint: c in place of t, with P(max over models of |T| <= c) = 1 - alpha")
    return tuple(found)


def sources_of(results: Any, ranked: bool) -> tuple[str, ...]:
    """Where these come from."""
    about, cov = results.estimate.about, results.cov
    names: list[str] = []
    if results.estimate.kind == "mean" or "win rate" in about.model.lower():
        names.append("means")
    if "bradley" in about.model.lower():
        names.append("ratings")
    names.append("sandwich" if cov.axes else "rows")
    names += [source for power, (_, source) in _ADJUSTED.items() if power == cov.options.kind.power]
    names += ["satterthwaite"] if cov.options.dof == "satterthwaite" else []
    names += ["crossed", "repair"] if cov.crossed else []
    names += ["joint", "ranks", "letters"] if ranked else []
    return tuple(_SOURCES[name] for name in names)
