# Computes part of the reference values anew from the tables beside it and stops where one is not met:
# Rscript tests/reference/again.R, from the root of a checkout. Needs sandwich, clubSandwich and jsonlite.
suppressMessages({ library(sandwich); library(clubSandwich) })
folder <- "tests/reference/"
met <- 0
reference <- function(name) {
  content <- jsonlite::fromJSON(paste0(folder, name, ".json"), simplifyVector = TRUE)
  table <- read.csv(paste0(folder, name, ".csv"), colClasses = setNames(rep("character", length(content$id_columns)), content$id_columns))
  list(name = name, values = content$values, table = table, formula = content$formula)
}
check <- function(g, key, x) {
  stored <- g$values[[key]]
  if (is.null(stored)) stop(g$name, " has no ", key)
  value <- as.numeric(stored$value)
  if (length(x) != length(value)) stop(g$name, ": ", key, " is of another length")
  if (!(max(abs(as.numeric(x) - value)) <= max(stored$rtol, 1e-9) * max(abs(value)))) stop(g$name, ": ", key)
  met <<- met + 1
}
one_way <- function(g, prefix, fitted, cluster) {
  for (type in c("CR0", "CR1S", "CR1p", "CR2", "CR3"))
    check(g, paste0(prefix, ".", sub("CR1S", "CR1", type)), vcovCR(fitted, cluster = cluster, type = type))
  check(g, paste0(prefix, ".CR1_G"), vcovCR(fitted, cluster = cluster, type = "CR1"))
  check(g, paste0(prefix, ".CV3"), vcovCL(fitted, cluster = cluster, type = "HC3", cadjust = FALSE))
  for (type in c("CR2", "CR3")) {
    tested <- coef_test(fitted, vcov = type, cluster = cluster, test = "Satterthwaite")
    check(g, paste0(prefix, ".", type, ".satt_df"), tested$df_Satt)
    check(g, paste0(prefix, ".", type, ".satt_p"), tested$p_Satt)
  }
}
crossed <- function(g, prefix, fitted, clusters) {
  plain <- vcovCL(fitted, cluster = clusters, type = "HC0", cadjust = FALSE)
  check(g, paste0(prefix, ".plain"), plain)
  check(g, paste0(prefix, ".own"), vcovCL(fitted, cluster = clusters, type = "HC1"))
}
codes <- function(table, columns) as.data.frame(lapply(table[columns], function(x) as.integer(factor(x))))

g <- reference("d1_clustered")
for (score in c("score", "score_f1"))
  one_way(g, paste0(score, ".reg"), lm(reformulate("1", score), g$table), g$table$cluster)
for (name in c("d4_few_g5", "d4_few_g8", "d4_few_g12")) {
  g <- reference(name)
  one_way(g, "cluster", lm(as.formula(g$formula), g$table), g$table$cluster)
}
g <- reference("d3_regression")
fitted <- lm(as.formula(g$formula), g$table)
for (type in c("HC0", "HC1", "HC2", "HC3")) check(g, type, vcovHC(fitted, type))
g$table$w <- 1 + abs(g$table$x1)
exact <- glm.control(epsilon = 1e-14, maxit = 60)
plain <- glm(treat ~ x1 + x2, quasibinomial, g$table, control = exact)
weighted <- glm(treat ~ x1 + x2, quasibinomial, g$table, weights = w, control = exact)
# The working weights of a fit are those of the coefficients one step before.
for (step in 1:3) { plain <- update(plain, start = coef(plain)); weighted <- update(weighted, start = coef(weighted)) }
for (type in c("HC0", "HC1", "HC2", "HC3")) {
  check(g, paste0("glm.", type), vcovHC(plain, type))
  check(g, paste0("glm_weighted.", type), vcovHC(weighted, type))
}
for (name in c("prompt", "judge", "lang")) one_way(g, name, fitted, g$table[[name]])
crossed(g, "twoway", fitted, codes(g$table, c("prompt", "judge")))
crossed(g, "threeway", fitted, codes(g$table, c("prompt", "judge", "lang")))
g <- reference("d3_psd")
crossed(g, "twoway", lm(as.formula(g$formula), g$table), codes(g$table, c("prompt", "judge")))
cat(met, "reference values met by R", as.character(getRversion()), "sandwich", as.character(packageVersion("sandwich")),
    "clubSandwich", as.character(packageVersion("clubSandwich")), "\n")
