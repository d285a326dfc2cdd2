# Means of a stratified sample of clusters, by survey: Rscript tests/reference/strata.R, from the root of a checkout.
library(survey)
log <- read.csv("tests/reference/strata.csv")
result <- list(r = as.character(getRversion()), survey = as.character(packageVersion("survey")))
for (weighted in c(FALSE, TRUE)) {
  log$w <- if (weighted) log$weight else 1
  design <- svydesign(ids = ~passage, strata = ~subject, weights = ~w, data = log)
  shares <- aggregate(w ~ subject, log, sum)
  names(shares) <- c("subject", "Freq")
  known <- postStratify(design, ~subject, shares)
  name <- if (weighted) "weighted" else "plain"
  estimated <- svymean(~score, design)
  post <- svymean(~score, known)
  ends <- confint(estimated, df = degf(design))
  result[[name]] <- list(
    mean = coef(estimated)[[1]], estimated = SE(estimated)[[1]], known = SE(post)[[1]], dof = degf(design),
    lower = ends[1], upper = ends[2]
  )
}
text <- function(x) if (is.list(x)) paste0("{", paste0('"', names(x), '": ', sapply(x, text), collapse = ", "), "}") else
  if (is.character(x)) paste0('"', x, '"') else format(x, digits = 17)
writeLines(text(result), "tests/reference/strata.json")
