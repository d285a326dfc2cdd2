"""What summaries say of 10 to 29 clusters."""

from __future__ import annotations

import pytest

import evalreg as er

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
RULE = "fewer than the 30 of a usual rule"


@pytest.mark.parametrize(("n_clusters", "said"), [(9, False), (10, True), (29, True), (30, False)])
def test_10_to_29_clusters_have_one_line(n_clusters, said):
    log = er.datasets.paired(n_passages=n_clusters, questions_per_passage=4, seed=1)
    for results in (
        er.mean(log, by="model", item="question", groups="passage"),
        er.fit("score ~ 1", log, groups="passage"),
    ):
        assert sum(RULE in line for line in results.summary(details=True).sentences) == said
    comparison = er.compare(log, item="question", groups="passage")
    text = " ".join(comparison.summary(details=True).as_text().split())
    assert (f"{n_clusters} passage clusters: {RULE}. CR2 and its Satterthwaite" in text) == said
    if said:
        assert "`wild_test` checks a result without them" in text
        comparison.results.wild_test("`new - old` = 0", draws=99)


def test_the_line_speaks_of_the_covariance_that_is_there():
    log = er.datasets.paired(n_passages=20, questions_per_passage=4, seed=1)
    other = er.mean(log, by="model", item="question", groups="passage", cov="CR1").summary(details=True).as_text()
    assert 'cov="CR2" with its' in " ".join(other.split())
    quantile = er.quantile(log.assign(score=log.index % 89 * 1.0), by="model", groups="passage", q=0.5)
    line = next(line for line in quantile.summary(details=True).sentences if RULE in line)
    assert "wild_test" not in line
    coefficients, dependence, _ = er.fit("score ~ model", log, groups="passage").summary(details=True).grids
    assert [row[0] for row in coefficients.rows] == [row[0] for row in dependence.rows]
