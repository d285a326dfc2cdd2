"""What a formula may say, and that nothing else of it is ever run."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

import evalreg as er
from evalreg.cli.main import main
from evalreg.data.formula import NUMPY, without_backticks
from evalreg.errors import EvalregError, FormulaError, MissingColumnError

# Formulas are tried on few rows, of which some levels have a handful.
pytestmark = pytest.mark.filterwarnings("ignore:.*on few of the rows:evalreg.errors.FewClustersWarning")

SAME = 1e-9


@pytest.fixture
def log(rng):
    n = 120
    return pd.DataFrame(
        {
            "score": rng.normal(size=n),
            "x": rng.uniform(1, 3, n),
            "z": rng.normal(size=n),
            "k": rng.integers(0, 4, n),
            "model": rng.choice(["ada", "bob", "cyd"], n),
            "a name": rng.normal(size=n),
            'say "hi"': rng.normal(size=n),
            "passage": np.arange(n) // 6,
        }
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A file with the columns of that log."""
    path = tmp_path_factory.mktemp("grammar") / "log.csv"
    path.write_text("score,x,z,k,model,a name,passage\n0.5,1,2,3,ada,1,1\n0.25,2,1,0,bob,2,1\n")
    return path


# Each would write the file if it were run.
HOSTILE = [
    "I(__import__('os').system('touch {0}'))",
    "I(open('{0}', 'w').write('x'))",
    "exit()",
    "quit()",
    "I(exit())",
    'I(eval(\'open("{0}", "w")\'))',
    "I(exec('x = 1'))",
    "np.save('{0}', x)",
    "np.savetxt('{0}', x)",
    "x.to_csv('{0}')",
    "I(x.tofile('{0}'))",
    "I(x.values.tofile('{0}'))",
    "np.load('{0}')",
    "np.fromfile('{0}')",
    "np.frompyfunc(print, 1, 1)(x)",
    "np.vectorize(print)(x)",
    "np.apply_along_axis(exit, 0, x)",
    "np.core.os.system('touch {0}')",
    "np.f2py.os.system('touch {0}')",
    "np.__builtins__",
    "np.log.__class__",
    "np.log.reduce(x)",
    "np.add.at(x, 0, 1)",
    "np.add(x, 1, x)",
    "np.add(x, 1, out=x)",
    "np.log(x, x)",
    "np.where(x > 1, where=x)",
    "().__class__",
    "I(().__class__.__base__.__subclasses__())",
    "I(x.__class__)",
    "I((lambda: open('{0}', 'w'))())",
    "I([open('{0}', 'w') for _ in [1]])",
    "I({{open('{0}', 'w') for _ in [1]}})",
    "I(sum(open('{0}', 'w') for _ in [1]))",
    "I((y := x))",
    "I(f'{{x}}')",
    "I(x if True else z)",
    "I(x and z)",
    "I(not x)",
    "I(x[0])",
    "I(x[::-1])",
    "I(x @ z)",
    "I(x << 3)",
    "I(9**9**9**9)",
    "I(x + 9**(9**9))",
    "I((9**-1)**(10**10))",
    "I('a' * 1000000000)",
    "I([1] * 1000000000)",
    "I(1j * x)",
    "I(b'a')",
    "I(...)",
    "I(*x)",
    "C(**x)",
    "C(model, levels=exit())",
    "C(model, exit)",
    "C(model, Treatment(exit()))",
    "C(model, x.mean())",
    "bs(x, df=exit())",
    "bs(x, knots=[open('{0}', 'w')])",
    "Q('x', 'z')",
    "Q(x)",
    "Q('__builtins__')",
    "Q('exit')",
    "demo_data('a')",
    "EvalEnvironment(x)",
    "dmatrix('x')",
    "__builtins__",
    "__import__",
    "exit",
    "np",
    "patsy",
    "formula",
    "data",
    "weights",
    "x in [1, 2]",
    "I(x in [1, 2])",
    "I(x is z)",
    "I(1 < x < 2)",
    # Python reads letters of full width as plain ones.
    "\uff45\uff58\uff49\uff54()",
    "print(x)",
    "abs(x)",
    "pd.cut(x, 3)",
    "center(x).T",
    "Treatment(x)",
    "I(Treatment('ada'))",
]


@pytest.mark.parametrize("term", HOSTILE)
def test_nothing_but_the_grammar_is_run(log, term, table, tmp_path, capsys):
    target = tmp_path / "written"
    term = term.format(target)
    before = log.copy(deep=True)
    for formula in (f"score ~ {term}", f"{term} ~ x", f"score ~ x * {term}"):
        with pytest.raises((FormulaError, MissingColumnError)):
            er.fit(formula, log)
    with pytest.raises((FormulaError, MissingColumnError)):
        er.fit(f"score ~ {term}", log, family="poisson")
    assert main(["fit", f"score ~ {term}", str(table)]) == 3
    assert capsys.readouterr().out == ""
    assert not target.exists()
    pd.testing.assert_frame_equal(log, before)


def test_a_formula_ends_no_process(tmp_path, log, call):
    table = tmp_path / "log.csv"
    log.to_csv(table, index=False)
    # In this process: what ended it would end the test.
    status, out, err = call("fit", "score ~ exit()", table)
    assert (status, out) == (3, "")
    assert "make a column of anything else first" in err


ALLOWED = [
    "x",
    "x + z",
    "x * C(model)",
    "C(model)",
    "C(model, Treatment('bob'))",
    "C(model, Treatment(reference='bob'))",
    "C(model, Sum)",
    "C(model, Sum())",
    "C(model, Helmert)",
    "C(model, Diff)",
    "C(k, Poly)",
    "C(model, levels=['cyd', 'bob', 'ada'])",
    "0 + C(model)",
    "I(x + 2 * z - 1)",
    "I(x**2)",
    "I(2**x)",
    "I(-x)",
    "I(x // 2 + x % 2)",
    "I(x > 2)",
    "I((x > 2) & (z < 1))",
    "I(~(x > 2))",
    "I(model == 'ada')",
    "x / z",
    "(x + z)**2",
    "np.log(x)",
    "np.log1p(np.abs(z))",
    "np.maximum(x, 2)",
    "np.where(x > 2, z, 0)",
    "np.clip(x, 1.5, 2)",
    "np.round(x, 1)",
    "I(x - np.mean(x))",
    "I(np.pi * x)",
    "center(x)",
    "standardize(x)",
    "standardize(x, center=True, rescale=False)",
    "scale(x)",
    "bs(x, df=4)",
    "bs(x, knots=[1.5, 2.5], degree=3, include_intercept=False)",
    "0 + cr(x, df=3)",
    "0 + cc(x, df=3)",
    "te(cr(x, df=3), cr(z, df=3), constraints='center')",
    'Q("a name")',
    "Q('a name'):x",
]


@pytest.mark.parametrize("term", ALLOWED)
def test_what_is_allowed_gives_what_statsmodels_gives(log, term):
    expected = smf.ols(f"score ~ {term}", log).fit()
    found = er.fit(f"score ~ {term}", log)
    assert list(found.params.index) == list(expected.params.index)
    np.testing.assert_allclose(found.params, expected.params, rtol=1e-6, atol=1e-6)


def test_every_function_of_numpy_is_tried(log):
    for name, (fewest, _) in NUMPY.items():
        given = ["x", "z", "k"][:fewest]
        term = f"np.{name}({', '.join(given)})"
        with np.errstate(all="ignore"):
            made = log["z"].to_numpy() + getattr(np, name)(*(log[one].to_numpy() for one in given))
        if np.isfinite(made).all():
            found = er.fit(f"score ~ I(z + {term})", log).params.iloc[1]
            assert found == pytest.approx(np.polyfit(made, log["score"], 1)[0], rel=SAME), name
        else:
            with pytest.raises(EvalregError):
                er.fit(f"score ~ I(z + {term})", log)


@pytest.mark.parametrize(
    ("formula", "plain"),
    [
        ("score ~ `a name`", 'score ~ Q("a name")'),
        ("score ~ np.log(`a name`) + x", 'score ~ np.log(Q("a name")) + x'),
        ('score ~ `say "hi"`', 'score ~ Q("say \\"hi\\"")'),
        ("`a name` ~ x", 'Q("a name") ~ x'),
        ("score ~ Q('with ` inside') + Q('and ` again')", "score ~ Q('with ` inside') + Q('and ` again')"),
        ('score ~ C(model, Treatment("`"))', 'score ~ C(model, Treatment("`"))'),
    ],
)
def test_backticks_quote_columns(formula, plain):
    assert without_backticks(formula) == plain


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("np", "score ~ np.log(x)"),
        ("C", "score ~ C(model)"),
        ("Q", "score ~ Q('a name')"),
        ("Sum", "score ~ C(model, Sum)"),
    ],
)
def test_a_column_that_hides_a_function_is_named(log, name, formula):
    frame = log.assign(**{name: log["z"]})
    with pytest.raises(FormulaError, match=f'"{name}".*hides it'):
        er.fit(formula, frame)
    # As a column it is one like any other.
    np.testing.assert_allclose(er.fit(f"score ~ {name}", frame).params, er.fit("score ~ z", log).params)
