"""Results: an Estimate and its Covariance under statsmodels' names, and their parts."""
