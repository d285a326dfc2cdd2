# Joint tests of four models over few clusters, by clubSandwich: Rscript tests/reference/joint.R, from the root of a checkout.
suppressMessages(library(clubSandwich))
logs <- read.csv("tests/reference/joint.csv")
result <- list(r = as.character(getRversion()), clubSandwich = as.character(packageVersion("clubSandwich")))
tests <- list(
  means = list(formula = score ~ 0 + model, C = cbind(diag(3), -1)),
  regression = list(formula = score ~ model + x, C = cbind(0, diag(3), 0))
)
for (n in unique(logs$n_passages)) for (name in names(tests)) {
  log <- logs[logs$n_passages == n, ]
  fit <- lm(tests[[name]]$formula, data = log)
  V <- vcovCR(fit, cluster = log$passage, type = "CR2")
  one <- Wald_test(fit, constraints = tests[[name]]$C, vcov = V, test = "HTZ")
  result[[paste(name, n)]] <- list(F = one$Fstat, df_num = one$df_num, df_denom = one$df_denom, p = one$p_val)
}
text <- function(x) if (is.list(x)) paste0("{", paste0('"', names(x), '": ', sapply(x, text), collapse = ", "), "}") else
  if (is.character(x)) paste0('"', x, '"') else format(x, digits = 17)
writeLines(text(result), "tests/reference/joint.json")
