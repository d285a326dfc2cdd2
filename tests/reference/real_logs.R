# Numbers of survey, lme4 and clubSandwich on real logs: Rscript real_logs.R FOLDER_OF_TABLES > real_logs.json
suppressPackageStartupMessages({ library(survey); library(lme4); library(clubSandwich); library(jsonlite) })
folder <- commandArgs(trailingOnly = TRUE)[1]
log_of <- function(name) read.csv(gzfile(file.path(folder, paste0(name, ".csv.gz"))), stringsAsFactors = FALSE)
found <- list()

# Two stages: 800 of 2,000 questions, ten answers to each of endlessly many.
d <- subset(log_of("cruxeval_codellama7b_samples"), task == "output")
d$row <- seq_len(nrow(d)); d$first <- 800 / 2000; d$second <- 0; d$one <- 1
two <- svymean(~correct, svydesign(id = ~question_id + row, fpc = ~first + second, weights = ~one, data = d))
found$two_stage_se <- as.numeric(SE(two))

# Strata of known sizes: every third question of subjects before "h", every seventh of the others.
d <- subset(log_of("mmlu_pro_scores"), model == "Mistral-7B-Instruct-v0.2")
N <- table(d$category)
d <- d[d$question_id %% ifelse(d$category < "h", 3, 7) == 0, ]
n <- table(d$category)
d$N <- as.numeric(N[d$category]); d$w <- d$N / as.numeric(n[d$category])
s <- svymean(~correct, svydesign(id = ~1, strata = ~category, fpc = ~N, weights = ~w, data = d))
found$strata_mean <- as.numeric(coef(s)); found$strata_se <- as.numeric(SE(s))

# Variance components of one model's grades: questions crossed with judges, no grade missing.
d <- log_of("mtbench_enko_single")
d <- subset(d, language == "en" & turn == 1 & graded_with_reference == 0 & model == "EEVE-Korean-Instruct-10.8B")
whole <- names(which(tapply(!is.na(d$score), d$question_id, sum) == 6))
d <- subset(d, question_id %in% whole)
fit <- lmer(score ~ 1 + (1 | question_id) + (1 | judge), data = d, control = lmerControl(optCtrl = list(xtol_rel = 1e-12, ftol_abs = 1e-14)))
v <- as.data.frame(VarCorr(fit))
found$components <- setNames(as.list(v$vcov), v$grp)

# A regression with a dummy for each task, clustered by user: CR2 and Satterthwaite degrees of freedom.
d <- log_of("tau_bench_airline_gpt4o_trials")
fit <- lm(reward ~ n_messages + factor(task_id), data = d)
test <- coef_test(fit, vcov = "CR2", cluster = d$user_id, test = "Satterthwaite", coefs = "n_messages")
found$within_tasks <- list(coef = test$beta, se = test$SE, dof = test$df_Satt)

found$versions <- lapply(c(survey = "survey", lme4 = "lme4", clubSandwich = "clubSandwich"), function(p) as.character(packageVersion(p)))
cat(toJSON(found, auto_unbox = TRUE, digits = 15, pretty = TRUE), "\n")
