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
# Passages drawn whole from so many in each subject; the second score is that of another model.
log$other <- 1 - log$score * log$weight / 2
for (which in c("drawn", "all_of_one")) {
  sizes <- list(drawn = c(history = 15, law = 40, physics = 22), all_of_one = c(history = 12, law = 40, physics = 22))[[which]]
  log$N <- sizes[log$subject]
  design <- svydesign(ids = ~passage, strata = ~subject, fpc = ~N, data = log)
  means <- svymean(~score + other, design)
  difference <- svycontrast(means, c(score = 1, other = -1))
  shares <- data.frame(subject = names(sizes), Freq = c(300, 500, 200))
  post <- svymean(~score, postStratify(design, ~subject, shares))
  ends <- confint(means, df = degf(design))
  result[[which]] <- list(
    mean = coef(means)[[1]], se = SE(means)[[1]], other = coef(means)[[2]], other_se = SE(means)[[2]],
    difference_se = SE(difference)[[1]], stated = coef(post)[[1]], stated_se = SE(post)[[1]], dof = degf(design),
    lower = ends[1, 1], upper = ends[1, 2]
  )
}
text <- function(x) if (is.list(x)) paste0("{", paste0('"', names(x), '": ', sapply(x, text), collapse = ", "), "}") else
  if (is.character(x)) paste0('"', x, '"') else format(x, digits = 17)
writeLines(text(result), "tests/reference/strata.json")
