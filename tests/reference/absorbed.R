# Regressions on dummies, by clubSandwich: Rscript tests/reference/absorbed.R, from the root of a checkout.
suppressMessages(library(clubSandwich))
log <- read.csv("tests/reference/absorbed.csv")
log <- log[log$question != 1000, ]
formulas <- list(question = score ~ x + model + factor(question), both = score ~ x + model + factor(question) + factor(judge))
result <- list(r = as.character(getRversion()), clubSandwich = as.character(packageVersion("clubSandwich")))
for (name in names(formulas)) {
  fit <- lm(formulas[[name]], log)
  for (by in c("question", "passage", "judge")) for (type in c("CR0", "CR2")) {
    v <- vcovCR(fit, cluster = log[[by]], type = type)
    t <- coef_test(fit, vcov = v, test = "Satterthwaite", coefs = c("x", "modelb", "modelc"))
    result[[paste(name, by, type, sep = ".")]] <- list(coef = t$beta, se = t$SE, dof = t$df_Satt)
  }
}
number <- function(x) if (length(x) > 1) paste0("[", paste(format(x, digits = 17, trim = TRUE), collapse = ", "), "]") else format(x, digits = 17)
text <- function(x) if (is.list(x)) paste0("{", paste0('"', names(x), '": ', sapply(x, text), collapse = ",\n "), "}") else
  if (is.character(x)) paste0('"', x, '"') else number(x)
writeLines(text(result), "tests/reference/absorbed_dummies.json")
