"""Sources of the methods: as they are named in a text, and as BibTeX."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Paper:
    """A paper."""

    key: str  # in BibTeX
    cited: str  # "Miller (2024)"
    where: str  # journal, volume and pages, as a list of sources has them
    authors: str  # as BibTeX has them
    title: str
    fields: tuple[tuple[str, str], ...]  # further ones of BibTeX

    @property
    def text(self) -> str:
        """The source in a list."""
        return f"{self.cited}, {self.where}."

    @property
    def in_brackets(self) -> str:
        """The source inside brackets: "Miller 2024"."""
        return self.cited.replace("(", "").replace(")", "")

    def bib(self) -> str:
        """The entry of BibTeX."""
        kind = "article" if dict(self.fields).get("journal") else "misc"
        year = self.cited.rpartition("(")[2].rstrip(")")
        entries = (("author", self.authors), ("title", f"{{{self.title}}}"), ("year", year), *self.fields)
        lines = "".join(f"  {name} = {{{value}}},\n" for name, value in entries)
        return f"@{kind}{{{self.key},\n{lines}}}\n"


def _article(journal: str, volume: str, number: str, pages: str, doi: str = "") -> tuple[tuple[str, str], ...]:
    found = (("journal", journal), ("volume", volume), ("number", number), ("pages", pages.replace("-", "--")))
    return (*found, ("doi", doi)) if doi else found


def _preprint(number: str) -> tuple[tuple[str, str], ...]:
    return (("eprint", number), ("archiveprefix", "arXiv"), ("url", f"https://arxiv.org/abs/{number}"))


_JBES = "Journal of Business & Economic Statistics"
_JBES_BIB = r"Journal of Business \& Economic Statistics"
_MNW = "MacKinnon, James G. and Nielsen, Morten {\\O}rregaard and Webb, Matthew D."

SOURCES = {
    "means": Paper(
        "miller2024",
        "Miller (2024)",
        "Adding Error Bars to Evals, arXiv:2411.00640",
        "Miller, Evan",
        "Adding Error Bars to Evals: A Statistical Approach to Language Model Evaluations",
        _preprint("2411.00640"),
    ),
    "ratings": Paper(
        "bradley1952",
        "Bradley and Terry (1952)",
        "Biometrika 39, 324-345",
        "Bradley, Ralph Allan and Terry, Milton E.",
        "Rank Analysis of Incomplete Block Designs: I. The Method of Paired Comparisons",
        _article("Biometrika", "39", "3/4", "324-345"),
    ),
    "sandwich": Paper(
        "liang1986",
        "Liang and Zeger (1986)",
        "Biometrika 73, 13-22",
        "Liang, Kung-Yee and Zeger, Scott L.",
        "Longitudinal Data Analysis Using Generalized Linear Models",
        _article("Biometrika", "73", "1", "13-22"),
    ),
    "rows": Paper(
        "white1980",
        "White (1980)",
        "Econometrica 48, 817-838",
        "White, Halbert",
        "A Heteroskedasticity-Consistent Covariance Matrix Estimator and a Direct Test for Heteroskedasticity",
        _article("Econometrica", "48", "4", "817-838"),
    ),
    "symmetric": Paper(
        "bell2002",
        "Bell and McCaffrey (2002)",
        "Survey Methodology 28, 169-181",
        "Bell, Robert M. and McCaffrey, Daniel F.",
        "Bias Reduction in Standard Errors for Linear Regression with Multi-Stage Samples",
        _article("Survey Methodology", "28", "2", "169-181"),
    ),
    "satterthwaite": Paper(
        "pustejovsky2018",
        "Pustejovsky and Tipton (2018)",
        f"{_JBES} 36, 672-683",
        "Pustejovsky, James E. and Tipton, Elizabeth",
        "Small-Sample Methods for Cluster-Robust Variance Estimation and Hypothesis Testing in Fixed Effects Models",
        _article(_JBES_BIB, "36", "4", "672-683"),
    ),
    "banerjee": Paper(
        "banerjee1960",
        "Banerjee (1960)",
        "Sankhya 22, 359-362",
        "Banerjee, Saibal Kumar",
        "Approximate Confidence Interval for Linear Functions of Means of k Populations When the Population Variances "
        "Are Not Equal",
        _article("Sankhya", "22", "3/4", "359-362"),
    ),
    "wilson": Paper(
        "wilson1927",
        "Wilson (1927)",
        "Journal of the American Statistical Association 22, 209-212",
        "Wilson, Edwin B.",
        "Probable Inference, the Law of Succession, and Statistical Inference",
        _article("Journal of the American Statistical Association", "22", "158", "209-212"),
    ),
    "tango": Paper(
        "tango1998",
        "Tango (1998)",
        "Statistics in Medicine 17, 891-908",
        "Tango, Toshiro",
        "Equivalence Test and Confidence Interval for the Difference in Proportions for the Paired-Sample Design",
        _article("Statistics in Medicine", "17", "8", "891-908"),
    ),
    "rao": Paper(
        "rao1992",
        "Rao and Scott (1992)",
        "Biometrics 48, 577-585",
        "Rao, J. N. K. and Scott, A. J.",
        "A Simple Method for the Analysis of Clustered Binary Data",
        _article("Biometrics", "48", "2", "577-585"),
    ),
    "left out": Paper(
        "mackinnon2023",
        "MacKinnon, Nielsen and Webb (2023)",
        "Journal of Applied Econometrics 38, 671-694",
        _MNW,
        "Fast and Reliable Jackknife and Bootstrap Methods for Cluster-Robust Inference",
        _article("Journal of Applied Econometrics", "38", "5", "671-694"),
    ),
    "crossed": Paper(
        "cameron2011",
        "Cameron, Gelbach and Miller (2011)",
        f"{_JBES} 29, 238-249",
        "Cameron, A. Colin and Gelbach, Jonah B. and Miller, Douglas L.",
        "Robust Inference With Multiway Clustering",
        _article(_JBES_BIB, "29", "2", "238-249"),
    ),
    "repair": Paper(
        "mackinnon2024",
        "MacKinnon, Nielsen and Webb (2024)",
        "arXiv:2406.08880",
        _MNW,
        "Jackknife Inference with Two-Way Clustering",
        _preprint("2406.08880"),
    ),
    "joint": Paper(
        "hothorn2008",
        "Hothorn, Bretz and Westfall (2008)",
        "Biometrical Journal 50, 346-363",
        "Hothorn, Torsten and Bretz, Frank and Westfall, Peter",
        "Simultaneous Inference in General Parametric Models",
        _article("Biometrical Journal", "50", "3", "346-363"),
    ),
    "ranks": Paper(
        "mogstad2024",
        "Mogstad, Romano, Shaikh and Wilhelm (2024)",
        "Review of Economic Studies 91, 476-518",
        "Mogstad, Magne and Romano, Joseph P. and Shaikh, Azeem M. and Wilhelm, Daniel",
        "Inference for Ranks with Applications to Mobility across Neighbourhoods and Academic Achievement across "
        "Countries",
        _article("Review of Economic Studies", "91", "1", "476-518"),
    ),
    "letters": Paper(
        "piepho2004",
        "Piepho (2004)",
        "Journal of Computational and Graphical Statistics 13, 456-466",
        "Piepho, Hans-Peter",
        "An Algorithm for a Letter-Based Representation of All-Pairwise Comparisons",
        _article("Journal of Computational and Graphical Statistics", "13", "2", "456-466"),
    ),
}


def bibliography_of(names: Iterable[str]) -> str:
    """The entries of these sources, one below the other."""
    return "\n".join(SOURCES[name].bib() for name in names)
