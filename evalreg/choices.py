"""The choices that options have: their names, as types."""

from __future__ import annotations

from typing import Literal, TypeAlias, TypedDict, get_args

CovName: TypeAlias = Literal["naive", "HC0", "HC1", "HC2", "HC3", "CR0", "CR1", "CR2", "CR3", "jackknife"]
SscName: TypeAlias = Literal["statsmodels", "fixest", "sandwich", "G", "none"]
DofName: TypeAlias = Literal["satterthwaite", "min", "normal"]
RepairName: TypeAlias = Literal["max", "eigen", "two-term", "none"]
MissingName: TypeAlias = Literal["drop", "raise"]
OpponentsName: TypeAlias = Literal["uniform", "as_sampled"]
TiesName: TypeAlias = Literal["half", "davidson"]
ScaleName: TypeAlias = Literal["logit", "elo"]
IntervalName: TypeAlias = Literal["wald", "logit", "wilson", "clopper-pearson", "jeffreys"]
FamilyName: TypeAlias = Literal["gaussian", "binomial", "poisson"]
StrataWeightsName: TypeAlias = Literal["micro", "macro", "as_sampled"]
TargetName: TypeAlias = Literal["questions like these", "the full benchmark"]
QuestionsName: TypeAlias = Literal["own", "shared"]

COVS: tuple[CovName, ...] = get_args(CovName)
SSCS: tuple[SscName, ...] = get_args(SscName)
DOFS: tuple[DofName, ...] = get_args(DofName)
REPAIRS: tuple[RepairName, ...] = get_args(RepairName)
FULL: TargetName = "the full benchmark"


class EstimatorOptions(TypedDict, total=False):
    """Keywords of every estimator, None where left out: the rows to choose, and how the covariance is estimated."""

    subset: str | None
    cov: CovName | None
    ssc: SscName | None
    dof: DofName | float | None
    repair: RepairName | None


class BoardOptions(EstimatorOptions, total=False):
    """Those of estimators of comparisons."""

    alike: str | None
