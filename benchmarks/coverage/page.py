"""The page of tables: which tables are shown, in which order, and the sentence that each needs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from benchmarks.coverage.familywise import APART, BANDS, HOLM, RANKS
from benchmarks.coverage.tables import (
    BEGIN,
    CROSSED_TARGET,
    END,
    ENOUGH_CLUSTERS,
    ENOUGH_JUDGES,
    TARGET,
    Records,
    at_a_glance,
    by_level,
    by_method,
    by_schedule,
    by_warning,
    by_world,
    cross,
    families,
    misses,
    of_odds,
    of_world,
    share,
    sizes_of_tests,
    where,
)

BOUNDED = ("binary", "fraction")
# Expected scores from here on are a world of their own: with few clusters most logs show hardly any failure.
TOP = 0.98
ESTIMATORS = {"win_rate": "Win rates", "bradley_terry": "Bradley-Terry ratings"}
TESTS = ("default", "CR1 t(G-1)", "statsmodels")
BY_CLUSTERS = (
    "default",
    "CR2 logit",
    "CR2 Wald",
    "CR3 Satt.",
    "pyfixest",
    "statsmodels",
    "cluster bootstrap",
    "Miller eq. 1",
)
BOUNDED_TESTS = ("default", "CR2 Wald", *TESTS[1:])


def few_clusters(cell: dict[str, Any]) -> bool:
    """Whether a cell has fewer clusters than a target is set for."""
    return cell["parameters"]["G"] < ENOUGH_CLUSTERS


def few_judges(cell: dict[str, Any]) -> bool:
    """Whether a cell has fewer judges than a target is set for."""
    return cell["parameters"]["judges"] < ENOUGH_JUDGES


def one_way_section(title: str, records: Records, methods: tuple[str, ...]) -> list[str]:
    """Return the tables of a family with one clustering."""
    return [
        f"### {title}",
        "All cells; enough clusters is 10 or more; width is over the default's, as a geometric mean.",
        by_method(records, few_clusters),
        "The default by number and sizes of clusters, mean (worst cell):",
        cross(records, "G", "sizes"),
        "The default by what it warned of:",
        by_warning(records),
        f"Cells below {share(TARGET)}, and what comes nearer to .950 there:",
        misses(records, TARGET),
        "Sizes of tests of the truth, two-sided and on either side:",
        sizes_of_tests(records, "G", [method for method in methods if method in records[0]["methods"]]),
    ]


def bounded_section(records: Records) -> list[str]:
    """Return the tables of means of scores in [0, 1]."""
    many = where(records, G=lambda G: G >= ENOUGH_CLUSTERS)
    below_top = where(records, mean=lambda mean: mean < TOP)
    by_mean = [
        text
        for method in ("default", "Wilson", "Clopper-Pearson")
        for text in (f"{method}, by mean and number of clusters:", cross(records, "mean", "G", method))
    ]
    return [
        *one_way_section("Means of scores in [0, 1]", records, BOUNDED_TESTS),
        "All kinds of interval by number of clusters, mean (worst cell):",
        by_level(records, "G", [name for name in records[0]["methods"] if name in BY_CLUSTERS]),
        *by_mean,
        "The default with 10 or more clusters, by mean and intraclass correlation:",
        cross(many, "mean", "icc"),
        "The default with 10 or more clusters, by mean and kind of score:",
        cross(many, "mean", "scores"),
        f"All intervals, cells with a mean below {TOP} only:",
        by_method(below_top, few_clusters),
        "Sizes of tests with 10 or more clusters, by mean; the default's go by its interval:",
        sizes_of_tests(many, "mean", BOUNDED_TESTS[:3]),
    ]


def ends_section(records: Records) -> list[str]:
    """Return the tables of means near 0 or 1 that are no 0/1 trials."""
    names = ("default", "CR2 logit", "Clopper-Pearson", "CR2 Wald", "pyfixest")
    return [
        "### Means near 0 or 1 that are no 0/1 trials",
        "Scores that hardly vary (word error rates, toxicities), that are 0 but for a few, or .01 but for a few of .9; "
        "and 0/1 or fractional scores in clusters of 1 to 500 rows, or in three clusters. A level is the expected "
        "score, or the share of the rare rows. Enough clusters is 10 or more; width is over the default's.",
        by_method(records, few_clusters),
        "By kind of score, mean (worst cell):",
        by_level(records, "scores", names),
        "The default by sizes and number of clusters (single: independent rows), mean (worst cell):",
        cross(records, "sizes", "G"),
        "The default by what it warned of:",
        by_warning(records),
        f"Cells below {share(CROSSED_TARGET)}, and what comes nearer to .950 there:",
        misses(records, CROSSED_TARGET),
    ]


def crossed_section(records: Records) -> list[str]:
    """Return the tables of means under two crossed clusterings."""
    enough = where(records, judges=lambda judges: judges >= ENOUGH_JUDGES)
    by_judges = [
        text
        for method in ("default", "max, t(min G-1)", "two-term", "statsmodels")
        for text in (f"{method}, by judges and their share of the variance:", _cross(records, method))
    ]
    return [
        "### Prompts crossed with judges",
        "All cells; enough clusters is 5 or more judges; width is over the default's, as a geometric mean.",
        by_method(records, few_judges),
        *by_judges,
        "The default by what it warned of:",
        by_warning(records),
        f"Cells with 5 or more judges below {share(CROSSED_TARGET)}:",
        misses(enough, CROSSED_TARGET),
        "Sizes of tests of the truth with prompts and judges:",
        sizes_of_tests(records, "judges", ("default", "max, t(min G-1)", "statsmodels")),
    ]


def _cross(records: Records, method: str) -> str:
    return cross(records, "judges", "judge_share", method)


def bands_section(records: Records) -> list[str]:
    """Return the tables of statements about many models."""
    return [
        "### Many models at once",
        "Share of logs in which every statement of the family is true, mean (worst cell); for single intervals, the "
        "share of intervals.",
        families(records),
        "Bands by number of questions and models:",
        cross(records, "G", "models", "bands"),
    ]


FALSE = tuple((name, name, "false") for name in (HOLM, BANDS, RANKS))
FOUND = (
    *((f"found, {name}", name, "found") for name in (HOLM, BANDS)),
    *((f"false, {name}", name, "false") for name in (HOLM, RANKS)),
    (f"wrong direction, {HOLM}", HOLM, "wrong"),
)


def familywise_section(records: Records) -> list[str]:
    """Return the tables of false statements about pairs of models, and of true differences found."""
    return [
        "### Pairs of models under few judges",
        "Taste is the standard deviation of a judge's taste for a model over that of the noise of one score. Worlds "
        "without a name are means of scores; the others are leaderboards. No model is better than another: the share "
        "of logs in which any pair is decided, or a rank set leaves out the true rank. `Holm` and rank sets are the "
        "default's.",
        of_world(where(records, gap=0.0), FALSE),
        "Half of the models better by half the noise of a score (of a verdict, on leaderboards): the share of true "
        "differences found, and of logs with any false statement, or with one in the wrong direction.",
        of_world(where(records, gap=lambda gap: gap > 0), FOUND),
    ]


ALIKE = tuple((name, name, "false") for name in (HOLM, BANDS, RANKS, APART))
ALIKE_FOUND = tuple((f"found, {name}", name, "found") for name in (HOLM, BANDS, APART))


def alike_section(records: Records) -> list[str]:
    """Return the tables of judges that are taken to differ alike over models."""
    return [
        "### Judges taken to differ alike over models",
        'Leaderboards with `alike="judge"`. In graded ones the scores of comparisons are those of the worlds above; '
        "first is the taste for the first model over that for the others. The share of logs with any false statement "
        "where no model is better, and without `alike` beside it.",
        of_world(where(records, gap=0.0), ALIKE),
        "Half of the models better by half the noise of a score: the share of true differences found.",
        of_world(where(records, gap=lambda gap: gap > 0), ALIKE_FOUND),
    ]


def boards_section(records: Records) -> list[str]:
    """Return the tables of leaderboards."""
    parts = [
        "### Leaderboards",
        "Share of single intervals that hold the truth, over all models and logs of a world; one that a method does "
        "not give counts as a miss. The last columns are the shares of logs with a `SparseBoardWarning`, and of those "
        "that the estimator refuses altogether.",
    ]
    for estimator, title in ESTIMATORS.items():
        one_way = where(records, estimator=estimator, together=False, judges=1)
        crossed = where(records, estimator=estimator, together=False, judges=lambda judges: judges > 1)
        joint = where(records, estimator=estimator, together=True)
        if one_way:
            parts += [f"{title}, clustered by prompt:", by_world(one_way, ("schedule", "models", "prompts"))]
        if crossed:
            keys = ("schedule", "models", "prompts", "judges", "judge_sd")
            parts += [f"{title}, prompts crossed with judges:", by_world(crossed, keys)]
        if joint:
            parts += [f"{title}, statements about all models at once, by schedule and models:", by_schedule(joint)]
    return parts


def odds_section(records: Records) -> list[str]:
    """Return the table of odds and net benefits."""
    return [
        "### Win odds and net benefits",
        "Two models, of which one wins with the given rate: four comparisons of each prompt (intraclass correlation "
        ".3), or one by each of five judges (a tenth of the latent variance). Intervals of both models, over the logs "
        "that have them; odds are refused where a model won every comparison. By their errors: "
        '`conf_int(method="wald")`, as differences of odds are.',
        of_odds(records),
    ]


def unbiased(records: Records) -> str:
    """Whether estimates are right on average, so that what is missed is the interval's fault."""
    scores = [one["mean_error"] / one["sd"] * math.sqrt(one["n_logs"]) for one in records if "sd" in one]
    if not scores:
        return ""
    spread = math.sqrt(sum(score**2 for score in scores) / len(scores))
    return (
        f"Mean errors of the estimates over their own Monte-Carlo errors: {spread:.2f} on average (root mean square), "
        f"{max(map(abs, scores)):.1f} at most in {len(scores)} cells; 1 would be chance."
    )


def page(records: Records) -> str:
    """All tables as Markdown, without a heading above the third level."""
    n_logs = sorted({one["n_logs"] for one in records})
    errors = ", ".join(f"{math.sqrt(0.95 * 0.05 / n):.4f} with {n} logs" for n in n_logs)
    about = f"{len(records)} cells. Monte-Carlo standard error of a coverage of .95 in one cell: {errors}."
    parts = [" ".join([about, unbiased(records)])]
    bounded = where(records, family="means", scores=BOUNDED)
    unbounded = where(records, family="means", scores=("normal", "skewed"))
    families = [
        ("means of scores in [0, 1]", bounded, few_clusters, TARGET),
        ("means near 0 or 1", where(records, family="ends"), few_clusters, TARGET),
        ("means of scores without bounds", unbounded, few_clusters, TARGET),
        ("paired differences", where(records, family="differences"), few_clusters, TARGET),
        ("coefficients of regressions", where(records, family="regressions"), few_clusters, TARGET),
        ("prompts crossed with judges", where(records, family="crossed"), few_judges, CROSSED_TARGET),
    ]
    parts += [
        "### At a glance",
        f"Enough clusters is {ENOUGH_CLUSTERS} or more, {ENOUGH_JUDGES} or more judges; the target is {share(TARGET)}, "
        f"for crossed clusters {share(CROSSED_TARGET)}. The last columns are about clusters of one size, or complete "
        "grids.",
        at_a_glance([family for family in families if family[1]]),
    ]
    sections = [
        (bounded, bounded_section),
        (where(records, family="ends"), ends_section),
        (unbounded, lambda some: one_way_section("Means of scores without bounds", some, TESTS)),
        (where(records, family="differences"), lambda some: one_way_section("Paired differences", some, TESTS)),
        (
            where(records, family="regressions"),
            lambda some: [
                *one_way_section("Coefficients of regressions", some, TESTS),
                "The default by covariate and treated share, mean (worst cell):",
                cross(some, "target", "treated"),
                "The default with 10 or more clusters, by covariate and kind of score:",
                cross(where(some, G=lambda G: G >= ENOUGH_CLUSTERS), "target", "scores"),
            ],
        ),
        (where(records, family="crossed"), crossed_section),
        (where(records, family="bands"), bands_section),
        (where(records, family="familywise"), familywise_section),
        (where(records, family="alike"), alike_section),
        (where(records, family="boards"), boards_section),
        (where(records, family="odds"), odds_section),
    ]
    for some, section in sections:
        parts += section(some) if some else []
    return "\n\n".join(parts)


def put_into(path: Path, text: str) -> None:
    """Replace what stands between the two marks of a page."""
    before, _, rest = path.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    if not rest or END not in rest:
        raise SystemExit(f"{path} has no lines {BEGIN!r} and {END!r}, between which the tables go")
    path.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")
