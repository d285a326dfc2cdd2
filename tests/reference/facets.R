# Variance components of a balanced crossed and a nested design by REML: Rscript tests/reference/facets.R, from the root of a checkout.
suppressMessages(library(lme4))
set.seed(7)
g <- expand.grid(template = 1:3, judge = 1:4, item = 1:12)
effect <- function(sd, ...) rnorm(1000, 0, sd)[as.integer(interaction(...))]
g$score <- round(with(g, 0.5 + effect(.3, item) + effect(.2, judge) + effect(.15, template) + effect(.15, item, judge) +
  effect(.1, item, template) + effect(.1, judge, template) + rnorm(nrow(g), 0, .1)), 6)
write.csv(g[, c("item", "judge", "template", "score")], "tests/reference/facets.csv", row.names = FALSE)
for (name in c("item", "judge", "template")) g[[name]] <- factor(g[[name]])
control <- lmerControl(optCtrl = list(xtol_abs = 1e-12, ftol_abs = 1e-12, xtol_rel = 1e-12, ftol_rel = 1e-14),
  optimizer = "nloptwrap", calc.derivs = FALSE)
components <- function(formula) {
  found <- as.data.frame(VarCorr(lmer(formula, g, control = control)))
  paste0("{", paste0('"', found$grp, '": ', sprintf("%.12g", found$vcov), collapse = ", "), "}")
}
crossed <- components(score ~ 1 + (1 | item) + (1 | judge) + (1 | template) + (1 | item:judge) + (1 | item:template) +
  (1 | judge:template))
nested <- components(score ~ 1 + (1 | item) + (1 | item:judge))
cat(sprintf('{"crossed": %s,\n "nested": %s,\n "lme4": "%s", "R": "%s"}\n', crossed, nested, packageVersion("lme4"),
  getRversion()), file = "tests/reference/facets.json")
